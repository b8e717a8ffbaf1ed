"""nodepool, asked over its internal contract."""

from __future__ import annotations

from collections.abc import Collection

import grpc
from anycloudapi.common.v1 import types_pb2
from anycloudapi.nodepool.internal.v1 import node_pool_pb2, node_pool_pb2_grpc

from anycloud_deployment.domain.model import Pool
from anycloud_deployment.domain.ports import PoolUnavailable

_PROVIDERS = {
    types_pb2.CLOUD_PROVIDER_AWS: "AWS",
    types_pb2.CLOUD_PROVIDER_GCP: "GCP",
    types_pb2.CLOUD_PROVIDER_AZURE: "Azure",
}


class NodePoolService:
    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub: node_pool_pb2_grpc.NodePoolFactsAsyncStub = node_pool_pb2_grpc.NodePoolFactsStub(channel)

    async def find(self, id_or_name: str) -> Pool | None:
        try:
            fact = await self._stub.GetNodePool(node_pool_pb2.GetNodePoolFactRequest(id_or_name=id_or_name))
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.NOT_FOUND:
                return None
            raise PoolUnavailable(f"GetNodePool: {error.code().name}") from error
        return Pool(
            id=fact.id,
            name=fact.name,
            cluster_id=fact.cluster_id,
            state=fact.state,
            provider=_PROVIDERS.get(fact.provider, ""),
            vm_type=fact.vm_type,
            ready_nodes=fact.ready_nodes,
            namespace=fact.namespace,
            namespace_uid=fact.namespace_uid,
            namespace_error=fact.namespace_error,
        )

    async def closed_attempts(self, attempts: Collection[str]) -> frozenset[str]:
        request = node_pool_pb2.ListClosedAttemptsRequest(attempt_ids=sorted(attempts))
        try:
            response = await self._stub.ListClosedAttempts(request)
        except grpc.aio.AioRpcError as error:
            raise PoolUnavailable(f"ListClosedAttempts: {error.code().name}") from error
        return frozenset(response.attempt_ids)
