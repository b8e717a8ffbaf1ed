"""A service that follows: its own objects stand on foreign things, and are dirty until it has read those again."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from anycloud_common import feed
from anycloud_common.clock import ManualClock
from anycloud_common.feed import FeedConsumer, Mark
from anycloud_common.store import Store
from anycloud_common.store.scratch import open_scratch
from sqlalchemy import Boolean, Column, Connection, MetaData, Table, Text, insert, select, update

PREFIX = "nodepool"
METADATA = MetaData()
OBJECTS = Table(
    "nodepool_object",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("stands_on", Text, nullable=False),
    Column("dirty", Boolean, nullable=False),
)
CURSOR = feed.tables(PREFIX, METADATA)


def mark(conn: Connection, kind: str, ids: list[str] | None) -> list[str]:
    which = OBJECTS.c.kind == kind
    if ids is not None:
        which &= OBJECTS.c.stands_on.in_(ids)
    return list(conn.execute(update(OBJECTS).where(which).values(dirty=True).returning(OBJECTS.c.id)).scalars())


class Follower:
    """`crash` drops everything that is only in memory, and starts again on the same file."""

    def __init__(self, directory: Path, clock: ManualClock, stub: Any, kinds: Collection[str] = ("pool",)) -> None:
        self._database = directory / f"{PREFIX}.sqlite"
        self._clock = clock
        self.stub = stub
        self.running: asyncio.Task[None] | None = None
        self.kinds = kinds
        self.mark: Mark = mark  # a test may set another
        self.woken: list[str] = []
        self.store: Store = open_scratch(self._database, PREFIX, METADATA, clock)

    def start(self) -> None:
        consumer = FeedConsumer(
            self.store,
            PREFIX,
            "cluster",
            self.stub,
            kinds=self.kinds,
            mark=self._mark,
            wake=self._wake,
            clock=self._clock,
        )
        self.running = asyncio.create_task(consumer.run())

    async def stop(self) -> None:
        """Ends the background work, and raises what it has failed with."""
        if self.running is not None:
            self.running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self.running
            self.running = None

    async def close(self) -> None:
        await self.stop()
        self.store.close()

    async def crash(self) -> None:
        await self.close()
        self.store = open_scratch(self._database, PREFIX, METADATA, self._clock)

    async def know(self, *ids: str, kind: str = "pool") -> None:
        """Own objects, each standing on the thing of that id, all clean."""
        rows = [{"id": f"own-{id}", "kind": kind, "stands_on": id, "dirty": False} for id in ids]
        await self.store.write(lambda tx: tx.conn.execute(insert(OBJECTS), rows) and None)

    async def dirty(self) -> set[str]:
        """Things on which dirty objects stand."""
        which = select(OBJECTS.c.stands_on).where(OBJECTS.c.dirty)
        return set(await self.store.read(lambda conn: conn.execute(which).scalars().all()))

    async def take_dirty(self) -> set[str]:
        """The same, which are clean afterwards: whoever takes them reads the things now."""
        which = update(OBJECTS).where(OBJECTS.c.dirty).values(dirty=False).returning(OBJECTS.c.stands_on)
        return await self.store.write(lambda tx: set(tx.conn.execute(which).scalars()))

    async def cursor(self) -> int | None:
        row = await self.store.read(lambda conn: conn.execute(select(CURSOR)).first())
        return None if row is None else int(row.seq)

    def _mark(self, conn: Connection, kind: str, ids: list[str] | None) -> list[str]:
        return self.mark(conn, kind, ids)

    def _wake(self, keys: Sequence[str]) -> None:
        self.woken.extend(keys)
