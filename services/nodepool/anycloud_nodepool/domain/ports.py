"""The outside world as nodepool sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from anycloud_nodepool.domain.model import ClusterFact, CredentialFact, NodeFact, ResourceFact

Object = dict[str, Any]


class ClusterUnavailable(Exception):
    """The cluster service gave no answer; whether it did what was asked is unknown."""

    unavailable = True  # the server answers it with the operation's declared 503


class LedgerRefused(Exception):
    """The ledger will never do what was asked; says why."""


@dataclass(frozen=True)
class MachineOrder:
    """A VM to be bought. `token` is the attempt's id; asking twice with one token gives one VM."""

    token: str
    pool_id: str
    credential_id: str
    region: str
    zone: str | None
    name: str
    vm_type: str
    image: str
    network_token: str
    labels: Mapping[str, str]
    user_data: bytes = field(repr=False)


@dataclass(frozen=True)
class NetworkOrder:
    """A network that lets its VMs out, and in only what `rules` say; none: nothing."""

    token: str
    pool_id: str
    credential_id: str
    region: str
    zone: str | None
    name: str
    attempt: int


class Ledger(Protocol):
    """Everything made outside, kept by the cluster service. All calls raise ClusterUnavailable."""

    async def machine(self, order: MachineOrder) -> ResourceFact:
        """Has it made; what is known now. Raises LedgerRefused, also for a token that was released before."""
        ...

    async def network(self, order: NetworkOrder) -> ResourceFact:
        """Has it made; what is known now. Raises LedgerRefused."""
        ...

    async def release(self, token: str) -> ResourceFact:
        """Final, for an unknown token too; the ledger repeats the deletion until the provider confirms it."""
        ...

    async def resources(self, pool_id: str) -> Sequence[ResourceFact]:
        """All that was ever asked for in the pool's name."""
        ...


class Clusters(Protocol):
    """What the cluster service says about clusters and credentials. Both calls raise ClusterUnavailable."""

    async def find(self, id_or_name: str) -> ClusterFact | None:
        """The live cluster of that id or name; of an empty one: the only live cluster."""
        ...

    async def credential(self, name: str) -> CredentialFact | None: ...


class View(Protocol):
    """The cluster as watches report it."""

    @property
    def synced(self) -> bool:
        """Whether the rest can be relied on."""
        ...

    def nodes(self, pool_id: str) -> Sequence[NodeFact]:
        """Nodes that claim the pool, by label or by a name that was issued for it."""
        ...

    def policy(self, namespace: str, name: str) -> Object | None:
        """A NetworkPolicy."""
        ...


class Kubernetes(Protocol):
    """The cluster's API. All calls raise KubeError; those that create raise Foreign for a stranger's object."""

    async def problems(self, identity: str) -> Sequence[str]:
        """Why the cluster can't be managed, as sentences: another identity, an unsupported version, missing
        permissions."""
        ...

    async def get(self, kind: str, name: str, namespace: str | None = None) -> Object | None: ...

    async def names(self, kind: str, namespace: str) -> Mapping[str, str]:
        """UIDs of all objects there, by name."""
        ...

    async def list(self, kind: str, namespace: str, labels: Mapping[str, str]) -> Sequence[Object]: ...

    async def create(self, kind: str, body: Object) -> Object:
        """KubeError(conflict) when the name is taken."""
        ...

    async def ensure(self, kind: str, body: Object, owner: Mapping[str, str]) -> Object:
        """Creates it, or finds it ours; as `anycloud_common.kube.Kube.ensure`."""
        ...

    async def apply(self, kind: str, body: Object) -> Object:
        """Brings our object, whose UID the body has, to this content."""
        ...

    async def patch(self, kind: str, name: str, uid: str, change: Object) -> None:
        """Merges the change into an object of the whole cluster that others made."""
        ...

    async def delete(self, kind: str, name: str, namespace: str | None, uid: str) -> bool:
        """Deletes that very object. True: gone. False: on its way."""
        ...
