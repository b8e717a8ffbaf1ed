"""A cloud in memory, for tests of what buys from clouds.

`FakeCloud` is the world; `cloud.provider("acct")` is that world under one account's credential. Machines move only by
`settle`; `fail` and `lose` make the next calls of an action fail before, or after, their work is done.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from anycloud_providers.protocol import (
    Address,
    AddressSpec,
    Bucket,
    Content,
    ErrorKind,
    Machine,
    MachineSpec,
    MachineState,
    Network,
    NetworkSpec,
    Provider,
    ProviderError,
    ProviderKind,
    Rule,
    StoredObject,
)

T = TypeVar("T")
Item = TypeVar("Item", Network, Address, Machine)
Spec = NetworkSpec | AddressSpec | MachineSpec


@dataclass
class _Made:
    """What an account made: by id, and by token the specification it was made from."""

    items: dict[str, Network | Address | Machine] = field(default_factory=dict)
    specs: dict[str, Spec] = field(default_factory=dict)


@dataclass(frozen=True)
class _Version:
    content: Content
    key: str


@dataclass
class _Bucket:
    account: str
    bucket: Bucket
    objects: dict[str, list[_Version]] = field(default_factory=dict)


class FakeCloud:
    """One cloud. `calls` lists what was asked: (account, action)."""

    def __init__(self, kind: ProviderKind = "AWS") -> None:
        self.kind = kind
        self.calls: list[tuple[str, str]] = []
        self.revoked: set[str] = set()
        self.buckets: dict[str, _Bucket] = {}
        self._made: dict[str, _Made] = {}
        self._faults: list[tuple[str, ErrorKind | None]] = []
        self._numbers = itertools.count(1)

    def provider(self, account: str = "account") -> Provider:
        return Provider(
            kind=self.kind,
            identity=_Identity(self, account),
            networks=_Networks(self, account),
            addresses=_Addresses(self, account),
            machines=_Machines(self, account),
            buckets=_Buckets(self, account),
            objects=_Objects(self, account),
            closing=_Nothing(),
        )

    def fail(self, action: str, kind: ErrorKind, times: int = 1) -> None:
        """The next calls of that action ("create_machine", "list_networks", …) fail before any work."""
        self._faults += [(action, kind)] * times

    def lose(self, action: str, times: int = 1) -> None:
        """The next calls of that action do their work, and their answer gets lost."""
        self._faults += [(action, None)] * times

    def settle(self, account: str = "account") -> None:
        """Pending machines of an account run, stopping ones are terminated."""
        made = self.made(account)
        steps: dict[str, MachineState] = {"pending": "running", "stopping": "terminated"}
        for machine in made.items.values():
            if isinstance(machine, Machine) and machine.state in steps:
                made.items[machine.id] = replace(machine, state=steps[machine.state])

    def end(self, machine_id: str, failure: str, account: str = "account") -> None:
        """A machine ends by itself, for a reason of the provider's."""
        machine = self.made(account).items[machine_id]
        assert isinstance(machine, Machine)
        self.made(account).items[machine_id] = replace(machine, state="terminated", failure=failure)

    def machines(self, account: str = "account") -> list[Machine]:
        return [item for item in self.made(account).items.values() if isinstance(item, Machine)]

    # For the implementations below

    def made(self, account: str) -> _Made:
        return self._made.setdefault(account, _Made())

    def number(self) -> int:
        return next(self._numbers)

    def call(self, account: str, action: str, work: Callable[[], T]) -> T:
        self.calls.append((account, action))
        if account in self.revoked:
            raise ProviderError("auth", f"the credential of {account} is revoked")
        fault = next((fault for fault in self._faults if fault[0] == action), None)
        if fault is None:
            return work()
        self._faults.remove(fault)
        if fault[1] is not None:
            raise ProviderError(fault[1], f"injected {fault[1]}")
        work()
        raise ProviderError("unreachable", "the answer got lost")


class _Nothing:
    async def close(self) -> None:
        return None


