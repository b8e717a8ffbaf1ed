"""Clusters, for their users."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from anycloud_common import calls, holds, paging
from anycloud_common.errors import ApiError
from anycloud_common.paging import Listed
from anycloud_common.store import Store
from anycloudapi.cluster.v1 import clusters_pb2, clusters_pb2_grpc
from sqlalchemy import Connection

from anycloud_cluster.domain.cluster import Cluster, Target
from anycloud_cluster.rpc.callers import actor
from anycloud_cluster.rpc.cluster_messages import message
from anycloud_cluster.rpc.creation import Creation
from anycloud_cluster.rpc.deletion import Deletion
from anycloud_cluster.rpc.fence import FENCE_HEADER, WITHDRAW_HEADER, Fences
from anycloud_cluster.rpc.forgetting import Forgetting
from anycloud_cluster.store import clusters
from anycloud_cluster.store.tables import PREFIX


@dataclass(frozen=True)
class Installing:
    """What only an installer does."""

    creation: Creation
    deletion: Deletion
    forgetting: Forgetting


class ClustersServicer(clusters_pb2_grpc.ClustersServicer):
    """`installing` None: a hosted API, which has its own cluster and no other."""

    def __init__(self, store: Store, fences: Fences, installing: Installing | None) -> None:
        self._store = store
        self._fences = fences
        self._installing = installing

    async def ListClusters(
        self, request: clusters_pb2.ListClustersRequest, context: Any
    ) -> clusters_pb2.ListClustersResponse:
        page = paging.asked(request)

        def read(conn: Connection) -> Listed[clusters_pb2.Cluster]:
            return clusters.listed(conn, page).each(lambda cluster: _shown(conn, cluster))

        listed = await self._store.read(read)
        return clusters_pb2.ListClustersResponse(
            clusters=listed.items, next_cursor=listed.next_cursor, total_count=listed.total
        )

    async def GetCluster(self, request: clusters_pb2.GetClusterRequest, context: Any) -> clusters_pb2.Cluster:
        return await self._answer(await self._found(request.id))

    async def CreateCluster(self, request: clusters_pb2.CreateClusterRequest, context: Any) -> clusters_pb2.Cluster:
        if self._installing is None:
            raise ApiError(
                "CLUSTER_UNAVAILABLE",
                "A hosted API makes no clusters: choose the local one with `anycloud api use local`, then create.",
            )
        spec = request.cluster
        target = Target(
            credential_name=spec.credential_name,
            region=spec.region,
            zone=spec.zone if spec.HasField("zone") else None,
            vm_type=spec.vm_type,
            bucket=spec.checkpoint_bucket if spec.HasField("checkpoint_bucket") else None,
        )
        token = calls.current().github_token
        return await self._answer(await self._installing.creation.begin(spec.name, target, token, actor()))

    async def DestroyCluster(self, request: clusters_pb2.DestroyClusterRequest, context: Any) -> clusters_pb2.Cluster:
        found = await self._found(request.id)
        call = calls.current()
        if self._installing is not None:
            return await self._answer(await self._installing.deletion.begin(found, call.github_token, actor()))
        if delete_id := call.headers.get(FENCE_HEADER):
            return await self._answer(await self._fences.set(found, delete_id, actor()))
        if delete_id := call.headers.get(WITHDRAW_HEADER):
            return await self._answer(await self._fences.withdraw(found, delete_id, actor()))
        raise ApiError(
            "CLUSTER_INVALID",
            f"Cluster {found.name} can't be deleted by the API that it hosts: choose the installer that made it with "
            f"`anycloud api use local`, then `anycloud cluster delete {found.name}`.",
        )

    async def ForgetCluster(
        self, request: clusters_pb2.ForgetClusterRequest, context: Any
    ) -> clusters_pb2.ForgetClusterResponse:
        found = await self._found(request.id)
        if self._installing is None:
            text = f"Cluster {found.name} is reachable: this is the API on it. Only its installer can forget it."
            raise ApiError("CLUSTER_REACHABLE", text)
        return await self._installing.forgetting.forget(found, calls.current().github_token)

    async def _found(self, id_or_name: str) -> Cluster:
        found = await self._store.look(lambda conn: clusters.find(conn, id_or_name))
        if found is None:
            raise ApiError("CLUSTER_NOT_FOUND", f"There is no cluster {id_or_name!r}.")
        return found

    async def _answer(self, cluster: Cluster) -> clusters_pb2.Cluster:
        return await self._store.read(lambda conn: _shown(conn, cluster))


def _shown(conn: Connection, cluster: Cluster) -> clusters_pb2.Cluster:
    return message(cluster, holds.count(conn, PREFIX, clusters.KIND, cluster.id))
