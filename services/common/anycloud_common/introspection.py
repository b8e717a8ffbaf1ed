"""Asks cluster, which owns users and tokens, whose token it is."""

from __future__ import annotations

import grpc
from anycloudapi.cluster.internal.v1 import cluster_pb2, cluster_pb2_grpc

from anycloud_common.auth import Introspect
from anycloud_common.calls import Principal


def over(channel: grpc.aio.Channel) -> Introspect:
    """For TokenAuthenticator: `over(kit.channel("cluster"))`."""
    stub: cluster_pb2_grpc.IntrospectionAsyncStub = cluster_pb2_grpc.IntrospectionStub(channel)

    async def introspect(digest: bytes) -> Principal | None:
        answer = await stub.Introspect(cluster_pb2.IntrospectRequest(token_sha256=digest))
        if not answer.HasField("principal"):
            return None
        found = answer.principal
        return Principal(found.id, found.name, "local" if found.id == "local" else "user", found.owner)

    return introspect