class _Part:
    def __init__(self, cloud: FakeCloud, account: str) -> None:
        self._cloud = cloud
        self._account = account

    def _call(self, action: str, work: Callable[[], T]) -> T:
        return self._cloud.call(self._account, action, work)

    def _create(self, kind: type[Item], spec: Spec, make: Callable[[str], Item]) -> Item:
        made = self._cloud.made(self._account)
        known = f"{kind.__name__}/{spec.token}"
        earlier = next((i for i in made.items.values() if isinstance(i, kind) and i.token == spec.token), None)
        if earlier is None:
            item = make(f"{kind.__name__.lower()}-{self._cloud.number()}")
            made.items[item.id], made.specs[known] = item, spec
            return item
        if made.specs[known] != spec:
            raise ProviderError("conflict", f"token {spec.token} was used with other arguments")
        return earlier

    def _listed(self, kind: type[Item], tags: Mapping[str, str]) -> list[Item]:
        found = [item for item in self._cloud.made(self._account).items.values() if isinstance(item, kind)]
        return [item for item in found if tags.items() <= item.tags.items()]

    def _known(self, kind: type[Item], item_id: str) -> Item:
        found = self._cloud.made(self._account).items.get(item_id)
        if not isinstance(found, kind):
            raise ProviderError("not_found", f"{self._account} has no {kind.__name__.lower()} {item_id}")
        return found

    def _drop(self, item_id: str, users: Sequence[Machine]) -> None:
        alive = [machine.id for machine in users if machine.state != "terminated"]
        if alive:
            raise ProviderError("conflict", f"{item_id} is used by {', '.join(alive)}")
        self._cloud.made(self._account).items.pop(item_id, None)


class _Identity(_Part):
    async def account(self) -> str:
        return self._call("identity", lambda: self._account)


class _Networks(_Part):
    async def create(self, spec: NetworkSpec) -> Network:
        def make(new_id: str) -> Network:
            return Network(new_id, spec.token, spec.name, spec.region, dict(spec.tags), spec.rules)

        return self._call("create_network", lambda: self._create(Network, spec, make))

    async def set_rules(self, network_id: str, rules: Sequence[Rule]) -> Network:
        def work() -> Network:
            changed = replace(self._known(Network, network_id), rules=tuple(rules))
            self._cloud.made(self._account).items[network_id] = changed
            return changed

        return self._call("set_rules", work)

    async def delete(self, network_id: str) -> None:
        inside = [machine for machine in self._cloud.machines(self._account) if machine.network == network_id]
        self._call("delete_network", lambda: self._drop(network_id, inside))

    async def list(self, tags: Mapping[str, str]) -> Sequence[Network]:
        return self._call("list_networks", lambda: self._listed(Network, tags))


class _Addresses(_Part):
    async def create(self, spec: AddressSpec) -> Address:
        def make(new_id: str) -> Address:
            ip = f"203.0.113.{self._cloud.number() % 254 + 1}"
            return Address(new_id, spec.token, spec.name, spec.region, dict(spec.tags), ip)

        return self._call("create_address", lambda: self._create(Address, spec, make))

    async def delete(self, address_id: str) -> None:
        def work() -> None:
            address = self._cloud.made(self._account).items.get(address_id)
            ip = address.ip if isinstance(address, Address) else None
            self._drop(
                address_id, [machine for machine in self._cloud.machines(self._account) if machine.address == ip]
            )

        self._call("delete_address", work)

    async def list(self, tags: Mapping[str, str]) -> Sequence[Address]:
        return self._call("list_addresses", lambda: self._listed(Address, tags))


class _Machines(_Part):
    async def create(self, spec: MachineSpec) -> Machine:
        return self._call("create_machine", lambda: self._create(Machine, spec, lambda new_id: self._new(new_id, spec)))

    def _new(self, new_id: str, spec: MachineSpec) -> Machine:
        made = self._cloud.made(self._account)
        address = made.items.get(spec.address) if spec.address else None
        if not isinstance(made.items.get(spec.network), Network) or (spec.address and not isinstance(address, Address)):
            raise ProviderError("invalid", f"no network {spec.network}, or no address {spec.address}")
        return Machine(
            id=new_id,
            token=spec.token,
            name=spec.name,
            state="pending",
            region=spec.region,
            zone=spec.zone,
            vm_type=spec.vm_type,
            image=spec.image,
            network=spec.network,
            tags=dict(spec.tags),
            address=address.ip if isinstance(address, Address) else f"198.51.100.{self._cloud.number() % 254 + 1}",
            ssh_port=22,
            created_at="2026-10-01T00:00:00Z",
            failure=None,
        )

    async def describe(self, machine_id: str) -> Machine:
        return self._call("describe_machine", lambda: self._known(Machine, machine_id))

    async def find(self, token: str) -> Machine | None:
        def work() -> Machine | None:
            return next((m for m in self._cloud.machines(self._account) if m.token == token), None)

        return self._call("find_machine", work)

    async def list(self, tags: Mapping[str, str], region: str | None = None) -> Sequence[Machine]:
        def work() -> list[Machine]:
            return [machine for machine in self._listed(Machine, tags) if region in (None, machine.region)]

        return self._call("list_machines", work)

    async def delete(self, machine_id: str) -> None:
        def work() -> None:
            machine = self._cloud.made(self._account).items.get(machine_id)
            if isinstance(machine, Machine) and machine.state in ("pending", "running"):
                self._cloud.made(self._account).items[machine_id] = replace(machine, state="stopping")

        self._call("delete_machine", work)


