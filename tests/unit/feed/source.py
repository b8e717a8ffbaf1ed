"""A service that others follow: things with a version, each change of one in the feed."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
from anycloud_common.clock import ManualClock
from anycloud_common.feed import FeedServicer, ListRefs
from anycloud_common.store import Store, Tx, change_table
from anycloud_common.store.scratch import open_scratch
from anycloudapi.common.internal.v1.feed_pb2_grpc import FeedServiceStub, add_FeedServiceServicer_to_server
from sqlalchemy import Column, Connection, Integer, MetaData, Table, Text, delete, func, select
from sqlalchemy.dialects.sqlite import insert

if TYPE_CHECKING:
    from anycloudapi.common.internal.v1.feed_pb2_grpc import FeedServiceAsyncStub

PREFIX = "cluster"
METADATA = MetaData()
THINGS = Table(
    "cluster_thing",
    METADATA,
    Column("kind", Text, primary_key=True),
    Column("id", Text, primary_key=True),
    Column("version", Integer, nullable=False),
)
CHANGES = change_table(PREFIX, METADATA)


def list_things(conn: Connection, kinds: Collection[str]) -> list[tuple[str, str]]:
    rows = conn.execute(select(THINGS.c.kind, THINGS.c.id).where(THINGS.c.kind.in_(kinds)).order_by(THINGS.c.id))
    return [(kind, id) for kind, id in rows]


class Source:
    """The service as a gRPC server on a Unix socket, over a file that stays when the server is stopped."""

    def __init__(self, directory: Path, clock: ManualClock, list_refs: ListRefs = list_things) -> None:
        self._socket = directory / f"{PREFIX}.sock"
        self._database = directory / f"{PREFIX}.sqlite"
        self._clock = clock
        self._list_refs = list_refs
        self._server: grpc.aio.Server | None = None
        options = [(f"grpc.{name}_reconnect_backoff_ms", 20) for name in ("initial", "min", "max")]
        self._channel = grpc.aio.insecure_channel(f"unix:{self._socket}", options=options)
        self.stub: FeedServiceAsyncStub = FeedServiceStub(self._channel)
        self.store: Store

    async def start(self) -> None:
        self.store = open_scratch(self._database, PREFIX, METADATA, self._clock)
        self._server = grpc.aio.server()
        add_FeedServiceServicer_to_server(FeedServicer(self.store, PREFIX, self._list_refs), self._server)
        self._server.add_insecure_port(f"unix:{self._socket}")
        await self._server.start()

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(None)
            self._server = None
            self.store.close()

    async def close(self) -> None:
        await self._channel.close()
        await self.stop()

    async def change(self, *ids: str, kind: str = "pool") -> None:
        """Raises the version of these things, each in a commit of its own, and makes those that aren't there."""
        for id in ids:
            await self.store.write(lambda tx, id=id: _change(tx, kind, id))  # type: ignore[misc]

    async def remove(self, id: str, kind: str = "pool") -> None:
        def step(tx: Tx) -> None:
            tx.conn.execute(delete(THINGS).where(THINGS.c.kind == kind, THINGS.c.id == id))
            tx.change(kind, id)

        await self.store.write(step)

    async def prune(self, kept: int = 1) -> None:
        """Forgets all changes but the newest few."""

        def step(tx: Tx) -> None:
            newest = tx.conn.execute(select(func.max(CHANGES.c.seq))).scalar_one() or 0
            tx.conn.execute(delete(CHANGES).where(CHANGES.c.seq <= newest - kept))

        await self.store.write(step)

    async def forget_newest(self) -> None:
        """As in a database that was set back to an earlier state."""
        newest = select(func.max(CHANGES.c.seq)).scalar_subquery()
        await self.store.write(lambda tx: tx.conn.execute(delete(CHANGES).where(CHANGES.c.seq == newest)) and None)

    async def versions(self, kind: str = "pool") -> dict[str, int]:
        rows = await self.store.read(lambda conn: conn.execute(select(THINGS).where(THINGS.c.kind == kind)).all())
        return {row.id: row.version for row in rows}


def _change(tx: Tx, kind: str, id: str) -> None:
    raised = insert(THINGS).values(kind=kind, id=id, version=1)
    raised = raised.on_conflict_do_update(index_elements=["kind", "id"], set_={"version": THINGS.c.version + 1})
    tx.conn.execute(raised)
    version = tx.conn.execute(select(THINGS.c.version).where(THINGS.c.kind == kind, THINGS.c.id == id)).scalar_one()
    tx.change(kind, id, version)
