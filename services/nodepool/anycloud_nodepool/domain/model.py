"""Node pools and their VMs as the rules see them. Times are epoch milliseconds, but those that end in `_seen`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """Of a pool, in the plain words of refusals."""

    CREATING = "creating"
    RUNNING = "running"
    FAILED = "failed"
    DELETING = "deleting"
    DELETED = "deleted"


@dataclass(frozen=True)
class Counts:
    """VMs of a pool. A VM counts once, or not at all."""

    ready: int = 0
    starting: int = 0
    draining: int = 0


@dataclass(frozen=True)
class Pool:
    """A node pool. `gpus` are the NVIDIA devices of one VM by the catalog; 0 for a CPU pool.

    `parked` is why it provisions nothing ever again. `was_ready`: all its VMs were Ready at one time.
    `provider_failures` counts failed purchases in a row, up to `failed_at`; the next try comes at `retry_at`.
    """

    id: str
    name: str
    cluster_id: str
    credential_id: str
    credential_name: str
    provider: str
    region: str
    zone: str | None
    vm_type: str
    vm_count: int
    gpus: int
    created_by: str
    created_at: int
    updated_at: int
    visible: bool = True
    state: State = State.CREATING
    last_error: str | None = None
    counts: Counts = Counts()
    was_ready: bool = False
    parked: str | None = None
    provider_failures: int = 0
    failed_at: int = 0
    retry_at: int = 0
    provider_error: str | None = None
    checked_at: int = 0
    connection_problem: str | None = None
    addon_problem: str | None = None
    namespace: str | None = None
    namespace_uid: str | None = None
    namespace_error: str | None = None
    policy_uid: str | None = None
    deletion_requested_at: int | None = None
    deleted_at: int | None = None

    @property
    def deleting(self) -> bool:
        return self.deletion_requested_at is not None and self.deleted_at is None

    @property
    def nvidia(self) -> bool:
        return self.gpus > 0


class Stage(StrEnum):
    """Of an attempt. The order is that of a VM's life; from each of the first three it may go on to `draining`."""

    BUYING = "buying"  # asked for; the provider hasn't confirmed it
    JOINING = "joining"  # the VM exists, its Node doesn't
    JOINED = "joined"  # its Node exists
    DRAINING = "draining"  # to be ended
    RELEASED = "released"  # the provider confirmed that the VM is gone
    CLOSED = "closed"  # nothing is left of it in the cluster either


class Loss(StrEnum):
    """Why an attempt ended."""

    REFUSED = "refused"  # the provider sold no VM
    VANISHED = "vanished"  # ended by somebody else
    NEVER_JOINED = "never-joined"
    NOT_READY = "not-ready"
    DELETED = "deleted"  # with its pool


@dataclass(frozen=True)
class Attempt:
    """One VM of a pool: bought for a `place` (0 to count - 1), with names and a token of its own.

    `number` is the order of issue over all pools, never used twice in one incarnation. `replacement`: how many losses
    in a row led to it, 0 for the first VM of its place. Values of `_seen` are on the clock of `sight.Sight`, which
    stands still while the cluster can't be read.
    """

    id: str
    number: int
    pool_id: str
    place: int
    replacement: int
    node_name: str
    token_id: str
    stage: Stage
    created_at: int
    token_expires_at: int = 0
    token_uid: str | None = None
    token_gone: bool = False
    address: str = ""
    bought_at: int | None = None
    bought_seen: int | None = None
    node_uid: str | None = None
    node_ready: bool = False
    ready_at: int | None = None
    not_ready_seen: int | None = None
    no_devices_seen: int | None = None
    cordoned: bool = False
    loss: Loss | None = None
    loss_detail: str | None = None
    released_at: int | None = None

    @property
    def open(self) -> bool:
        """Whether its VM may exist."""
        return self.stage not in (Stage.RELEASED, Stage.CLOSED)

    @property
    def working(self) -> bool:
        """Whether its VM is, or is to become, one of the pool's."""
        return self.stage in (Stage.BUYING, Stage.JOINING, Stage.JOINED)


@dataclass(frozen=True)
class NodeFact:
    """A Node as the cluster has it now. `gpus`: allocatable NVIDIA devices, in use or not."""

    name: str
    uid: str
    labels: Mapping[str, str]
    ready: bool
    cordoned: bool = False
    gpus: int = 0


class ResourceState(StrEnum):
    """Of something that the ledger holds."""

    PENDING = "pending"
    RUNNING = "running"
    FAILED = "failed"
    LOST = "lost"
    RELEASING = "releasing"
    RELEASED = "released"


@dataclass(frozen=True)
class ResourceFact:
    """What the ledger knows. `failure` is the provider's class and text while it refuses, `failed_at` when it did."""

    token: str
    state: ResourceState
    address: str = ""
    created_at: int = 0
    attempt: int = 1
    failure: str | None = None
    failed_at: int = 0
    version: int = 0


@dataclass(frozen=True)
class ClusterFact:
    """The cluster that this API runs on. `ca` is its server CA in PEM, `identity` the UID of kube-system."""

    id: str
    name: str
    state: str
    accepting: bool
    identity: str
    endpoint: str
    ca: str
    management_api_url: str = ""


@dataclass(frozen=True)
class CredentialFact:
    id: str
    name: str
    provider: str
