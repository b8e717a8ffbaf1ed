"""What the services above may know of clusters and credentials."""

from __future__ import annotations

from typing import Any

from anycloud_common.errors import ApiError
from anycloud_common.store import Store
from anycloudapi.cluster.internal.v1 import cluster_pb2, cluster_pb2_grpc
from anycloudapi.common.v1 import errors_pb2

from anycloud_cluster.domain.cluster import Cluster, State
from anycloud_cluster.rpc.documents import PROVIDERS
from anycloud_cluster.store import clusters, credentials


class ClusterFactsServicer(cluster_pb2_grpc.ClusterFactsServicer):
    def __init__(self, store: Store) -> None:
        self._store = store

    async def GetCluster(self, request: cluster_pb2.GetClusterFactsRequest, context: Any) -> cluster_pb2.ClusterFact:
        wanted = request.id_or_name
        found = await self._store.look(lambda conn: clusters.find(conn, wanted) if wanted else clusters.only_live(conn))
        if found is None:
            text = f"There is no cluster {wanted!r}." if wanted else "There is no cluster."
            raise ApiError("CLUSTER_NOT_FOUND", text)
        return _fact(found)

    async def GetCredential(
        self, request: cluster_pb2.GetCredentialFactRequest, context: Any
    ) -> cluster_pb2.CredentialFact:
        found = await self._store.look(lambda conn: credentials.find(conn, request.name))
        if found is None:
            data = errors_pb2.CredentialErrorData(name=request.name)
            raise ApiError("CREDENTIAL_NOT_FOUND", f"There is no credential {request.name!r}.", data)
        return cluster_pb2.CredentialFact(
            id=found.id, name=found.name, provider=PROVIDERS[found.provider], account=found.account
        )


def _fact(cluster: Cluster) -> cluster_pb2.ClusterFact:
    url = cluster.api_url or ""
    usable = cluster.served and cluster.state is State.RUNNING
    return cluster_pb2.ClusterFact(
        id=cluster.id,
        name=cluster.name,
        state=cluster.state,
        accepting=cluster.accepting,
        kubernetes_identity=cluster.kubernetes_identity or "",
        endpoint=cluster.endpoint or "",
        ca=cluster.ca or "",
        address=cluster.address or "",
        api_url=url if cluster.own else "",
        management_api_url=url if usable and not cluster.own else "",
    )
