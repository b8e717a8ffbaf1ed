"""A parent's service in small: node pools with a name, a state and devices, and the real holds on them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import grpc
from anycloud_common import holds
from anycloud_common.clock import ManualClock
from anycloud_common.holds import Capacity, HoldServicer, Owner, Parent, Refusal
from anycloud_common.store import Store, Tx
from anycloud_common.store.scratch import open_scratch
from anycloudapi.common.internal.v1.holds_pb2_grpc import HoldServiceStub, add_HoldServiceServicer_to_server
from sqlalchemy import Column, Connection, Integer, MetaData, Row, Table, Text, insert, select, update

if TYPE_CHECKING:
    from anycloudapi.common.internal.v1.holds_pb2_grpc import HoldServiceAsyncStub

PREFIX = "nodepool"
POOL = "node-pool"
METADATA = MetaData()
POOLS = Table(
    "nodepool_pool",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("devices", Integer),
)
HOLDS = holds.tables(PREFIX, METADATA)


class PoolPolicy:
    """Only a running pool is held; a pool without a number of devices doesn't count them."""

    def check(self, conn: Connection, parent: Parent, owner: Owner, devices: int) -> Refusal | None:
        pool = find_pool(conn, parent.id) if parent.kind == POOL else None
        if pool is None:
            return Refusal(*parent, "NOT_FOUND", f"There is no {parent.kind} {parent.id}.")
        if pool.state != "running":
            return Refusal(*parent, "NOT_RUNNING", f"Node pool {pool.name} is {pool.state}.")
        return None

    def capacity(self, conn: Connection, parent: Parent) -> Capacity | None:
        pool = find_pool(conn, parent.id)
        assert pool is not None
        return None if pool.devices is None else Capacity(pool.devices, f"Node pool {pool.name} ({pool.state})")


def find_pool(conn: Connection, pool_id: str) -> Row[tuple[str, str, str, int | None]] | None:
    return conn.execute(select(POOLS).where(POOLS.c.id == pool_id)).first()


def add_pool(tx: Tx, pool_id: str, *, name: str = "gpu", state: str = "running", devices: int | None = None) -> None:
    tx.conn.execute(insert(POOLS).values(id=pool_id, name=name, state=state, devices=devices))


def set_pool(tx: Tx, pool_id: str, state: str) -> None:
    tx.conn.execute(update(POOLS).where(POOLS.c.id == pool_id).values(state=state))


def delete_pool(tx: Tx, pool_id: str) -> bool:
    """What a service does to begin a deletion: False while somebody holds the pool."""
    if holds.count(tx.conn, PREFIX, POOL, pool_id):
        return False
    set_pool(tx, pool_id, "deleting")
    return True


class ParentService:
    """The service as a gRPC server on a Unix socket, over a store that stays when the server is stopped."""

    def __init__(self, directory: Path, clock: ManualClock) -> None:
        self._socket = directory / f"{PREFIX}.sock"
        self._database = directory / f"{PREFIX}.sqlite"
        self._clock = clock
        self._server: grpc.aio.Server | None = None
        options = [(f"grpc.{name}_reconnect_backoff_ms", 20) for name in ("initial", "min", "max")]
        self.channel = grpc.aio.insecure_channel(f"unix:{self._socket}", options=options)
        self.stub: HoldServiceAsyncStub = HoldServiceStub(self.channel)
        self.store: Store

    async def start(self) -> None:
        self.store = open_scratch(self._database, PREFIX, METADATA, self._clock)
        self._server = grpc.aio.server()
        add_HoldServiceServicer_to_server(HoldServicer(self.store, PREFIX, PoolPolicy()), self._server)
        self._server.add_insecure_port(f"unix:{self._socket}")
        await self._server.start()

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(None)
            self._server = None
            self.store.close()

    async def close(self) -> None:
        await self.channel.close()
        await self.stop()

    async def owners(self, pool_id: str) -> list[Owner]:
        return await self.store.read(lambda conn: holds.owners(conn, PREFIX, POOL, pool_id))

    async def held(self) -> set[str]:
        """Ids of all admissions that hold something."""
        rows = await self.store.read(lambda conn: conn.execute(select(HOLDS.hold.c.admission_id)).scalars().all())
        return set(rows)

    async def devices_held(self, pool_id: str) -> int:
        return await self.store.read(lambda conn: holds.devices_held(conn, PREFIX, POOL, pool_id))
