"""A nodepool service in one process: real store, servicers and reconciler, on a world in memory and a stepped clock."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from anycloud_common import calls
from anycloud_common.admission import Admissions
from anycloud_common.calls import Call, Principal
from anycloud_common.cipher import Cipher
from anycloud_common.clock import ManualClock
from anycloud_common.holds import Admission, Owner, Parent, acquire, release
from anycloud_common.reconcile import Outcome
from anycloud_common.store import Store
from anycloud_nodepool.domain.model import Attempt, Pool, ResourceState
from anycloud_nodepool.domain.sight import Sight
from anycloud_nodepool.reconcile.phases import PoolPass
from anycloud_nodepool.reconcile.resources import Resources
from anycloud_nodepool.reconcile.scope import Tools
from anycloud_nodepool.rpc.node_pools import NodePoolsServicer, forget_pending
from anycloud_nodepool.rpc.policy import Policy
from anycloud_nodepool.store import attempts, events, pools, sights
from anycloud_nodepool.store.tables import PREFIX
from anycloud_release.migrate import migrate_service
from anycloudapi.common.internal.v1 import holds_pb2
from anycloudapi.nodepool.v1 import node_pools_pb2

from tests.unit.nodepool.fakes import World

OWNER = Owner("deployment", "dep-1")


class ClusterHolds:
    """The cluster service's side of holds; `refusal` is its answer when set."""

    def __init__(self) -> None:
        self.held: dict[str, list[tuple[str, str]]] = {}
        self.refusal: holds_pb2.Refused | None = None
        self.gate: asyncio.Event | None = None

    async def AcquireHolds(self, request: Any, **options: Any) -> holds_pb2.AcquireHoldsResponse:
        if self.gate is not None:
            await self.gate.wait()
        if self.refusal is not None:
            return holds_pb2.AcquireHoldsResponse(refused=self.refusal)
        self.held[request.admission.id] = [(parent.kind, parent.id) for parent in request.admission.parents]
        return holds_pb2.AcquireHoldsResponse(granted=holds_pb2.Granted())

    async def ReleaseHolds(self, request: Any, **options: Any) -> holds_pb2.ReleaseHoldsResponse:
        for id in request.admission_ids:
            self.held.pop(id, None)
        return holds_pb2.ReleaseHoldsResponse()