class _Buckets(_Part):
    async def create(self, name: str, region: str, tags: Mapping[str, str]) -> Bucket:
        def work() -> Bucket:
            new = _Bucket(self._account, Bucket(name, region, dict(tags), versioning=False, managed=bool(tags)))
            found = self._cloud.buckets.setdefault(name, new)
            if (found.account, found.bucket.region, found.bucket.tags) != (self._account, region, tags):
                raise ProviderError("conflict", f"bucket {name} exists")
            return found.bucket

        return self._call("create_bucket", work)

    async def head(self, name: str) -> Bucket:
        return self._call("head_bucket", lambda: _bucket(self._cloud, self._account, name).bucket)

    async def set_versioning(self, name: str, *, enabled: bool) -> Bucket:
        def work() -> Bucket:
            held = _bucket(self._cloud, self._account, name)
            held.bucket = replace(held.bucket, versioning=enabled)
            return held.bucket

        return self._call("set_versioning", work)

    async def delete(self, name: str) -> None:
        def work() -> None:
            if name not in self._cloud.buckets:
                return
            if _bucket(self._cloud, self._account, name).objects:
                raise ProviderError("conflict", f"bucket {name} is not empty")
            del self._cloud.buckets[name]

        self._call("delete_bucket", work)


class _Objects(_Part):
    async def put(
        self, bucket: str, key: str, data: bytes, *, if_match: str | None = None, if_absent: bool = False
    ) -> StoredObject:
        def work() -> StoredObject:
            held = _bucket(self._cloud, self._account, bucket)
            versions = held.objects.get(key, [])
            etag = versions[0].content.etag if versions else None
            if (if_absent and versions) or (if_match is not None and if_match != etag):
                raise ProviderError("conflict", f"{key} has changed")
            content = Content(data, hashlib.sha256(data).hexdigest(), f"v{self._cloud.number()}")
            held.objects[key] = [_Version(content, key), *(versions if held.bucket.versioning else [])]
            return _stored(held.objects[key][0], latest=True)

        return self._call("put_object", work)

    async def get(self, bucket: str, key: str, version: str | None = None) -> Content:
        def work() -> Content:
            for held in _bucket(self._cloud, self._account, bucket).objects.get(key, []):
                if version in (None, held.content.version):
                    return held.content
            raise ProviderError("not_found", f"no object {key} in {bucket}")

        return self._call("get_object", work)

    async def list(self, bucket: str, prefix: str = "") -> Sequence[StoredObject]:
        return self._call("list_objects", lambda: [item for item in self._under(bucket, prefix) if item.latest])

    async def list_versions(self, bucket: str, prefix: str = "") -> Sequence[StoredObject]:
        return self._call("list_versions", lambda: self._under(bucket, prefix))

    async def delete_version(self, bucket: str, key: str, version: str) -> None:
        def work() -> None:
            objects = _bucket(self._cloud, self._account, bucket).objects
            rest = [held for held in objects.pop(key, []) if held.content.version != version]
            if rest:
                objects[key] = rest

        self._call("delete_version", work)

    def _under(self, bucket: str, prefix: str) -> Sequence[StoredObject]:
        objects = _bucket(self._cloud, self._account, bucket).objects
        found = sorted(item for item in objects.items() if item[0].startswith(prefix))
        return [_stored(held, latest=held is versions[0]) for _, versions in found for held in versions]


def _bucket(cloud: FakeCloud, account: str, name: str) -> _Bucket:
    held = cloud.buckets.get(name)
    if held is None:
        raise ProviderError("not_found", f"no bucket {name}")
    if held.account != account:
        raise ProviderError("auth", f"access to bucket {name} is denied")
    return held


def _stored(held: _Version, *, latest: bool) -> StoredObject:
    content = held.content
    return StoredObject(held.key, content.version, content.etag, len(content.data), latest)
