"""Things in a cloud that bear this ledger's tag and that the ledger doesn't know: reported, and ended a sweep later.

It fails closed: nothing is ended on an error, beside a list that lacks what the ledger has as running, out of an empty
ledger, above a cap, or before a thing was an orphan in two sweeps.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from anycloud_common.clock import Clock
from anycloud_common.reconcile import Outcome, Requeue
from anycloud_common.store import Store
from anycloud_providers.protocol import Address, Machine, Network, Provider, ProviderError
from sqlalchemy import Connection

from anycloud_cluster.domain.credential import CLOUDS
from anycloud_cluster.domain.resource import TAG_LEDGER, Kind, LedgerIdentity, Resource, State
from anycloud_cluster.reconcile.ledger.worlds import Worlds
from anycloud_cluster.store import credentials, ledger

log = logging.getLogger(__name__)

EVERY_S: Final = 600.0
CAP: Final = 5  # orphans of one account that may be ended by one sweep
MINIMUM_AGE_MS: Final = 600_000  # since it was first seen as an orphan


@dataclass(frozen=True)
class Orphan:
    kind: Kind
    id: str
    name: str


class Sweep:
    """`handle` is one sweep over all accounts of stored credentials; its key means nothing."""

    def __init__(self, store: Store, worlds: Worlds, identity: LedgerIdentity, clock: Clock) -> None:
        self._store = store
        self._worlds = worlds
        self._tags = {TAG_LEDGER: identity.ledger}
        self._clock = clock
        self._first_seen: dict[str, int] = {}

    async def handle(self, key: str) -> Outcome:
        for provider, account, credential_id in await self._store.read(_accounts):
            try:
                await self._account(provider, account, credential_id)
            except ProviderError as error:
                fields = {"provider": provider, "account": account, "reason": error.message}
                log.warning("no sweep of this account", extra=fields)
        return Requeue(EVERY_S)

    async def _account(self, provider: str, account: str, credential_id: str) -> None:
        known = await self._store.read(lambda conn: ledger.of_account(conn, provider, account))
        if not known:
            return
        cloud = await self._worlds.of(provider, account, credential_id)
        machines = await cloud.machines.list(self._tags)
        networks = await cloud.networks.list(self._tags)
        addresses = await cloud.addresses.list(self._tags)
        alive = [machine for machine in machines if machine.state != "terminated"]
        if _lacks_running(known, {m.id for m in machines}, {n.id for n in networks}, {a.id for a in addresses}):
            log.warning("a list lacks what is on record; nothing is swept", extra={"account": account})
            return
        await self._end(cloud, self._old(_orphans(known, alive, networks, addresses)))

    def _old(self, orphans: Sequence[Orphan]) -> list[Orphan]:
        """Reports new orphans, and gives those that have been one for long enough."""
        now, old = self._clock.now_ms(), []
        for orphan in orphans:
            first = self._first_seen.setdefault(orphan.id, now)
            log.warning("orphan", extra={"kind": orphan.kind, "id": orphan.id, "resource": orphan.name})
            if now - first >= MINIMUM_AGE_MS:
                old.append(orphan)
        return old

    async def _end(self, cloud: Provider, orphans: Sequence[Orphan]) -> None:
        if len(orphans) > CAP:
            log.error("too many orphans to end by themselves", extra={"count": len(orphans), "cap": CAP})
            return
        delete: dict[Kind, Callable[[str], Awaitable[None]]] = {
            Kind.MACHINE: cloud.machines.delete,
            Kind.ADDRESS: cloud.addresses.delete,
            Kind.NETWORK: cloud.networks.delete,
        }
        for orphan in orphans:
            log.warning("orphan is ended", extra={"kind": orphan.kind, "id": orphan.id, "resource": orphan.name})
            await delete[orphan.kind](orphan.id)


def _accounts(conn: Connection) -> list[tuple[str, str, str]]:
    found = {(c.provider, c.account): c.id for c in credentials.everything(conn) if c.provider in CLOUDS}
    return [(provider, account, credential_id) for (provider, account), credential_id in found.items()]


def _lacks_running(known: Sequence[Resource], *listed: set[str]) -> bool:
    ids = set().union(*listed)
    kinds = (Kind.MACHINE, Kind.NETWORK, Kind.ADDRESS)
    return any(row.state is State.RUNNING and row.kind in kinds and row.provider_id not in ids for row in known)


def _orphans(
    known: Sequence[Resource], machines: Sequence[Machine], networks: Sequence[Network], addresses: Sequence[Address]
) -> list[Orphan]:
    """Those of which the ledger has neither the token nor the id; machines first, as the others may serve them."""
    tokens = {row.id for row in known}
    ids = {row.provider_id for row in known}
    found: list[tuple[Kind, Machine | Network | Address]] = [
        *((Kind.MACHINE, machine) for machine in machines),
        *((Kind.ADDRESS, address) for address in addresses),
        *((Kind.NETWORK, network) for network in networks),
    ]
    return [Orphan(kind, i.id, i.name) for kind, i in found if i.token not in tokens and i.id not in ids]
