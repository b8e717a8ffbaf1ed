"""The contract of FeedService, as any follower meets it on the socket."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection
from pathlib import Path
from typing import Any

import grpc
import pytest
from anycloud_common.clock import ManualClock
from anycloud_common.feed.reads import BATCH
from anycloud_common.store import Tx
from anycloudapi.common.internal.v1 import feed_pb2
from sqlalchemy import Connection

from tests.unit.feed.source import Source, list_things

Seen = list[tuple[int, str, str, int]]


def watch(source: Source, since: int = 0, *kinds: str) -> Any:
    return source.stub.Watch(feed_pb2.WatchRequest(since_seq=since, kinds=kinds or ("pool",)))


async def take(call: Any, count: int) -> Seen:
    seen: Seen = []
    async with asyncio.timeout(10):
        while len(seen) < count:
            response = await call.read()
            assert response.changes
            seen += [(change.seq, change.kind, change.id, change.version) for change in response.changes]
    return seen


async def code_of(call: Any) -> grpc.StatusCode:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        async with asyncio.timeout(10):
            await call.read()
    return caught.value.code()


async def test_a_stream_begins_with_the_changes_after_its_seq(source: Source) -> None:
    await source.change("a", "b", "a")
    assert await take(watch(source, 1), 2) == [(2, "pool", "b", 1), (3, "pool", "a", 2)]


async def test_a_held_stream_gets_each_change_right_after_its_commit(source: Source) -> None:
    call = watch(source)
    for n in range(1, 20):
        await source.change("a")
        assert await take(call, 1) == [(n, "pool", "a", n)]


async def test_a_stream_without_news_reads_nothing(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    call = watch(source)
    await source.change("a")
    await take(call, 1)
    await source.versions()  # behind whatever the stream reads once more
    reads, read = 0, source.store.read

    async def counted(fn: Any) -> Any:
        nonlocal reads
        reads += 1
        return await read(fn)

    monkeypatch.setattr(source.store, "read", counted)
    await asyncio.sleep(0.05)  # real time
    assert reads <= 1


async def test_every_stream_gets_every_change(source: Source) -> None:
    calls = [watch(source) for _ in range(3)]
    await source.change(*"abc")
    seen = [await take(call, 3) for call in calls]
    assert seen[0] == seen[1] == seen[2] and [id for _, _, id, _ in seen[0]] == ["a", "b", "c"]


async def test_a_change_that_was_rolled_back_is_never_sent(source: Source) -> None:
    def fails(tx: Tx) -> None:
        tx.change("pool", "never")
        raise RuntimeError

    call = watch(source)
    with pytest.raises(RuntimeError):
        await source.store.write(fails)
    await source.change("a")
    assert await take(call, 1) == [(1, "pool", "a", 1)]


async def test_only_the_named_kinds_are_sent(source: Source) -> None:
    call = watch(source, 0, "pool", "token")
    await source.change("t", kind="token")
    await source.change("c", kind="credential")
    await source.change("a")
    assert [change[1:3] for change in await take(call, 2)] == [("token", "t"), ("pool", "a")]


async def test_more_changes_than_one_message_holds_all_come_in_order(source: Source) -> None:
    count = 2 * BATCH + 7

    def many(tx: Tx) -> None:
        for n in range(count):
            tx.change("pool", f"p{n}")

    await source.store.write(many)
    assert [change[2] for change in await take(watch(source), count)] == [f"p{n}" for n in range(count)]


async def test_a_seq_older_than_the_oldest_kept_is_out_of_range(source: Source) -> None:
    await source.change(*"abcd")
    await source.prune(kept=2)
    assert await code_of(watch(source, 1)) is grpc.StatusCode.OUT_OF_RANGE
    assert [change[0] for change in await take(watch(source, 2), 2)] == [3, 4]


async def test_a_seq_beyond_the_newest_is_out_of_range(source: Source) -> None:
    assert await code_of(watch(source, 1)) is grpc.StatusCode.OUT_OF_RANGE
    await source.change("a")
    assert await code_of(watch(source, 2)) is grpc.StatusCode.OUT_OF_RANGE
    call = watch(source, 1)
    await source.change("b")
    assert [change[0] for change in await take(call, 1)] == [2]


async def test_a_held_stream_of_a_rare_kind_survives_the_pruning_of_others(source: Source) -> None:
    call = watch(source, 0, "token")
    await source.change("t", kind="token")
    assert len(await take(call, 1)) == 1
    for _ in range(5):
        await source.change("a", "b")
        await asyncio.sleep(0.02)  # real time: the stream reads on
        await source.prune()
    await source.change("t", kind="token")
    assert [change[2] for change in await take(call, 1)] == ["t"]


async def test_a_list_names_every_object_of_the_kinds_and_its_seq(source: Source) -> None:
    await source.change("a", "b")
    await source.change("t", kind="token")
    await source.change("c", kind="credential")
    await source.remove("a")
    response = await source.stub.List(feed_pb2.ListRequest(kinds=["pool", "token"]))
    assert response.seq == 5
    assert [(ref.kind, ref.id) for ref in response.refs] == [("pool", "b"), ("token", "t")]


async def test_what_a_list_does_not_know_yet_comes_after_its_seq(tmp_path: Path, clock: ManualClock) -> None:
    listing, goes_on = threading.Event(), threading.Event()

    def slow_list(conn: Connection, kinds: Collection[str]) -> list[tuple[str, str]]:
        refs = list_things(conn, kinds)
        listing.set()
        assert goes_on.wait(10)
        return refs

    source = Source(tmp_path, clock, slow_list)
    await source.start()
    try:
        await source.change("a")
        answer = asyncio.ensure_future(source.stub.List(feed_pb2.ListRequest(kinds=["pool"])))
        await asyncio.to_thread(listing.wait, 10)
        await source.change("b")
        goes_on.set()
        response = await answer
        assert [ref.id for ref in response.refs] == ["a"]
        assert [change[2] for change in await take(watch(source, response.seq), 1)] == ["b"]
    finally:
        await source.close()


async def test_kinds_must_be_named(source: Source) -> None:
    call = source.stub.Watch(feed_pb2.WatchRequest())
    assert await code_of(call) is grpc.StatusCode.INVALID_ARGUMENT
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await source.stub.List(feed_pb2.ListRequest())
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
