"""A cluster: its states, the phases of its making and of its end, and the facts on record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final


class State(StrEnum):
    PROVISIONING = "provisioning"
    INITIALIZING = "initializing"
    STARTING = "starting"
    RUNNING = "running"
    FAILED = "failed"
    TERMINATED = "terminated"


class Intent(StrEnum):
    CREATE = "create"
    DELETE = "delete"
    NONE = ""


class DeleteStage(StrEnum):
    """How far the question to the hosted API is: asked and maybe unanswered, or being taken back."""

    FENCING = "fencing"
    WITHDRAWING = "withdrawing"
    NONE = ""


# Phases in order, with the state that stands for each.
CREATE_PHASES: Final[Mapping[str, State]] = {
    "bucket": State.PROVISIONING,
    "network": State.PROVISIONING,
    "machine": State.PROVISIONING,
    "k3s": State.INITIALIZING,
    "connection": State.INITIALIZING,
    "release": State.STARTING,
    "dns": State.STARTING,
    "serve": State.STARTING,
}
DELETE_PHASES: Final = ("machine", "bucket", "dns-record", "certificate", "address", "network", "close")

API_CHART: Final = "anycloud-api"
HOLD_OWNER: Final = "cluster"


def next_phase(phases: tuple[str, ...], phase: str) -> str:
    """The one that follows; empty after the last."""
    at = phases.index(phase) + 1
    return phases[at] if at < len(phases) else ""


@dataclass(frozen=True)
class Target:
    """What a cluster was asked for."""

    credential_name: str
    region: str
    zone: str | None
    vm_type: str
    bucket: str | None  # None: a managed one


@dataclass(frozen=True)
class Cluster:
    """A row. `own` is a hosted API's record of the cluster that it runs on. Sealed columns are bytes."""

    id: str
    name: str
    name_key: str
    own: bool
    state: State
    intent: Intent
    phase: str
    phase_since: int
    interrupted: bool
    blocked: bool
    releasing: bool
    failures: int
    credential_id: str
    credential_name: str
    provider: str | None
    account: str | None
    region: str | None
    zone: str | None
    vm_type: str | None
    k3s_version: str | None
    k3s_sha256: str | None
    helm_job_image: str | None
    api_version: str
    api_image: str
    chart_version: str
    chart_digest: str | None
    bucket: str | None
    bucket_managed: bool
    created_by: str
    owner_user_id: str
    owner_username: str
    ssh_port: int
    address: str | None
    endpoint: str | None
    ca: str | None
    kubernetes_identity: str | None
    connection_revision: int
    api_url: str | None
    release_revision: int
    released: bool
    served: bool
    certificates: int
    connected: bool
    last_error: str | None
    accepting: bool
    delete_id: str | None
    delete_stage: DeleteStage
    sealed_github_token: bytes | None = field(repr=False)
    sealed_keys: bytes | None = field(repr=False)
    sealed_connection: bytes | None = field(repr=False)
    version: int
    created_at: int
    updated_at: int

    @property
    def live(self) -> bool:
        """Whether it counts as existing: until its end is complete."""
        return self.state is not State.TERMINATED or self.intent is Intent.DELETE

    @property
    def deleting(self) -> bool:
        return self.intent is Intent.DELETE

    @property
    def being_created(self) -> bool:
        """Whether this API is at work on it: nothing else may touch it meanwhile."""
        at_work = self.intent is Intent.CREATE and self.state is not State.FAILED
        return at_work and not self.interrupted and not self.blocked

    @property
    def target(self) -> Target:
        bucket = None if self.bucket_managed else self.bucket
        return Target(self.credential_name, self.region or "", self.zone, self.vm_type or "", bucket)

    @property
    def domain(self) -> str:
        """The name that its API's record has in DNS."""
        return f"{self.id}.anycloud.sh"

    def token(self, what: str) -> str:
        """Token of one of its resources in the ledger. Ids of clusters are never used again, so tokens aren't."""
        return f"{self.id}-{what}"
