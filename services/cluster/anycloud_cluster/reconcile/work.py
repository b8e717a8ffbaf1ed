"""What a phase works with: the cluster as it is now, its lease, its secrets, the world outside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from anycloud_common import holds
from anycloud_common.cipher import Cipher
from anycloud_common.clock import Clock
from anycloud_common.store import Store, Tx

from anycloud_cluster.domain.cluster import Cluster
from anycloud_cluster.domain.credential import Document
from anycloud_cluster.domain.ports import Cluster as Kubernetes
from anycloud_cluster.domain.ports import Clusters, Connection, HostedApi, Names, SignInRefused, Ssh, SshTarget
from anycloud_cluster.domain.resource import ROLE_MANAGEMENT, Kind, Resource, Wanted
from anycloud_cluster.store import clusters, credentials, events, ledger
from anycloud_cluster.store.ledger import Ledger
from anycloud_cluster.store.tables import PREFIX

OWNER = "cluster"


class Superseded(Exception):
    """Somebody else has the cluster now: what this pass learnt is dropped, and nothing is undone."""


class Permanent(Exception):
    """Trying again changes nothing; the text is one sentence for the user."""


@dataclass(frozen=True)
class Next:
    """The phase is complete."""


@dataclass(frozen=True)
class Wait:
    """Another look is due after so many seconds, or earlier when something changes. `error`: what the wait is for, if
    something went wrong."""

    seconds: float
    error: str | None = None


Step = Next | Wait


@dataclass(frozen=True)
class Outside:
    """The world outside, and what reaches into it."""

    ssh: Ssh
    clusters: Clusters
    names: Names
    hosted: HostedApi
    sandbox_url: str | None


@dataclass(frozen=True)
class Tools:
    store: Store
    cipher: Cipher
    book: Ledger
    outside: Outside
    clock: Clock


class Work:
    """One pass over one cluster, under its lease."""

    def __init__(self, tools: Tools, cluster: Cluster, lease: str) -> None:
        self.cluster = cluster
        self.outside = tools.outside
        self.clock = tools.clock
        self._tools = tools
        self._lease = lease

    async def save(self, **changes: Any) -> None:
        """Stores facts. Raises Superseded."""
        await self._tools.store.write(partial(self._save, changes))

    async def record(self, reason: str, message: str, **changes: Any) -> None:
        """Stores facts together with a line of the event log. Raises Superseded."""

        def write(tx: Tx) -> None:
            self._save(changes, tx)
            events.append(tx, self.cluster.id, reason, message)

        await self._tools.store.write(write)

    async def count(self, reason: str) -> int:
        """Lines of the event log with that reason since the step was begun, or begun again by a person."""
        log = await self._tools.store.read(lambda conn: events.of_cluster(conn, self.cluster.id))
        return sum(line.reason == reason and line.at >= self.cluster.phase_since for line in log)

    async def ensure(
        self, what: str, kind: Kind, name: str, spec: Mapping[str, Any], *, user_data: bytes | None = None
    ) -> Resource:
        """The resource of that token in the ledger, recorded now if it is new. Raises Superseded."""
        wanted = self._wanted(what, kind, name, spec, user_data)

        def write(tx: Tx) -> Resource:
            self._save({}, tx)
            return self._tools.book.ensure(tx, wanted, self.cluster.id)

        return await self._tools.store.write(write)

    async def try_again(self, row: Resource) -> None:
        """Another attempt, counted, at a resource whose last one failed; the request is the same. Raises Superseded."""

        def write(tx: Tx) -> None:
            self._save({"failures": self.cluster.failures + 1}, tx)
            self._tools.book.try_again(tx, row)

        await self._tools.store.write(write)

    async def resource(self, what: str) -> Resource | None:
        token = self.cluster.token(what)
        return await self._tools.store.look(lambda conn: ledger.find(conn, token))

    async def resources(self, kind: str) -> Sequence[Resource]:
        """All of that kind that the ledger ever had for this cluster."""
        rows = await self._tools.store.read(lambda conn: ledger.of_owner(conn, OWNER, self.cluster.id))
        return [row for row in rows if row.kind == kind]

    async def learnt(self, row: Resource, **facts: Any) -> None:
        """Facts of a resource that was made here, true whoever has the cluster."""
        await self._tools.store.write(partial(self._tools.book.made, row=row, changes=facts, guard=None))

    async def release(self, row: Resource) -> None:
        """Final."""
        await self._tools.store.write(lambda tx: self._tools.book.release(tx, row.id))

    async def credential(self) -> Document:
        """The compute credential in clear. Raises Permanent when none of that account is stored any more."""
        cluster = self.cluster
        provider, account = cluster.provider or "", cluster.account or ""
        found = await self._tools.store.read(
            lambda conn: credentials.of_account(conn, provider, account, cluster.credential_id)
        )
        if found is None:
            raise Permanent(f"No stored credential is of {provider} account {account} any more.")
        return credentials.opened(self._tools.cipher, found)

    async def let_go_of_credential(self, **changes: Any) -> None:
        """Stores facts, and ends the hold on the compute credential. Raises Superseded."""

        def write(tx: Tx) -> None:
            self._save(changes, tx)
            holds.release(tx, PREFIX, [self.cluster.token("credential")])

        await self._tools.store.write(write)

    def secret(self, column: clusters.Secret) -> Any:
        return clusters.opened(self._tools.cipher, self.cluster, column)

    def sealed(self, column: clusters.Secret, value: Any) -> bytes:
        return clusters.seal(self._tools.cipher, self.cluster.id, column, value)

    def github_token(self) -> str:
        """Raises SignInRefused when none is kept."""
        token = self.secret("sealed_github_token")
        if not token:
            raise SignInRefused("no GitHub sign-in is at hand")
        return str(token)

    def ssh_target(self) -> SshTarget:
        keys = self.secret("sealed_keys")
        address = self.cluster.address or ""
        return SshTarget(address, self.cluster.ssh_port, keys["hostPublic"], keys["userPrivate"])

    def kubernetes(self) -> Kubernetes:
        """The cluster through the installer's connection; close it when done."""
        stored = self.secret("sealed_connection")
        return self.outside.clusters.open(Connection(**stored))

    def _save(self, changes: Mapping[str, Any], tx: Tx) -> None:
        new = clusters.guarded_change(tx, self.cluster, self._lease, changes)
        if new is None:
            raise Superseded
        self.cluster = new

    def _wanted(self, what: str, kind: Kind, name: str, spec: Mapping[str, Any], user_data: bytes | None) -> Wanted:
        cluster = self.cluster
        return Wanted(
            token=cluster.token(what),
            kind=kind,
            role=ROLE_MANAGEMENT,
            owner_kind=OWNER,
            owner_id=cluster.id,
            credential_id=cluster.credential_id,
            provider=cluster.provider or "",
            account=cluster.account or "",
            region=cluster.region or "",
            zone=cluster.zone,
            name=name,
            spec=dict(spec),
            user_data=user_data,
        )
