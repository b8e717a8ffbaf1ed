"""How each kind of resource is looked up, made and ended. A provider's errors pass through."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from anycloud_common.cipher import Cipher
from anycloud_common.store import Store
from anycloud_providers.protocol import (
    AddressSpec,
    Machine,
    MachineSpec,
    NetworkSpec,
    Provider,
    ProviderError,
    Rule,
)

from anycloud_cluster.domain.ports import Names, SignInRefused
from anycloud_cluster.domain.resource import TAG_LEDGER, Kind, Resource, State
from anycloud_cluster.reconcile.ledger.worlds import Worlds
from anycloud_cluster.store import clusters, ledger
from anycloud_cluster.store.ledger import Ledger


@dataclass(frozen=True)
class Found:
    """What the provider shows. `gone`: it has ended for good; `partial`: another create completes it."""

    provider_id: str
    running: bool = True
    gone: bool = False
    partial: bool = False
    address: str = ""
    ssh_port: int = 0
    url: str = ""

    def facts(self) -> dict[str, Any]:
        return {
            "provider_id": self.provider_id,
            "address": self.address,
            "ssh_port": self.ssh_port,
            "url": self.url,
            "sent_at": None,
        }


class Actor(Protocol):
    """One kind of resource. All methods raise ProviderError, OutsideError or SignInRefused."""

    async def find(self, row: Resource) -> Found | None:
        """What was made with the row's token, asked with the row's account; None: nothing was, or it is gone."""
        ...

    async def create(self, row: Resource) -> Found: ...

    async def made(self, row: Resource) -> Found | None:
        """What there is to end."""
        ...

    async def delete(self, row: Resource, provider_id: str) -> bool:
        """Begins the end; True when it is over already."""
        ...


class Machines:
    def __init__(self, store: Store, worlds: Worlds, book: Ledger) -> None:
        self._store = store
        self._worlds = worlds
        self._book = book

    async def find(self, row: Resource) -> Found | None:
        cloud = await _cloud(self._worlds, row)
        try:
            machine = await (
                cloud.machines.describe(row.provider_id) if row.provider_id else cloud.machines.find(row.id)
            )
        except ProviderError as error:
            if error.kind == "not_found":
                return None
            raise
        return None if machine is None else machine_found(machine)

    async def made(self, row: Resource) -> Found | None:
        """Deleting what is gone is success, and the account's list confirms the end: one call less for each."""
        return Found(row.provider_id) if row.provider_id else await self.find(row)

    async def create(self, row: Resource) -> Found:
        network, address = await self._store.read(
            lambda conn: (ledger.find(conn, row.spec["network"]), ledger.find(conn, row.spec["address"]))
        )
        if network is None or network.state is not State.RUNNING:
            raise ProviderError("invalid", f"the network {row.spec['network']} isn't made")
        cloud = await _cloud(self._worlds, row)
        spec = MachineSpec(
            token=row.id,
            name=row.name,
            region=row.region,
            zone=row.zone,
            vm_type=row.spec["vm_type"],
            image=row.spec["image"],
            network=network.provider_id,
            tags={**row.spec["labels"], **row.tags},
            user_data=self._book.user_data(row).decode(),
            address=address.provider_id if address else None,
        )
        return machine_found(await cloud.machines.create(spec))

    async def delete(self, row: Resource, provider_id: str) -> bool:
        cloud = await _cloud(self._worlds, row)
        await cloud.machines.delete(provider_id)
        return False


class Networks:
    def __init__(self, worlds: Worlds) -> None:
        self._worlds = worlds

    async def find(self, row: Resource) -> Found | None:
        cloud = await _cloud(self._worlds, row)
        listed = await cloud.networks.list({TAG_LEDGER: row.tags[TAG_LEDGER]})
        return next((Found(network.id) for network in listed if network.token == row.id), None)

    made = find

    async def create(self, row: Resource) -> Found:
        cloud = await _cloud(self._worlds, row)
        spec = NetworkSpec(row.id, row.name, row.region, row.tags, _rules(row.spec))
        return Found((await cloud.networks.create(spec)).id)

    async def delete(self, row: Resource, provider_id: str) -> bool:
        cloud = await _cloud(self._worlds, row)
        await cloud.networks.delete(provider_id)
        return True


class Addresses:
    def __init__(self, worlds: Worlds) -> None:
        self._worlds = worlds

    async def find(self, row: Resource) -> Found | None:
        cloud = await _cloud(self._worlds, row)
        listed = await cloud.addresses.list({TAG_LEDGER: row.tags[TAG_LEDGER]})
        return next((Found(a.id, address=a.ip) for a in listed if a.token == row.id), None)

    made = find

    async def create(self, row: Resource) -> Found:
        cloud = await _cloud(self._worlds, row)
        made = await cloud.addresses.create(AddressSpec(row.id, row.name, row.region, row.tags))
        return Found(made.id, address=made.ip)

    async def delete(self, row: Resource, provider_id: str) -> bool:
        cloud = await _cloud(self._worlds, row)
        await cloud.addresses.delete(provider_id)
        return True


