"""A token that ended at cluster is refused by its siblings at once, not when their memory of it is over."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Collection
from pathlib import Path

import grpc
import pytest
from anycloud_common import introspection
from anycloud_common.auth import TokenAuthenticator
from anycloud_common.calls import Principal
from anycloud_common.clock import ManualClock
from anycloud_common.errors import ApiError
from anycloud_common.feed import FeedServicer
from anycloud_common.feed import tables as feed_tables
from anycloud_common.store.scratch import open_scratch
from anycloudapi.common.internal.v1.feed_pb2_grpc import add_FeedServiceServicer_to_server
from sqlalchemy import Connection, MetaData

DIGEST = hashlib.sha256(b"acapi_old").digest()


class Source:
    """Cluster as far as tokens go: what it knows, and the feed over a real store."""

    def __init__(self, folder: Path) -> None:
        metadata = MetaData()
        feed_tables("cluster", metadata)
        self.store = open_scratch(folder / "cluster.sqlite", "cluster", metadata, ManualClock(0))
        self.known: Principal | None = Principal("github:1", "demo", "user")

    async def introspect(self, digest: bytes) -> Principal | None:
        return self.known

    async def end(self) -> None:
        self.known = None
        await self.store.write(lambda tx: tx.change(introspection.ENDED_TOKEN, DIGEST.hex()))


class Noticing(TokenAuthenticator):
    """Says when it was told to forget."""

    def __init__(self, source: Source) -> None:
        super().__init__(source.introspect, ManualClock(0))
        self.dropped, self.forgot = asyncio.Event(), asyncio.Event()

    def drop(self, digest: bytes) -> None:
        super().drop(digest)
        self.dropped.set()

    def forget(self) -> None:
        super().forget()
        self.forgot.set()


def no_tokens(conn: Connection, kinds: Collection[str]) -> list[tuple[str, str]]:
    return []


@pytest.fixture
async def source(tmp_path: Path) -> AsyncIterator[Source]:
    made = Source(tmp_path)
    yield made
    made.store.close()


@pytest.fixture
async def channel(source: Source, tmp_path: Path) -> AsyncIterator[grpc.aio.Channel]:
    server = grpc.aio.server()
    add_FeedServiceServicer_to_server(FeedServicer(source.store, "cluster", no_tokens), server)
    server.add_insecure_port(f"unix:{tmp_path}/s")
    await server.start()
    async with grpc.aio.insecure_channel(f"unix:{tmp_path}/s") as open_channel:
        yield open_channel
    await server.stop(0)


async def refused(authenticator: TokenAuthenticator) -> bool:
    try:
        await authenticator.user("acapi_old")
    except ApiError as error:
        return error.code == "UNAUTHORIZED"
    return False


async def test_a_token_that_ends_is_refused_at_once(source: Source, channel: grpc.aio.Channel) -> None:
    authenticator = Noticing(source)
    following = asyncio.create_task(introspection.forget_ended(channel, authenticator))
    await authenticator.forgot.wait()
    assert not await refused(authenticator)
    await source.end()
    await authenticator.dropped.wait()
    assert await refused(authenticator)
    following.cancel()


async def test_what_ended_while_the_feed_was_cut_is_not_remembered(source: Source, channel: grpc.aio.Channel) -> None:
    authenticator = Noticing(source)
    assert not await refused(authenticator)
    await source.end()
    assert not await refused(authenticator), "remembered for up to ten seconds"
    following = asyncio.create_task(introspection.forget_ended(channel, authenticator))
    await authenticator.forgot.wait()
    assert await refused(authenticator)
    following.cancel()


async def test_a_cut_feed_is_left_and_asked_again_later(source: Source, tmp_path: Path) -> None:
    async with grpc.aio.insecure_channel(f"unix:{tmp_path}/nobody") as nobody:
        await introspection.forget_ended(nobody, Noticing(source))
