"""A caller's service in small: deployments with a name, a revision and GPU devices, admitted as the real ones are."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
from anycloud_common import admission
from anycloud_common.admission import AdmissionRow, Admissions, Conflict
from anycloud_common.clock import ManualClock
from anycloud_common.holds import Parent
from anycloud_common.store import Store, Tx
from anycloud_common.store.scratch import open_scratch
from sqlalchemy import Column, Integer, MetaData, Table, Text, delete, insert, select, update

from tests.unit.holds.parent import POOL

PREFIX = "deployment"
OWNER = "deployment"
METADATA = MetaData()
DEPLOYMENTS = Table(
    "deployment_deployment",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("revision", Integer, nullable=False),  # 0: not admitted yet, and invisible
)
ADMISSION = admission.tables(PREFIX, METADATA)


class Line:
    """The connection to the parent, which a test can cut before or after the parent has acted, or let hang."""

    def __init__(self, stub: Any) -> None:
        self._stub = stub
        self.cut_before: set[str] = set()
        self.cut_after: set[str] = set()
        self.hang_after: set[str] = set()
        self.hanging = asyncio.Event()
        self.calls: list[str] = []

    def __getattr__(self, method: str) -> Callable[..., Any]:
        async def call(request: Any, **options: Any) -> Any:
            self.calls.append(method)
            if method in self.cut_before:
                raise unavailable()
            answer = await getattr(self._stub, method)(request, **options)
            if method in self.hang_after:
                self.hanging.set()
                await asyncio.Event().wait()
            if method in self.cut_after:
                raise unavailable()
            return answer

        return call


def unavailable() -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata(), grpc.aio.Metadata())


class CallerService:
    """`crash` drops everything that is only in memory, and starts again on the same file."""

    def __init__(self, directory: Path, clock: ManualClock, parent: Any) -> None:
        self._database = directory / f"{PREFIX}.sqlite"
        self._clock = clock
        self._run: asyncio.Task[None] | None = None
        self.line = Line(parent)
        self.open()

    def open(self) -> None:
        self.store: Store = open_scratch(self._database, PREFIX, METADATA, self._clock)
        self.admissions = Admissions(self.store, PREFIX, lambda kind: self.line, self._clock, forget)  # type: ignore[arg-type,return-value]

    def start(self) -> None:
        """Begins the background work."""
        self._run = asyncio.create_task(self.admissions.run())

    async def stop(self) -> None:
        if self._run is not None:
            self._run.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._run
            self._run = None
        self.store.close()

    async def crash(self) -> None:
        await self.stop()
        self.line.cut_before.clear()
        self.line.cut_after.clear()
        self.line.hang_after.clear()
        self.open()

    async def begin(self, id: str, *, devices: int = 0, pool: str = "np-1", name: str | None = None) -> str:
        def step(tx: Tx) -> str:
            tx.conn.execute(insert(DEPLOYMENTS).values(id=id, name=name or id, revision=0))
            parents = [Parent(POOL, pool)]
            return self.admissions.begin(tx, OWNER, id, base_revision=0, devices=devices, parents=parents)

        return await self.store.write(step)

    async def begin_upgrade(self, id: str, *, devices: int, pool: str = "np-1") -> str:
        def step(tx: Tx) -> str:
            parents, revision = [Parent(POOL, pool)], _revision(tx, id)
            return self.admissions.begin(tx, OWNER, id, base_revision=revision, devices=devices, parents=parents)

        return await self.store.write(step)

    async def finish(self, id: str, admission_id: str, *, base_revision: int | None = None) -> None:
        def step(tx: Tx) -> None:
            revision = _revision(tx, id)
            self.admissions.admitted(tx, admission_id, revision if base_revision is None else base_revision)
            tx.conn.execute(update(DEPLOYMENTS).where(DEPLOYMENTS.c.id == id).values(revision=revision + 1))

        await self.store.write(step)

    async def create(self, id: str, *, devices: int = 0, pool: str = "np-1", name: str | None = None) -> str:
        admission_id = await self.begin(id, devices=devices, pool=pool, name=name)
        async with self.admissions.attempt(admission_id):
            await self.admissions.acquire(admission_id)
            await self.finish(id, admission_id)
        return admission_id

    async def upgrade(self, id: str, *, devices: int) -> str:
        admission_id = await self.begin_upgrade(id, devices=devices)
        async with self.admissions.attempt(admission_id):
            await self.admissions.acquire(admission_id)
            await self.finish(id, admission_id)
        return admission_id

    async def remove(self, id: str, *admission_ids: str) -> None:
        """As after a deletion, when nothing of the deployment runs any more."""

        def step(tx: Tx) -> None:
            tx.conn.execute(delete(DEPLOYMENTS).where(DEPLOYMENTS.c.id == id))
            self.admissions.releasing(tx, admission_ids)

        await self.store.write(step)
        await self.admissions.release(admission_ids)

    async def visible(self) -> dict[str, int]:
        """Revisions of admitted deployments by id."""
        rows = await self.store.read(lambda conn: conn.execute(select(DEPLOYMENTS)).all())
        return {row.id: row.revision for row in rows if row.revision}

    async def stored(self) -> set[str]:
        """Ids of all deployments, invisible ones too."""
        return set(await self.store.read(lambda conn: conn.execute(select(DEPLOYMENTS.c.id)).scalars().all()))

    async def states(self) -> dict[str, str]:
        """States of all admissions by id."""
        rows = await self.store.read(lambda conn: conn.execute(select(ADMISSION)).all())
        return {row.id: row.state for row in rows}


def _revision(tx: Tx, id: str) -> int:
    revision = tx.conn.execute(select(DEPLOYMENTS.c.revision).where(DEPLOYMENTS.c.id == id)).scalar_one_or_none()
    if revision is None:
        raise Conflict(f"{id} is gone")
    return int(revision)


def forget(tx: Tx, row: AdmissionRow) -> None:
    tx.conn.execute(delete(DEPLOYMENTS).where(DEPLOYMENTS.c.id == row.admission.owner.id, DEPLOYMENTS.c.revision == 0))
