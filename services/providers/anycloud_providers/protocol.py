"""What the product asks of a cloud, whichever it is. The docstrings fix the meaning of answers and errors.

Common to all calls, of every provider:

* Everything happens in the account of the credential (`Identity.account`). `not_found` is that account's answer only:
  it says nothing about a resource that was made in another one.
* **Create** twice with the same token gives the same resource, also after a lost answer; the token with other
  arguments is `conflict`. Providers forget tokens in the end: look up by tag before creating.
* **Delete** is asked by the provider's id, and repeating it is success, also for an id that is gone.
* **List** gives every resource of the account that has all the tags, in all regions, or raises: never a part.
* Each call has a deadline and raises ProviderError. After `unreachable` the call may have taken effect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

ErrorKind = Literal["capacity", "quota", "auth", "throttled", "conflict", "not_found", "unreachable", "invalid"]
ProviderKind = Literal["AWS", "GCP", "Azure"]
MachineState = Literal["pending", "running", "stopping", "terminated"]


class ProviderError(Exception):
    """A call failed; the text is the provider's own.

    capacity     the cloud has no such machine to sell there now: wait, or another zone
    quota        a limit of the account: only its owner can raise it
    auth         the credential isn't accepted, or lacks a right: repeating won't help
    throttled    too many calls: wait
    conflict     the resource is in use, exists with other content, or changed meanwhile
    not_found    the account has no such resource
    unreachable  no answer, or none that can be read: nothing is known, not even whether the call took effect
    invalid      the cloud will never accept this request
    """

    def __init__(self, kind: ErrorKind, message: str) -> None:
        super().__init__(message)
        self.kind: ErrorKind = kind
        self.message = message


@dataclass(frozen=True)
class Rule:
    """Lets traffic in: these ports from these sources (CIDR)."""

    ports: tuple[int, ...]
    sources: tuple[str, ...]
    protocol: Literal["tcp", "udp"] = "tcp"


@dataclass(frozen=True)
class NetworkSpec:
    """An isolated network in one region. Without rules nothing comes in; everything may go out."""

    token: str
    name: str
    region: str
    tags: Mapping[str, str]
    rules: tuple[Rule, ...] = ()


@dataclass(frozen=True)
class Network:
    id: str
    token: str
    name: str
    region: str
    tags: Mapping[str, str]
    rules: tuple[Rule, ...]


@dataclass(frozen=True)
class AddressSpec:
    """A public address that outlives the machine that uses it."""

    token: str
    name: str
    region: str
    tags: Mapping[str, str]


@dataclass(frozen=True)
class Address:
    id: str
    token: str
    name: str
    region: str
    tags: Mapping[str, str]
    ip: str


@dataclass(frozen=True)
class MachineSpec:
    """A machine to buy. `network` and `address` are ids; `user_data` is cloud-config and may hold secrets."""

    token: str
    name: str
    region: str
    zone: str | None
    vm_type: str
    image: str
    network: str
    tags: Mapping[str, str]
    user_data: str = field(repr=False)
    address: str | None = None


@dataclass(frozen=True)
class Machine:
    """A machine as the provider shows it.

    `terminated` is final: the machine is gone and no longer billed. It stays visible for a while. `address` is the
    public IP, absent while there is none; `failure` is the provider's own reason of a machine that ended by itself.
    """

    id: str
    token: str
    name: str
    state: MachineState
    region: str
    zone: str | None
    vm_type: str
    image: str
    network: str
    tags: Mapping[str, str]
    address: str | None
    ssh_port: int
    created_at: str
    failure: str | None


@dataclass(frozen=True)
class Bucket:
    """A bucket. `managed`: made by us, so it may be emptied and deleted; a bucket of the user's never is."""

    name: str
    region: str
    tags: Mapping[str, str]
    versioning: bool
    managed: bool


@dataclass(frozen=True)
class StoredObject:
    """One version of an object in a bucket. `latest` is false for versions that another one replaced."""

    key: str
    version: str
    etag: str
    size: int
    latest: bool


