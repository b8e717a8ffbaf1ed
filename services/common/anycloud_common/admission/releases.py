"""Giving holds back: durable, repeated until the parent's service has answered, and never by owner.

A row in state `cancelling` is the intent. It is dropped only after the answer; a kill in between repeats the call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import grpc
from anycloudapi.common.internal.v1 import holds_pb2
from sqlalchemy import ColumnElement, delete, or_, select, update

from anycloud_common.admission.errors import HoldsUnavailable
from anycloud_common.admission.tables import AdmissionRow, find, find_all, named
from anycloud_common.clock import Clock
from anycloud_common.reconcile import Done, Outcome, Reconciler, Requeue
from anycloud_common.store import Store, Tx

if TYPE_CHECKING:
    from anycloudapi.common.internal.v1.holds_pb2_grpc import HoldServiceAsyncStub

ANSWER_S = 5.0  # deadline of a call to the parent's service
LEASE_S = 30.0  # a pending admission that is older belongs to a call that was cancelled or hangs
_SWEEP_S = 60.0
_ALL = "*"  # the reconciler's key for a sweep of all rows; the others are ids of admissions

StubFor = Callable[[str], "HoldServiceAsyncStub"]
Forget = Callable[[Tx, AdmissionRow], None]


class Releases:
    """Cancels admissions, releases their holds and drops their rows, for `Admissions`."""

    def __init__(self, store: Store, prefix: str, stub_for: StubFor, clock: Clock, forget: Forget) -> None:
        self._store = store
        self._table = named(prefix)
        self._stub_for = stub_for
        self._forget = forget
        self._reconciler = Reconciler(f"{prefix}-admissions", self._settle, clock)

    def lease(self, tx: Tx, admission_id: str) -> None:
        """Has a look at a new admission at the end of its lease."""
        tx.after_commit(partial(self._reconciler.mark, admission_id, LEASE_S))

    def cancel(self, tx: Tx, which: ColumnElement[bool], after: float = 0.0) -> None:
        """Turns these admissions into `cancelling`; their release begins that many seconds after the commit."""
        cancelled = tx.conn.execute(
            update(self._table)
            .where(which, self._table.c.state != "cancelling")
            .values(state="cancelling")
            .returning(self._table.c.id)
        )
        for id in cancelled.scalars():
            tx.after_commit(partial(self._reconciler.mark, id, after))

    async def cancel_now(self, which: ColumnElement[bool], admission_ids: Sequence[str]) -> None:
        """Cancels in a transaction of its own and tries the release at once; `run` repeats it when that fails."""
        await self._store.write(lambda tx: self.cancel(tx, which, after=ANSWER_S))
        try:
            await self._give_back(admission_ids)
        except HoldsUnavailable:
            for id in admission_ids:
                self._reconciler.mark(id)

    async def recover(self) -> None:
        """Cancels what processes that are gone left pending, and takes up every release that isn't done."""
        await self._store.write(lambda tx: self.cancel(tx, self._orphaned(tx)))
        cancelling = self._table.c.state == "cancelling"
        for row in await self._store.read(lambda conn: find_all(conn, self._table, cancelling)):
            self._reconciler.mark(row.admission.id)

    async def run(self) -> None:
        """Recovers at once and then every minute, and repeats releases until they are answered."""
        self._reconciler.mark(_ALL)
        await self._reconciler.run()

    async def _settle(self, key: str) -> Outcome:
        if key == _ALL:
            await self.recover()
            return Requeue(_SWEEP_S)
        row = await self._store.read(lambda conn: find(conn, self._table, key))
        if row is not None and row.state == "pending":
            await self._store.write(lambda tx: self.cancel(tx, self._orphaned(tx)))
        await self._give_back([key])
        return Done()

    def _orphaned(self, tx: Tx) -> ColumnElement[bool]:
        """Pending admissions whose lease is over: by age, or as their process is no longer an owner of the database."""
        owners, table = tx.owners, self._table
        living = select(owners.c.owner_epoch).where(or_(owners.c.expires_at.is_(None), owners.c.expires_at > tx.now))
        old = table.c.created_at <= tx.now - int(LEASE_S * 1000)
        return (table.c.state == "pending") & or_(old, table.c.owner_epoch.not_in(living))

    async def _give_back(self, admission_ids: Sequence[str]) -> None:
        """Releases and drops those of the admissions that are cancelling. Raises HoldsUnavailable."""
        which = self._table.c.id.in_(admission_ids) & (self._table.c.state == "cancelling")
        rows = await self._store.read(lambda conn: find_all(conn, self._table, which))
        groups: dict[str, list[AdmissionRow]] = {}
        for row in rows:
            groups.setdefault(row.admission.parents[0].kind, []).append(row)
        for parent_kind, group in groups.items():
            request = holds_pb2.ReleaseHoldsRequest(admission_ids=[row.admission.id for row in group])
            try:
                await self._stub_for(parent_kind).ReleaseHolds(request, timeout=ANSWER_S)
            except grpc.aio.AioRpcError as error:
                raise HoldsUnavailable(f"ReleaseHolds: {error.code().name}") from error
            await self._store.write(partial(self._drop, group))

    def _drop(self, rows: Sequence[AdmissionRow], tx: Tx) -> None:
        for row in rows:
            dropped = tx.conn.execute(delete(self._table).where(self._table.c.id == row.admission.id))
            if dropped.rowcount == 1:  # 0: the same release, tried twice at one time
                self._forget(tx, row)
