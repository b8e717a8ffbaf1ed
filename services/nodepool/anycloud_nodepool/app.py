"""Assembles the nodepool service."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from anycloud_common import introspection
from anycloud_common.admission import Admissions
from anycloud_common.cipher import Cipher
from anycloud_common.feed import FeedConsumer, FeedServicer
from anycloud_common.reconcile import Reconciler
from anycloud_common.release_values import ReleaseValues
from anycloud_common.server import ServerKit
from anycloud_common.store import Store
from anycloudapi.common.internal.v1 import feed_pb2_grpc, holds_pb2_grpc
from anycloudapi.nodepool.internal.v1 import node_pool_pb2_grpc
from anycloudapi.nodepool.v1 import node_pools_pb2_grpc
from sqlalchemy import Connection

from anycloud_nodepool.domain.ports import Kubernetes, View
from anycloud_nodepool.domain.sight import Sight
from anycloud_nodepool.gateways.absent import NoKubernetes, NothingSeen
from anycloud_nodepool.gateways.cluster import ClusterService, LedgerService
from anycloud_nodepool.reconcile.marks import SOURCE_KINDS, Marks
from anycloud_nodepool.reconcile.phases import PoolPass
from anycloud_nodepool.reconcile.resources import Resources
from anycloud_nodepool.reconcile.scope import Tools
from anycloud_nodepool.rpc.facts import NodePoolFactsServicer
from anycloud_nodepool.rpc.holds import PoolHolds
from anycloud_nodepool.rpc.node_pools import NodePoolsServicer, forget_pending
from anycloud_nodepool.store import pools, sights
from anycloud_nodepool.store.tables import PREFIX

if TYPE_CHECKING:
    from anycloudapi.common.internal.v1.holds_pb2_grpc import HoldServiceAsyncStub

WORKERS = 8


async def build(kit: ServerKit) -> None:
    settings, clock = kit.settings, kit.clock
    store = Store.open(settings.database(PREFIX), PREFIX, clock)

    async def close() -> None:
        await asyncio.to_thread(store.close)

    kit.on_close(close)
    channel = kit.channel("cluster")
    introspection.authenticate(kit)
    cluster_holds: HoldServiceAsyncStub = holds_pb2_grpc.HoldServiceStub(channel)
    admissions = Admissions(
        store,
        PREFIX,
        lambda kind: cluster_holds,
        clock,
        forget=lambda tx, row: forget_pending(tx, row.admission.owner.kind, row.admission.owner.id),
    )
    clusters = ClusterService(channel)
    wakes = _Wakes(store)
    kube, view = await _cluster(kit, wakes)
    servicer = NodePoolsServicer(
        store, clusters, kube, admissions, clock=clock, wake=wakes.pool, hosted=settings.hosted
    )
    kit.add(node_pools_pb2_grpc.add_NodePoolsServicer_to_server, servicer)
    _serve_siblings(kit, store, wakes.pool)
    kit.spawn(admissions.run, "admissions")
    if not settings.hosted:
        return
    ledger = LedgerService(channel)
    tools = Tools(
        store=store,
        kube=kube,
        view=view,
        ledger=ledger,
        resources=Resources(ledger),
        clusters=clusters,
        admissions=admissions,
        cipher=Cipher.load(settings.cipher_key),
        clock=clock,
        sight=Sight(clock, await store.read(sights.read)),
        incarnation=settings.incarnation.read_text(encoding="ascii").strip(),
    )
    await _reconcile(kit, tools, wakes)


class _Wakes:
    """Wakes the reconciler, which is made last."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.mark: Callable[[str], None] = lambda pool_id: None

    def pool(self, pool_id: str) -> None:
        self.mark(pool_id)

    def pools(self, pool_ids: Sequence[str]) -> None:
        for pool_id in pool_ids:
            self.mark(pool_id)

    async def all(self) -> None:
        for pool_id in await self._store.read(pools.live_ids):
            self.mark(pool_id)


async def _cluster(kit: ServerKit, wakes: _Wakes) -> tuple[Kubernetes, View]:
    """The hosted API's own cluster, and the watches on it; nothing on an installer."""
    if not kit.settings.hosted:
        return NoKubernetes(), NothingSeen()
    from anycloud_common.kube import Kube

    from anycloud_nodepool.gateways.kube import KubeCluster
    from anycloud_nodepool.live.world import World

    kube = Kube.in_cluster(kit.settings, kit.clock)
    kit.on_close(kube.close)
    world = World(kube, kit.clock, wakes.pool, wakes.all)
    kit.spawn(world.run, "watches")
    return KubeCluster(kube), world


def _serve_siblings(kit: ServerKit, store: Store, wake: Callable[[str], None]) -> None:
    values = kit.settings.release_values
    identity = "" if values is None else ReleaseValues.load(values).cluster.identity
    kit.add(node_pool_pb2_grpc.add_NodePoolFactsServicer_to_server, NodePoolFactsServicer(store, identity))
    kit.add(holds_pb2_grpc.add_HoldServiceServicer_to_server, PoolHolds(store, wake))
    kit.add(feed_pb2_grpc.add_FeedServiceServicer_to_server, FeedServicer(store, PREFIX, _refs))


def _refs(conn: Connection, kinds: Collection[str]) -> Iterable[tuple[str, str]]:
    return [(pools.KIND, pool_id) for pool_id in pools.live_ids(conn)] if pools.KIND in kinds else []


async def _reconcile(kit: ServerKit, tools: Tools, wakes: _Wakes) -> None:
    reconciler = Reconciler(PREFIX, PoolPass(tools), kit.clock, workers=WORKERS)
    wakes.mark = reconciler.mark
    marks = Marks(tools.resources)
    consumer = FeedConsumer(
        tools.store,
        PREFIX,
        "cluster",
        feed_pb2_grpc.FeedServiceStub(kit.channel("cluster")),
        kinds=SOURCE_KINDS,
        mark=marks.mark,
        wake=wakes.pools,
        clock=kit.clock,
    )
    await wakes.all()
    kit.spawn(consumer.run, "feed of cluster")
    kit.spawn(reconciler.run, "reconciler")