class Rig:
    """`start` opens the store, as a process does; after `stop` (or a kill) it can be started again."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.clock = ManualClock()
        self.world = World(self.clock)
        self.cluster_holds = ClusterHolds()
        self.woken: list[str] = []
        migrate_service(directory / "nodepool.sqlite", PREFIX)

    async def start(self, *, hosted: bool = True) -> None:
        store = self.store = Store.open(self.directory / "nodepool.sqlite", PREFIX, self.clock)
        world: Any = self.world
        holds: Any = self.cluster_holds
        self.admissions = Admissions(
            store,
            PREFIX,
            lambda kind: holds,
            self.clock,
            forget=lambda tx, row: forget_pending(tx, row.admission.owner.kind, row.admission.owner.id),
        )
        self.sight = Sight(self.clock, await store.read(sights.read))
        self.resources = Resources(world)
        self.tools = Tools(
            store=store,
            kube=world,
            view=world,
            ledger=world,
            resources=self.resources,
            clusters=world,
            admissions=self.admissions,
            cipher=Cipher.load(self.directory / "cipher.key"),
            clock=self.clock,
            sight=self.sight,
            incarnation="1a2b3c4d",
        )
        self.handle = PoolPass(self.tools)
        self.rpc = NodePoolsServicer(
            store, world, world, self.admissions, clock=self.clock, wake=self.woken.append, hosted=hosted
        )
        principal = Principal("github:1", "demo", "user")
        calls.enter(Call(principal, "req-1", None, None, None, "/m", True, {}))

    def stop(self) -> None:
        self.store.close()

    async def create(self, name: str = "cpu", count: int = 1, **more: Any) -> node_pools_pb2.NodePool:
        values = {"credential_name": "aws", "region": "us-east-1", "vm_types": ["m5.large"]}
        spec = node_pools_pb2.NodePoolSpec(
            name=name, **{**values, "min_vm_count": count, "max_vm_count": count, **more}
        )
        return await self.rpc.CreateNodePool(node_pools_pb2.CreateNodePoolRequest(node_pool=spec), None)

    async def get(self, id_or_name: str = "cpu") -> node_pools_pb2.NodePool:
        return await self.rpc.GetNodePool(node_pools_pb2.GetNodePoolRequest(id=id_or_name), None)

    async def delete(self, id_or_name: str = "cpu") -> node_pools_pb2.NodePool:
        return await self.rpc.DeleteNodePool(node_pools_pb2.DeleteNodePoolRequest(id=id_or_name), None)

    async def step(self, pool_id: str) -> Outcome:
        """One pass, which hears of everything that changed in the ledger."""
        self.resources.stale(pool_id)
        return await self.handle(pool_id)

    async def run(self, pool_id: str) -> Outcome:
        """Passes, with the world going on in between, until neither changes anything any more."""
        for _ in range(30):
            writes = await self._trace(pool_id)
            outcome = await self.step(pool_id)
            moved = self.world.settle()
            if not moved and await self._trace(pool_id) == writes:
                return outcome
        raise AssertionError("it never comes to rest")

    async def wait(self, pool_id: str, seconds: float, step: float = 30.0) -> None:
        """Time goes on, with passes all along."""
        end = self.clock.monotonic() + seconds
        while self.clock.monotonic() < end:
            await self.clock.advance(min(step, end - self.clock.monotonic()))
            await self.run(pool_id)

    async def pool(self, pool_id: str) -> Pool:
        found = await self.store.read(lambda conn: pools.get(conn, pool_id))
        assert found is not None
        return found

    async def attempts(self, pool_id: str) -> list[Attempt]:
        return await self.store.read(lambda conn: attempts.of_pool(conn, pool_id))

    async def told(self, pool_id: str) -> list[str]:
        return [event.reason for event in await self.store.read(lambda conn: events.listed(conn, pool_id))]

    async def hold(self, pool_id: str, admission: str = "adm-1", devices: int = 0, owner: Owner = OWNER) -> str | None:
        """Takes a hold as deployment would; the refusal's text, if any."""
        wanted = Admission(admission, owner, (Parent("node-pool", pool_id),), devices)
        refusal = await self.store.write(lambda tx: acquire(tx, PREFIX, Policy(), "deployment", wanted))
        return None if refusal is None else refusal.message

    async def let_go(self, admission: str = "adm-1") -> None:
        await self.store.write(lambda tx: release(tx, PREFIX, [admission]))

    async def running(self, name: str = "cpu", count: int = 1, **more: Any) -> str:
        """Creates a pool that runs; its id."""
        pool_id = (await self.create(name, count, **more)).id
        await self.run(pool_id)
        assert (await self.pool(pool_id)).state == "running", await self.pool(pool_id)
        return pool_id

    async def until(self, check: Callable[[], Awaitable[bool]], seconds: float = 5) -> None:
        """For what waits for a thread or another task."""
        async with asyncio.timeout(seconds):
            while True:
                if await check():
                    return
                await asyncio.sleep(0.01)

    async def let_go_of_parents(self) -> bool:
        return not self.cluster_holds.held

    def lose_all(self) -> None:
        """All VMs of the moment are ended behind our back."""
        for token in self.world.machines(ResourceState.RUNNING):
            self.world.turn(token, ResourceState.LOST)

    async def _trace(self, pool_id: str) -> tuple[Any, ...]:
        pool = await self.pool(pool_id)
        return (pool, tuple(await self.attempts(pool_id)), len(self.world.objects), len(self.world.node_facts))
