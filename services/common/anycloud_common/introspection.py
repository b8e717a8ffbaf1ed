"""Asks cluster, which owns users and tokens, whose token it is, and hears from it which tokens have ended."""

from __future__ import annotations

import logging
from typing import Final

import grpc
from anycloudapi.cluster.internal.v1 import cluster_pb2, cluster_pb2_grpc
from anycloudapi.common.internal.v1 import feed_pb2, feed_pb2_grpc

from anycloud_common.auth import Introspect, TokenAuthenticator
from anycloud_common.calls import Principal
from anycloud_common.server import ServerKit

log = logging.getLogger(__name__)

ENDED_TOKEN: Final = "token"  # noqa: S105  (kind in cluster's change feed; the id is the hash in hex)
RECONNECT_SECONDS: Final = 1.0


def authenticate(kit: ServerKit) -> None:
    """Has every caller's token checked by cluster. A rotated or revoked token is refused at once."""
    channel = kit.channel("cluster")
    kit.authenticator = authenticator = TokenAuthenticator(over(channel), kit.clock)

    async def follow() -> None:
        while True:
            await forget_ended(channel, authenticator)
            await kit.clock.sleep(RECONNECT_SECONDS)

    kit.spawn(follow, "ended tokens")


def over(channel: grpc.aio.Channel) -> Introspect:
    """For TokenAuthenticator: asks cluster's internal Introspect."""
    stub: cluster_pb2_grpc.IntrospectionAsyncStub = cluster_pb2_grpc.IntrospectionStub(channel)

    async def introspect(digest: bytes) -> Principal | None:
        answer = await stub.Introspect(cluster_pb2.IntrospectRequest(token_sha256=digest))
        if not answer.HasField("principal"):
            return None
        found = answer.principal
        return Principal(found.id, found.name, "local" if found.id == "local" else "user", found.owner)

    return introspect


async def forget_ended(channel: grpc.aio.Channel, authenticator: TokenAuthenticator) -> None:
    """Drops tokens as cluster's feed reports their end. Returns when the feed is cut.

    Nothing needs a stored cursor: what was remembered before this stream began is forgotten as a whole.
    """
    stub: feed_pb2_grpc.FeedServiceAsyncStub = feed_pb2_grpc.FeedServiceStub(channel)
    try:
        listed = await stub.List(feed_pb2.ListRequest(kinds=[ENDED_TOKEN]))
        authenticator.forget()
        async for batch in stub.Watch(feed_pb2.WatchRequest(since_seq=listed.seq, kinds=[ENDED_TOKEN])):
            for change in batch.changes:
                authenticator.drop(bytes.fromhex(change.id))
    except grpc.aio.AioRpcError as error:
        log.debug("the feed of ended tokens is cut", extra={"reason": error.code().name})