@dataclass(frozen=True)
class Content:
    """The bytes of one version of an object."""

    data: bytes = field(repr=False)
    etag: str
    version: str


class Identity(Protocol):
    """Whose credential it is."""

    async def account(self) -> str:
        """Account, project or subscription, as the cloud itself says it. `auth`: the credential isn't accepted."""
        ...


class Networks(Protocol):
    """Isolated networks with their rules."""

    async def create(self, spec: NetworkSpec) -> Network: ...

    async def set_rules(self, network_id: str, rules: Sequence[Rule]) -> Network:
        """Replaces all rules; the same rules again are success."""
        ...

    async def delete(self, network_id: str) -> None:
        """`conflict` while machines are in it that aren't terminated."""
        ...

    async def list(self, tags: Mapping[str, str]) -> Sequence[Network]: ...


class Addresses(Protocol):
    """Public addresses."""

    async def create(self, spec: AddressSpec) -> Address: ...

    async def delete(self, address_id: str) -> None:
        """`conflict` while a machine uses it that isn't terminated."""
        ...

    async def list(self, tags: Mapping[str, str]) -> Sequence[Address]: ...


class Machines(Protocol):
    """Virtual machines."""

    async def create(self, spec: MachineSpec) -> Machine:
        """Buys the machine, which is `pending` then. `capacity` and `quota`: nothing was bought.

        A token whose machine is terminated gives that machine again: a new attempt needs a new token.
        """
        ...

    async def describe(self, machine_id: str) -> Machine:
        """The machine, terminated ones for a while included. `not_found`: the account doesn't have it (any more)."""
        ...

    async def find(self, token: str) -> Machine | None:
        """The machine that was made with that token, or None when this account made none."""
        ...

    async def list(self, tags: Mapping[str, str], region: str | None = None) -> Sequence[Machine]:
        """Machines of all regions, or of one, terminated ones as far as they are still visible."""
        ...

    async def delete(self, machine_id: str) -> None:
        """Begins the end of a machine: only `terminated` or `not_found` in `describe` confirm it."""
        ...


class Buckets(Protocol):
    """Buckets, whose names are unique over all accounts of a cloud."""

    async def create(self, name: str, region: str, tags: Mapping[str, str]) -> Bucket:
        """A bucket made by us, with these tags. The same again is success; `conflict`: the name is another's."""
        ...

    async def head(self, name: str) -> Bucket:
        """`not_found`: no bucket of that name in the cloud. `auth`: it is another account's."""
        ...

    async def set_versioning(self, name: str, *, enabled: bool) -> Bucket: ...

    async def delete(self, name: str) -> None:
        """`conflict` while it holds any version of any object."""
        ...


class Objects(Protocol):
    """Objects in buckets. `not_found` for an unknown bucket in all calls."""

    async def put(
        self, bucket: str, key: str, data: bytes, *, if_match: str | None = None, if_absent: bool = False
    ) -> StoredObject:
        """Stores a new latest version. `conflict`: the latest one has another etag than `if_match`, or exists."""
        ...

    async def get(self, bucket: str, key: str, version: str | None = None) -> Content:
        """The latest version, or that one. `not_found`: there is none."""
        ...

    async def list(self, bucket: str, prefix: str = "") -> Sequence[StoredObject]:
        """The latest version of every object below the prefix, sorted by key."""
        ...

    async def list_versions(self, bucket: str, prefix: str = "") -> Sequence[StoredObject]:
        """All versions of all objects below the prefix, sorted by key, newest first."""
        ...

    async def delete_version(self, bucket: str, key: str, version: str) -> None:
        """Removes that one version for good; one that is gone is success."""
        ...


class Closing(Protocol):
    """What holds the connections of a provider."""

    async def close(self) -> None: ...


@dataclass(frozen=True)
class Provider:
    """One cloud under one credential. Close it when done."""

    kind: ProviderKind
    identity: Identity
    networks: Networks
    addresses: Addresses
    machines: Machines
    buckets: Buckets
    objects: Objects
    closing: Closing

    async def close(self) -> None:
        await self.closing.close()
