"""One pass over one resource."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

from anycloud_common.clock import Clock
from anycloud_common.reconcile import Done, Outcome, Requeue
from anycloud_common.store import Store
from anycloud_providers.protocol import ProviderError

from anycloud_cluster.domain.ports import OutsideError, SignInRefused
from anycloud_cluster.domain.resource import (
    CREATE_BACKOFF_S,
    RELEASE_BACKOFF_S,
    SETTLE_MS,
    SIGN_IN_REQUIRED,
    TRANSIENT,
    Kind,
    Resource,
    State,
    backoff,
)
from anycloud_cluster.reconcile.ledger.accounts import Accounts
from anycloud_cluster.reconcile.ledger.kinds import Actor, Found
from anycloud_cluster.reconcile.ledger.worlds import Worlds
from anycloud_cluster.store import ledger
from anycloud_cluster.store.ledger import Ledger

log = logging.getLogger(__name__)

_LEASED_S = 5.0  # somebody else works on the row
_OUTSIDE = (ProviderError, OutsideError, SignInRefused)


class LedgerReconciler:
    """`handle` is the pass. Every create is preceded by a look-up by token; facts are stored as they are learnt."""

    def __init__(
        self,
        store: Store,
        book: Ledger,
        actors: Mapping[str, Actor],
        *,
        worlds: Worlds,
        accounts: Accounts,
        clock: Clock,
    ) -> None:
        self._store = store
        self._book = book
        self._actors = actors
        self._worlds = worlds
        self._accounts = accounts
        self._clock = clock

    async def handle(self, token: str) -> Outcome:
        row = await self._store.look(lambda conn: ledger.find(conn, token))
        if row is None:
            return Done()
        if row.state is State.PENDING and not row.provider_id and row.kind != Kind.CERTIFICATE:
            return await self._make(row)
        if row.state is State.RELEASING:
            return await self._release(row)
        if row.kind == Kind.MACHINE and row.state in (State.PENDING, State.RUNNING):
            self._accounts.watch(row.provider, row.account)
        return Done()

    async def _make(self, row: Resource) -> Outcome:
        if wait := self._pause(row, CREATE_BACKOFF_S):
            return Requeue(wait)
        lease = await self._store.write(partial(ledger.begin, token=row.id, sending=True))
        if lease is None:
            return Requeue(_LEASED_S)
        actor, creating = self._actors[row.kind], False
        try:
            found = await actor.find(row)
            if found is None or found.partial:
                creating = True
                found = await actor.create(row)
        except _OUTSIDE as error:
            return await self._not_made(row, lease, error, answered=creating or row.sent_at is None)
        except Exception:
            await self._give_back(row, lease)
            raise
        await self._store.write(partial(self._book.made, row=row, changes=self._facts(found), guard=lease))
        return Done()

    def _facts(self, found: Found) -> dict[str, Any]:
        state = State.RUNNING if found.running else State.PENDING
        now = self._clock.now_ms()
        return {
            **found.facts(),
            "state": State.LOST if found.gone else state,
            "confirmed_at": now,
            **ledger.no_failure(),
        }

    async def _not_made(
        self, row: Resource, lease: str, error: ProviderError | OutsideError | SignInRefused, *, answered: bool
    ) -> Outcome:
        """A refusal of the create ends the attempt. Without an answer to it the same attempt goes on, as it may have
        taken effect. What an earlier call did is open still: its time of sending stays."""
        kind, message = _classified(error)
        changes = ledger.failed(row, kind, message, self._clock.now_ms())
        if answered and kind not in TRANSIENT:
            changes |= {"state": State.FAILED, "sent_at": row.sent_at}
        row = await self._store.write(partial(self._book.made, row=row, changes=changes, guard=lease))
        await self._told(row, kind, message)
        return Requeue(backoff(CREATE_BACKOFF_S, row.failure_count)) if row.state is State.PENDING else Done()

    async def _release(self, row: Resource) -> Outcome:
        if wait := self._pause(row, RELEASE_BACKOFF_S):
            return Requeue(wait)
        if await self._store.read(lambda conn: ledger.waits_for_others(conn, row)):
            return Done()  # the end of the others marks this one
        lease = await self._store.write(partial(ledger.begin, token=row.id, sending=False))
        if lease is None:
            return Requeue(_LEASED_S)
        try:
            return await self._end(row, lease)
        except _OUTSIDE as error:
            kind, message = _classified(error)
            changes = ledger.failed(row, kind, message, self._clock.now_ms())
            row = await self._store.write(partial(self._book.write, row=row, changes=changes, guard=lease))
            await self._told(row, kind, message)
            return Requeue(backoff(RELEASE_BACKOFF_S, row.failure_count))
        except Exception:
            await self._give_back(row, lease)
            raise

    async def _end(self, row: Resource, lease: str) -> Outcome:
        actor = self._actors[row.kind]
        found = await actor.made(row)
        if found is None and (wait := self._unsettled(row)):
            await self._give_back(row, lease)
            return Requeue(wait)
        if found is None or found.gone:
            return await self._released(row, lease)
        if not row.provider_id:
            row = await self._store.write(partial(self._book.write, row=row, changes=found.facts(), guard=None))
        if await actor.delete(row, found.provider_id):
            return await self._released(row, lease)
        await self._give_back(row, lease)
        self._accounts.watch(row.provider, row.account)
        return Requeue(RELEASE_BACKOFF_S[0])  # asked again, should the end not be confirmed by then

    def _unsettled(self, row: Resource) -> float:
        """Seconds for which a create that was sent may still take effect, where nothing is found of it."""
        if row.sent_at is None or row.provider_id:
            return 0.0
        return max(0.0, (row.sent_at + SETTLE_MS - self._clock.now_ms()) / 1000)

    async def _released(self, row: Resource, lease: str) -> Outcome:
        changes = {"state": State.RELEASED, "sent_at": None, **ledger.no_failure()}
        await self._store.write(partial(self._book.write, row=row, changes=changes, guard=lease))
        return Done()

    async def _give_back(self, row: Resource, lease: str) -> None:
        await self._store.write(partial(ledger.give_back, token=row.id, lease=lease))

    async def _told(self, row: Resource, kind: str, message: str) -> None:
        log.warning("provider call failed", extra={"resource": row.id, "kind": kind, "reason": message})
        if kind == "auth" and row.account:
            await self._worlds.refused(row.provider, row.account, row.credential_id)

    def _pause(self, row: Resource, bounds: tuple[float, float]) -> float:
        """Seconds that are left of the wait after the last failure."""
        if row.failure_at is None:
            return 0.0
        due = row.failure_at + 1000 * backoff(bounds, row.failure_count)
        return max(0.0, (due - self._clock.now_ms()) / 1000)


def _classified(error: ProviderError | OutsideError | SignInRefused) -> tuple[str, str]:
    if isinstance(error, SignInRefused):
        return "auth", f"{SIGN_IN_REQUIRED}{error}"
    return error.kind, error.message
