"""Machines of one account, read by one list: often while some are on their way, else now and then."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from anycloud_common.clock import Clock
from anycloud_common.reconcile import Done, Outcome, Requeue
from anycloud_common.store import Store, Tx
from anycloud_providers.protocol import Machine, ProviderError

from anycloud_cluster.domain.resource import TAG_LEDGER, LedgerIdentity, Resource, State
from anycloud_cluster.reconcile.ledger.kinds import machine_found
from anycloud_cluster.reconcile.ledger.worlds import Worlds
from anycloud_cluster.store import ledger
from anycloud_cluster.store.ledger import Ledger

log = logging.getLogger(__name__)

MOVING_S: Final = 1.0  # while a machine is to start or to end
RESTING_S: Final = 30.0
SOON_S: Final = 0.1  # what is asked for at one moment is read by one list
_BACKOFF_S: Final = 60.0
# A new machine may be missing from its provider's answers for so long after it was made.
GRACE_MS: Final = 60_000
_SEPARATOR = "\n"


class Accounts:
    """`handle` is the pass over one account. `mark(key, after)` is the reconciler's, set by whoever makes that."""

    def __init__(self, store: Store, book: Ledger, worlds: Worlds, identity: LedgerIdentity, clock: Clock) -> None:
        self._store = store
        self._book = book
        self._worlds = worlds
        self._tags = {TAG_LEDGER: identity.ledger}
        self._clock = clock
        self._failures: dict[str, int] = {}
        self.mark: Callable[[str, float], None] = lambda key, after: None

    def watch(self, provider: str, account: str) -> None:
        """Something is on its way there."""
        self.mark(_SEPARATOR.join((provider, account)), SOON_S)

    async def handle(self, key: str) -> Outcome:
        provider, account = key.split(_SEPARATOR, 1)
        rows = await self._store.read(lambda conn: ledger.machines_of(conn, provider, account))
        if not rows:
            return Done()
        try:
            cloud = await self._worlds.of(provider, account, rows[0].credential_id)
            listed = {machine.id: machine for machine in await cloud.machines.list(self._tags)}
            seen = {row.id: await self._seen(row, listed) for row in rows}
        except ProviderError as error:
            return await self._failed(key, rows, error)
        self._failures.pop(key, None)
        left = await self._store.write(partial(self._apply, rows, seen))
        if not left:
            return Done()
        return Requeue(MOVING_S if any(row.state is not State.RUNNING for row in left) else RESTING_S)

    async def _seen(self, row: Resource, listed: dict[str, Machine]) -> Machine | None:
        """The machine as the list shows it; one that the list lacks is asked for by its id, with its own account."""
        if row.provider_id in listed:
            return listed[row.provider_id]
        cloud = await self._worlds.of(row.provider, row.account, row.credential_id)
        try:
            return await cloud.machines.describe(row.provider_id)
        except ProviderError as error:
            if error.kind != "not_found":
                raise
            return None

    def _apply(self, rows: Sequence[Resource], seen: dict[str, Machine | None], tx: Tx) -> list[Resource]:
        """Stores what was seen, and gives the rows that are still to be watched."""
        left = []
        stored = {row.id: row for row in ledger.machines_of(tx.conn, rows[0].provider, rows[0].account)}
        for before in rows:
            row = stored.get(before.id)
            if row is None or row.provider_id != before.provider_id:
                continue
            changes = self._changes(row, seen[row.id])
            if changes:
                row = self._book.write(tx, row, changes, guard=None)
            if row.state in (State.PENDING, State.RUNNING, State.RELEASING):
                left.append(row)
        return left

    def _changes(self, row: Resource, machine: Machine | None) -> dict[str, Any]:
        gone = machine is None or machine.state == "terminated"
        if gone and row.state is State.RELEASING:
            return {"state": State.RELEASED, **ledger.no_failure()}
        if gone and row.state in (State.PENDING, State.RUNNING):
            young = machine is None and self._clock.now_ms() - (row.confirmed_at or 0) < GRACE_MS
            reason = (machine.failure if machine else None) or "the provider shows the machine gone"
            return (
                {} if young else {"state": State.LOST, **ledger.failed(row, "not_found", reason, self._clock.now_ms())}
            )
        if machine is None or machine.state != "running" or row.state is not State.PENDING:
            return {}
        return {**machine_found(machine).facts(), "state": State.RUNNING}

    async def _failed(self, key: str, rows: Sequence[Resource], error: ProviderError) -> Outcome:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        log.warning("machines can't be listed", extra={"account": key, "kind": error.kind, "reason": error.message})
        if error.kind == "auth":
            await self._worlds.refused(rows[0].provider, rows[0].account, rows[0].credential_id)
        return Requeue(min(_BACKOFF_S, MOVING_S * 2 ** min(failures, 10)))
