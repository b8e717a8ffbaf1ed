"""Node pools, as their users ask for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from anycloud_common import calls, paging
from anycloud_common.admission import Admissions, Conflict, Refused
from anycloud_common.clock import Clock
from anycloud_common.errors import ApiError
from anycloud_common.events import Actor, Event
from anycloud_common.holds import Owner, Parent, count, owners
from anycloud_common.kube import KubeError
from anycloud_common.paging import Listed, Page
from anycloud_common.store import Store, Tx
from anycloudapi.nodepool.v1 import node_pools_pb2, node_pools_pb2_grpc
from sqlalchemy import Connection

from anycloud_nodepool.domain import create, naming
from anycloud_nodepool.domain.create import Place, Wanted
from anycloud_nodepool.domain.model import ClusterFact, CredentialFact, Pool, State
from anycloud_nodepool.domain.ports import Clusters, Kubernetes
from anycloud_nodepool.domain.refusal import Refusal
from anycloud_nodepool.rpc.summary import summary
from anycloud_nodepool.store import events, pools
from anycloud_nodepool.store.tables import PREFIX

Counted = tuple[Pool, int]


class NodePoolsServicer(node_pools_pb2_grpc.NodePoolsServicer):
    """`hosted`: this API runs on the cluster. `wake` hears of pools that were created or are to be deleted."""

    def __init__(
        self,
        store: Store,
        clusters: Clusters,
        kube: Kubernetes,
        admissions: Admissions,
        *,
        clock: Clock,
        wake: Callable[[str], None],
        hosted: bool,
    ) -> None:
        self._store = store
        self._clusters = clusters
        self._kube = kube
        self._admissions = admissions
        self._clock = clock
        self._wake = wake
        self._hosted = hosted

    async def ListNodePools(
        self, request: node_pools_pb2.ListNodePoolsRequest, context: Any
    ) -> node_pools_pb2.ListNodePoolsResponse:
        cluster_id = None
        if request.HasField("cluster"):
            found = await self._clusters.find(request.cluster)
            if found is None:
                raise ApiError("CLUSTER_NOT_FOUND", f"There is no cluster {request.cluster!r}.")
            cluster_id = found.id
        listed = await self._store.read(partial(_listed, cluster_id=cluster_id, page=paging.asked(request)))
        return node_pools_pb2.ListNodePoolsResponse(
            node_pools=[_summary(*counted) for counted in listed.items],
            next_cursor=listed.next_cursor,
            total_count=listed.total,
        )

    async def GetNodePool(self, request: node_pools_pb2.GetNodePoolRequest, context: Any) -> node_pools_pb2.NodePool:
        found = await self._store.look(lambda conn: _found(conn, request.id))
        return _summary(*found)

    async def CreateNodePool(
        self, request: node_pools_pb2.CreateNodePoolRequest, context: Any
    ) -> node_pools_pb2.NodePool:
        try:
            return await self._create(_wanted(request.node_pool))
        except Refusal as refusal:
            raise ApiError(refusal.code, refusal.message) from None

    async def DeleteNodePool(
        self, request: node_pools_pb2.DeleteNodePoolRequest, context: Any
    ) -> node_pools_pb2.NodePool:
        pool = await self._store.write(partial(self._begin_delete, request.id, _actor()))
        return _summary(pool, 0)

    async def _create(self, wanted: Wanted) -> node_pools_pb2.NodePool:
        cluster, credential, place = await self._check(wanted)
        pool = _new_pool(wanted, cluster, credential, place, self._clock.now_ms())
        parents = [Parent("cluster", cluster.id), Parent("credential", credential.id)]
        admission_id = await self._store.write(partial(self._begin, pool, parents))
        async with self._admissions.attempt(admission_id):
            try:
                await self._admissions.acquire(admission_id)
            except Refused as refused:
                raise Refusal(refused.code, refused.message) from None
            try:
                await self._store.write(partial(self._admit, pool, admission_id, _actor()))
            except Conflict:
                text = "The node pool's creation took too long and was given up; try again."
                raise Refusal("NODE_POOLS_UNAVAILABLE", text) from None
        return _summary(pool, 0)

    async def _check(self, wanted: Wanted) -> tuple[ClusterFact, CredentialFact, Place]:
        """All that can speak against it before anything is stored, the state of the connection included."""
        if not self._hosted:
            known = await self._clusters.find("")
            raise create.unavailable_here(known.management_api_url if known else "")
        create.check_form(wanted)
        cluster = create.check_cluster(await self._clusters.find(wanted.cluster or ""), wanted.cluster)
        credential = await self._clusters.credential(wanted.credential_name)
        if credential is None:
            text = f"There is no credential {wanted.credential_name!r}; add it with `anycloud credentials new`."
            raise Refusal("NODE_POOL_CREDENTIAL_NOT_FOUND", text)
        place = create.check_place(wanted, credential)
        try:
            create.check_connection(await self._kube.problems(cluster.identity))
        except KubeError as error:
            text = f"The cluster can't be reached right now: {error.message}"
            raise Refusal("NODE_POOLS_UNAVAILABLE", text) from None
        return cluster, credential, place

    def _begin(self, pool: Pool, parents: list[Parent], tx: Tx) -> str:
        if pools.taken(tx.conn, pool.name):
            raise Refusal("NODE_POOL_ALREADY_EXISTS", f"There is a node pool {pool.name!r} already.")
        pools.insert_new(tx, replace(pool, visible=False))
        return self._admissions.begin(tx, pools.KIND, pool.id, base_revision=0, devices=0, parents=parents)

    def _admit(self, pool: Pool, admission_id: str, actor: Actor, tx: Tx) -> None:
        self._admissions.admitted(tx, admission_id, 0)
        pools.write(tx, pool.id, {"visible": True})
        events.append(tx, pool.id, [Event("created")], actor)
        tx.change(pools.KIND, pool.id)
        tx.after_commit(partial(self._wake, pool.id))

    def _begin_delete(self, id_or_name: str, actor: Actor, tx: Tx) -> Pool:
        """References are looked for in the very transaction that begins the deletion. A repetition changes nothing."""
        pool, _ = _found(tx.conn, id_or_name)
        if pool.deletion_requested_at is not None:
            return pool
        holders = owners(tx.conn, PREFIX, pools.KIND, pool.id)
        if holders:
            listed = ", ".join(f"{owner.kind} {owner.id}" for owner in holders[:10])
            more = f" and {len(holders) - 10} more" if len(holders) > 10 else ""
            steps = ", ".join(f"`{_end(owner)}`" for owner in holders[:10])
            text = f"Node pool {pool.name!r} is used by {listed}{more}; first {steps}."
            raise ApiError("NODE_POOL_REFERENCED", text)
        values = {"deletion_requested_at": tx.now, "updated_at": tx.now, "state": State.DELETING.value}
        pools.write(tx, pool.id, values)
        events.append(tx, pool.id, [Event("deletion-requested")], actor)
        tx.change(pools.KIND, pool.id)
        tx.after_commit(partial(self._wake, pool.id))
        return replace(pool, state=State.DELETING, deletion_requested_at=tx.now, updated_at=tx.now)


def _end(owner: Owner) -> str:
    """The command that ends what uses a pool."""
    return f"anycloud deployment delete {owner.id}" if owner.kind == "deployment" else f"anycloud terminate {owner.id}"


def forget_pending(tx: Tx, owner_kind: str, owner_id: str) -> None:
    """Drops a pool whose admission came to nothing, unless it is there for all to see."""
    if owner_kind == pools.KIND:
        pools.drop_invisible(tx, owner_id)


def _wanted(spec: node_pools_pb2.NodePoolSpec) -> Wanted:
    return Wanted(
        name=spec.name,
        cluster=spec.cluster if spec.HasField("cluster") else None,
        credential_name=spec.credential_name,
        region=spec.region if spec.HasField("region") else None,
        zone=spec.zone if spec.HasField("zone") else None,
        vm_types=tuple(spec.vm_types),
        min_vm_count=spec.min_vm_count,
        max_vm_count=spec.max_vm_count,
    )


def _new_pool(wanted: Wanted, cluster: ClusterFact, credential: CredentialFact, place: Place, now: int) -> Pool:
    return Pool(
        id=naming.pool_id(),
        name=wanted.name,
        cluster_id=cluster.id,
        credential_id=credential.id,
        credential_name=credential.name,
        provider=credential.provider,
        region=place.region,
        zone=place.zone,
        vm_type=place.vm_type,
        vm_count=place.vm_count,
        gpus=place.gpus,
        created_by=_actor().id,
        created_at=now,
        updated_at=now,
        checked_at=now,
    )


def _actor() -> Actor:
    call = calls.current()
    return Actor(call.principal.id if call.principal else "", call.request_id)


def _listed(conn: Connection, cluster_id: str | None, page: Page) -> Listed[Counted]:
    return pools.listed(conn, cluster_id, page).each(lambda pool: (pool, count(conn, PREFIX, pools.KIND, pool.id)))


def _found(conn: Connection, id_or_name: str) -> Counted:
    pool = pools.find(conn, id_or_name)
    if pool is None:
        raise ApiError("NODE_POOL_NOT_FOUND", f"There is no node pool {id_or_name!r}.")
    return pool, count(conn, PREFIX, pools.KIND, pool.id)


def _summary(pool: Pool, references: int) -> node_pools_pb2.NodePool:
    return summary(pool, references, node_pools_pb2.NodePool.Ingress())
