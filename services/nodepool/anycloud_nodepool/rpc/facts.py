"""What deployment may know of node pools."""

from __future__ import annotations

from typing import Any

import grpc
from anycloud_common.store import Store
from anycloudapi.nodepool.internal.v1 import node_pool_pb2, node_pool_pb2_grpc

from anycloud_nodepool.rpc.summary import fact
from anycloud_nodepool.store import attempts, pools

_ASKED_AT_ONCE = 1000


class NodePoolFactsServicer(node_pool_pb2_grpc.NodePoolFactsServicer):
    """`identity` is the UID of kube-system; empty where there is no cluster."""

    def __init__(self, store: Store, identity: str) -> None:
        self._store = store
        self._identity = identity

    async def GetNodePool(
        self, request: node_pool_pb2.GetNodePoolFactRequest, context: Any
    ) -> node_pool_pb2.NodePoolFact:
        found = await self._store.look(lambda conn: pools.find(conn, request.id_or_name))
        if found is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"there is no node pool {request.id_or_name}")
            raise AssertionError("abort returned")
        return fact(found, self._identity)

    async def ListNodePools(
        self, request: node_pool_pb2.ListNodePoolFactsRequest, context: Any
    ) -> node_pool_pb2.ListNodePoolFactsResponse:
        found = await self._store.read(lambda conn: pools.listed(conn).items)
        return node_pool_pb2.ListNodePoolFactsResponse(node_pools=[fact(pool, self._identity) for pool in found])

    async def ListClosedAttempts(
        self, request: node_pool_pb2.ListClosedAttemptsRequest, context: Any
    ) -> node_pool_pb2.ListClosedAttemptsResponse:
        asked = list(request.attempt_ids)
        if len(asked) > _ASKED_AT_ONCE:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"at most {_ASKED_AT_ONCE} attempts at once")
        closed = await self._store.read(lambda conn: attempts.closed(conn, asked))
        return node_pool_pb2.ListClosedAttemptsResponse(attempt_ids=closed)