class Buckets:
    """Buckets of our own, versioned. One that doesn't bear our tags is never touched."""

    def __init__(self, worlds: Worlds) -> None:
        self._worlds = worlds

    async def find(self, row: Resource) -> Found | None:
        cloud = await _cloud(self._worlds, row)
        try:
            bucket = await cloud.buckets.head(row.name)
        except ProviderError as error:
            if error.kind == "not_found":
                return None
            raise
        if not bucket.managed or not _ours(bucket.tags, row.tags):
            return None
        return Found(row.name, partial=not bucket.versioning)

    made = find

    async def create(self, row: Resource) -> Found:
        cloud = await _cloud(self._worlds, row)
        await cloud.buckets.create(row.name, row.region, row.tags)
        await cloud.buckets.set_versioning(row.name, enabled=True)
        return Found(row.name)

    async def delete(self, row: Resource, provider_id: str) -> bool:
        cloud = await _cloud(self._worlds, row)
        try:
            await _empty(cloud, row.name)
            await cloud.buckets.delete(row.name)
        except ProviderError as error:
            if error.kind != "not_found":
                raise
        return True


class DnsRecords:
    """Records in our domain; the name is the identity, and the sign-in is the one kept with the cluster."""

    def __init__(self, store: Store, cipher: Cipher, names: Names) -> None:
        self._sign_ins = SignInOfCluster(store, cipher)
        self._names = names

    async def find(self, row: Resource) -> Found | None:
        return None  # publishing the same again is success

    async def made(self, row: Resource) -> Found | None:
        return Found(row.name) if row.provider_id or row.sent_at else None

    async def create(self, row: Resource) -> Found:
        address = row.spec["address"]
        url = await self._names.publish(row.name, address, await self._sign_ins.token(row.owner_id))
        return Found(row.name, address=address, url=url)

    async def delete(self, row: Resource, provider_id: str) -> bool:
        await self._names.delete(row.name, await self._sign_ins.token(row.owner_id))
        return True


class Certificates:
    """Origin certificates. They are signed where their key is made, by the phase `dns`; here they are revoked."""

    def __init__(self, store: Store, cipher: Cipher, names: Names) -> None:
        self._sign_ins = SignInOfCluster(store, cipher)
        self._names = names

    async def find(self, row: Resource) -> Found | None:
        return Found(row.provider_id) if row.provider_id else None

    made = find

    async def create(self, row: Resource) -> Found:
        raise ProviderError("invalid", "a certificate is signed where its key is")

    async def delete(self, row: Resource, provider_id: str) -> bool:
        await self._names.revoke(provider_id, await self._sign_ins.token(row.owner_id))
        return True


class SignInOfCluster:
    """The user's GitHub token that is kept with a cluster while a step needs it."""

    def __init__(self, store: Store, cipher: Cipher) -> None:
        self._store = store
        self._cipher = cipher

    async def token(self, cluster_id: str) -> str:
        """Raises SignInRefused when there is none."""
        found = await self._store.look(lambda conn: clusters.by_id(conn, cluster_id))
        token = None if found is None else clusters.opened(self._cipher, found, "sealed_github_token")
        if not token:
            raise SignInRefused("no GitHub sign-in is at hand")
        return str(token)


def actors(store: Store, cipher: Cipher, worlds: Worlds, book: Ledger, names: Names) -> dict[str, Actor]:
    """By kind."""
    return {
        Kind.MACHINE: Machines(store, worlds, book),
        Kind.NETWORK: Networks(worlds),
        Kind.ADDRESS: Addresses(worlds),
        Kind.BUCKET: Buckets(worlds),
        Kind.DNS_RECORD: DnsRecords(store, cipher, names),
        Kind.CERTIFICATE: Certificates(store, cipher, names),
    }


def machine_found(machine: Machine) -> Found:
    return Found(
        machine.id,
        running=machine.state == "running",
        gone=machine.state == "terminated",
        address=machine.address or "",
        ssh_port=machine.ssh_port,
    )


async def _cloud(worlds: Worlds, row: Resource) -> Provider:
    return await worlds.of(row.provider, row.account, row.credential_id)


async def _empty(cloud: Provider, bucket: str) -> None:
    for item in await cloud.objects.list_versions(bucket):
        await cloud.objects.delete_version(bucket, item.key, item.version)


def _ours(tags: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return wanted.items() <= tags.items()


def _rules(spec: Mapping[str, Any]) -> tuple[Rule, ...]:
    return tuple(Rule(tuple(r["ports"]), tuple(r["sources"]), r["protocol"]) for r in spec["rules"])
