"""Admissions of one service: how its objects come to hold parents in another service.

    admission_id = await store.write(…)            # begin(tx, …) together with the owner's row, still invisible
    async with admissions.attempt(admission_id):
        await admissions.acquire(admission_id)     # outside any transaction
        await store.write(…)                       # admitted(tx, …) together with the owner, now visible

A kill between any two steps leaves both or neither: what is still pending when its process or its lease has ended is
cancelled, released and dropped, and `admitted` fails from then on.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Sequence

import grpc
from anycloudapi.common.internal.v1 import holds_pb2
from sqlalchemy import ColumnElement, Connection, insert, update

from anycloud_common import ids
from anycloud_common.admission.errors import Conflict, HoldsUnavailable, Refused
from anycloud_common.admission.releases import ANSWER_S, Forget, Releases, StubFor
from anycloud_common.admission.tables import AdmissionRow, find, find_all, named
from anycloud_common.clock import Clock
from anycloud_common.holds import Parent
from anycloud_common.holds.messages import to_message
from anycloud_common.store import Store, StoreBusy, StoreUnavailable, Tx


class Admissions:
    """The admissions that the service named `prefix` makes.

    `stub_for(parent_kind)` gives the service that keeps parents of this kind; all parents of an admission are kept by
    one service, as they are taken in one transaction. `forget` runs in the transaction that drops a released admission:
    there the service removes what it stored with `begin`, unless the owner has become visible.
    """

    def __init__(
        self,
        store: Store,
        prefix: str,
        stub_for: StubFor,
        clock: Clock,
        forget: Forget = lambda tx, row: None,
    ) -> None:
        self._store = store
        self._prefix = prefix
        self._table = named(prefix)
        self._stub_for = stub_for
        self._releases = Releases(store, prefix, stub_for, clock, forget)

    def begin(
        self,
        tx: Tx,
        owner_kind: str,
        owner_id: str,
        *,
        base_revision: int,
        devices: int,
        parents: Sequence[Parent],
    ) -> str:
        """Stores a pending admission and gives its id. `base_revision`: the owner's revision now, 0 for a new one."""
        admission_id = ids.new("adm")
        tx.conn.execute(
            insert(self._table).values(
                id=admission_id,
                owner_kind=owner_kind,
                owner_id=owner_id,
                base_revision=base_revision,
                devices=devices,
                parents=json.dumps(parents),
                state="pending",
                owner_epoch=tx.owner_epoch,
                created_at=tx.now,
            )
        )
        self._releases.lease(tx, admission_id)
        return admission_id

    async def acquire(self, admission_id: str) -> None:
        """Asks the parent's service for the holds. Raises Refused, HoldsUnavailable, or Conflict when not pending."""
        row = await self._store.read(lambda conn: find(conn, self._table, admission_id))
        admission = _pending(row, admission_id).admission
        request = holds_pb2.AcquireHoldsRequest(service=self._prefix, admission=to_message(admission))
        stub = self._stub_for(admission.parents[0].kind)
        try:
            # A parent that restarts just now is waited for, within the deadline.
            response = await stub.AcquireHolds(request, timeout=ANSWER_S, wait_for_ready=True)
        except grpc.aio.AioRpcError as error:
            raise HoldsUnavailable(f"AcquireHolds: {error.code().name}") from error
        if response.HasField("refused"):
            refused = response.refused
            raise Refused(refused.parent_kind, refused.parent_id, refused.code, refused.message)

    def admitted(self, tx: Tx, admission_id: str, base_revision: int) -> None:
        """Ends a successful admission, in the transaction that makes the owner's change visible.

        `base_revision` is the owner's revision as this transaction reads it. Raises Conflict.
        """
        row = _pending(find(tx.conn, self._table, admission_id), admission_id)
        if row.base_revision != base_revision:
            raise Conflict(f"its owner is at revision {base_revision} now, and was at {row.base_revision}")
        tx.conn.execute(update(self._table).where(self._table.c.id == admission_id).values(state="admitted"))

    @contextlib.asynccontextmanager
    async def attempt(self, admission_id: str) -> AsyncIterator[None]:
        """Abandons the admission when its body fails, for whatever reason, before it raises that reason."""
        try:
            yield
        except BaseException:
            with contextlib.suppress(StoreBusy, StoreUnavailable):  # the end of the lease abandons it then
                await self.abandon(admission_id)
            raise

    async def abandon(self, admission_id: str) -> None:
        """Cancels an admission that is still pending. When it returns the holds are released, or will be by `run`."""
        pending = (self._table.c.id == admission_id) & (self._table.c.state == "pending")
        await self._releases.cancel_now(pending, [admission_id])

    def cancel_pending(self, tx: Tx, owner_kind: str, owner_id: str) -> None:
        """Cancels an owner's unfinished admissions: part of the transaction that begins the owner's deletion."""
        self._releases.cancel(tx, self._of(owner_kind, owner_id) & (self._table.c.state == "pending"))

    def releasing(self, tx: Tx, admission_ids: Sequence[str]) -> None:
        """Has admissions released, in whatever state they are, after this transaction's commit."""
        self._releases.cancel(tx, self._table.c.id.in_(admission_ids))

    async def release(self, admission_ids: Sequence[str]) -> None:
        """As `releasing`, in a transaction of its own. When it returns they are released, or will be by `run`."""
        await self._releases.cancel_now(self._table.c.id.in_(admission_ids), admission_ids)

    def of_owner(self, conn: Connection, owner_kind: str, owner_id: str) -> list[AdmissionRow]:
        """All admissions of an owner, oldest first."""
        return find_all(conn, self._table, self._of(owner_kind, owner_id))

    async def replace(self, incarnation: str, parent_kind: str) -> None:
        """After a restore, before the service serves: makes the parent's holds exactly those admitted here.

        Raises HoldsUnavailable; repeating it does no harm.
        """
        admitted = self._table.c.state == "admitted"
        rows = await self._store.read(lambda conn: find_all(conn, self._table, admitted))
        request = holds_pb2.ReplaceHoldsRequest(
            service=self._prefix, incarnation=incarnation, admissions=[to_message(row.admission) for row in rows]
        )
        try:
            await self._stub_for(parent_kind).ReplaceHolds(request, timeout=ANSWER_S, wait_for_ready=True)
        except grpc.aio.AioRpcError as error:
            raise HoldsUnavailable(f"ReplaceHolds: {error.code().name}") from error

    async def recover(self) -> None:
        """Cancels what processes that are gone left pending, and takes up every release that isn't done."""
        await self._releases.recover()

    async def run(self) -> None:
        """Background work, to be run for as long as the process lives: recovery, now and then, and open releases."""
        await self._releases.run()

    def _of(self, owner_kind: str, owner_id: str) -> ColumnElement[bool]:
        return (self._table.c.owner_kind == owner_kind) & (self._table.c.owner_id == owner_id)


def _pending(row: AdmissionRow | None, admission_id: str) -> AdmissionRow:
    if row is None or row.state != "pending":
        raise Conflict(f"admission {admission_id} is no longer pending")
    return row
