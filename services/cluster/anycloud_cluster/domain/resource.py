"""Resources of the ledger: what they are, which states they have, in which order they go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final


class Kind(StrEnum):
    MACHINE = "machine"
    ADDRESS = "address"
    NETWORK = "network"
    BUCKET = "bucket"
    DNS_RECORD = "dns-record"
    CERTIFICATE = "certificate"


# The order of deletion: a release waits until nothing of these kinds of the same owner is there any more.
RELEASED_AFTER: Final[Mapping[Kind, frozenset[Kind]]] = {
    Kind.MACHINE: frozenset(),
    Kind.ADDRESS: frozenset({Kind.MACHINE}),
    Kind.NETWORK: frozenset({Kind.MACHINE}),
    Kind.BUCKET: frozenset({Kind.MACHINE}),  # what runs on the machine may still write into it
    Kind.DNS_RECORD: frozenset(),
    Kind.CERTIFICATE: frozenset(),
}
CLOUD_KINDS: Final = frozenset({Kind.MACHINE, Kind.ADDRESS, Kind.NETWORK, Kind.BUCKET})


class State(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    FAILED = "failed"  # this attempt ended without it
    LOST = "lost"  # the provider, asked with its account, shows it gone
    RELEASING = "releasing"
    RELEASED = "released"
    ABANDONED = "abandoned"  # its cluster was forgotten: it may exist, and nobody here touches it


# Of these nobody asks the provider any more.
ENDED: Final = frozenset({State.RELEASED, State.ABANDONED})

# Nothing is known about the call, or it will be taken later: the same attempt goes on.
TRANSIENT: Final = frozenset({"unreachable", "throttled"})

# How a refused GitHub sign-in starts, as a code that scripts may look for.
SIGN_IN_REQUIRED: Final = "GITHUB_SIGN_IN_REQUIRED: "

CREATE_BACKOFF_S: Final = (1.0, 60.0)
RELEASE_BACKOFF_S: Final = (60.0, 1800.0)
# A create whose outcome isn't known may take effect this long after it was sent, and be listed only then.
SETTLE_MS: Final = 30_000


def backoff(bounds: tuple[float, float], failures: int) -> float:
    """Seconds until the next try after so many failures in a row: the first bound, doubling to the second."""
    first, longest = bounds
    return float(min(longest, first * 2 ** max(0, min(failures - 1, 20))))


@dataclass(frozen=True)
class Failure:
    """The provider's last refusal; `count` in a row. `kind` is one of its eight classes."""

    kind: str
    message: str
    at: int
    count: int


@dataclass(frozen=True)
class Wanted:
    """A resource as its owner asks for it. `spec` holds what the kind needs and no secret."""

    token: str
    kind: Kind
    role: str
    owner_kind: str
    owner_id: str
    credential_id: str
    provider: str
    account: str
    region: str
    zone: str | None
    name: str
    spec: Mapping[str, Any]
    user_data: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Resource:
    """A row of the ledger. `sent_at`: a create was sent and its outcome isn't known yet."""

    id: str
    kind: str
    role: str
    owner_kind: str
    owner_id: str
    credential_id: str
    provider: str
    account: str
    region: str
    zone: str | None
    name: str
    spec: Mapping[str, Any]
    sealed_user_data: bytes | None = field(repr=False)
    tags: Mapping[str, str]
    attempt: int
    state: State
    provider_id: str
    address: str
    ssh_port: int
    url: str
    sent_at: int | None
    confirmed_at: int | None
    failure_kind: str | None
    failure_message: str | None
    failure_at: int | None
    failure_count: int
    version: int
    created_at: int
    updated_at: int

    @property
    def failure(self) -> Failure | None:
        if self.failure_kind is None:
            return None
        return Failure(self.failure_kind, self.failure_message or "", self.failure_at or 0, self.failure_count)


# Tags on everything that has tags
TAG_API: Final = "anycloud_owner_api"
TAG_LEDGER: Final = "anycloud_ledger"
TAG_ROLE: Final = "anycloud_role"
TAG_OWNER: Final = "anycloud_owner"
TAG_INCARNATION: Final = "anycloud_incarnation"

ROLE_MANAGEMENT: Final = "management"
ROLE_POOL: Final = "pool"


@dataclass(frozen=True)
class LedgerIdentity:
    """Which ledger a resource belongs to: `installer-<installation>` or `hosted`, and which life of it."""

    ledger: str
    incarnation: str

    def tags(self, cluster_id: str, wanted: Wanted) -> dict[str, str]:
        return {
            TAG_API: cluster_id,
            TAG_LEDGER: self.ledger,
            TAG_ROLE: wanted.role,
            TAG_OWNER: wanted.owner_id,
            TAG_INCARNATION: self.incarnation,
        }
