"""What a follower promises itself: no change is ever missed, whatever restarts."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from anycloud_common.clock import ManualClock
from anycloud_common.store import StoreUnavailable
from sqlalchemy import Connection

from tests.unit.feed.conftest import Eventually, soon
from tests.unit.feed.follower import Follower, mark
from tests.unit.feed.source import Source


async def until_dirty(follower: Follower, *ids: str) -> None:
    async def all_dirty() -> bool:
        return await follower.dirty() == set(ids)

    await soon(all_dirty)


async def until_read(follower: Follower, seq: int) -> None:
    async def read() -> bool:
        return await follower.cursor() == seq

    await soon(read)


async def test_the_first_start_marks_all_that_is_known_also_what_the_source_never_had(
    source: Source, follower: Follower
) -> None:
    await source.change("a", "b")
    await follower.know("a", "gone")
    follower.start()
    await until_dirty(follower, "a", "gone")
    assert await follower.cursor() == 2
    assert sorted(follower.woken) == ["own-a", "own-gone"]


async def test_a_change_marks_what_stands_on_it_without_any_time_passing(source: Source, follower: Follower) -> None:
    await follower.know("a", "b")
    follower.start()
    await until_dirty(follower, "a", "b")
    await follower.take_dirty()
    follower.woken.clear()
    await source.change("a", "unknown")
    await until_read(follower, 2)

    async def woken() -> bool:
        return follower.woken == ["own-a"]

    await soon(woken)  # after the commit
    assert await follower.dirty() == {"a"}


async def test_changes_of_other_kinds_mark_nothing(source: Source, follower: Follower) -> None:
    await follower.know("a")
    follower.start()
    await until_dirty(follower, "a")
    await follower.take_dirty()
    await source.change("a", kind="token")
    await source.change("b")
    await until_read(follower, 2)
    assert await follower.dirty() == set()


async def test_changes_made_while_the_follower_was_away_are_marked_and_nothing_else(
    source: Source, follower: Follower
) -> None:
    await follower.know("a", "b", "c")
    follower.start()
    await until_dirty(follower, "a", "b", "c")
    await follower.take_dirty()
    await follower.crash()
    await source.change("a", "b")
    follower.start()
    await until_dirty(follower, "a", "b")


async def test_a_source_that_restarts_is_followed_on(
    source: Source, follower: Follower, eventually: Eventually
) -> None:
    await follower.know("a", "b")
    follower.start()
    await until_dirty(follower, "a", "b")
    await follower.take_dirty()
    await source.stop()
    await source.start()
    await source.change("b")

    async def marked() -> bool:
        return await follower.dirty() == {"b"}

    await eventually(marked)


@pytest.mark.parametrize("away", ["pruned", "behind"])
async def test_where_the_source_cannot_tell_what_changed_everything_is_marked(
    source: Source, follower: Follower, eventually: Eventually, away: str
) -> None:
    await follower.know("a", "gone")
    await source.change("a", "a")
    follower.start()
    await until_dirty(follower, "a", "gone")
    await follower.take_dirty()
    await follower.crash()
    if away == "pruned":
        await source.change("b", "b", "b")
        await source.prune()
        newest = 5
    else:  # a source that was set back to an earlier state
        await source.store.write(
            lambda tx: tx.conn.exec_driver_sql("DELETE FROM cluster_change WHERE seq = 2") and None
        )
        newest = 1
    follower.start()

    async def marked() -> bool:
        return await follower.dirty() == {"a", "gone"}

    await eventually(marked)
    assert await follower.cursor() == newest


async def test_a_seq_that_the_source_never_had_is_given_up_before_anything_else(
    source: Source, follower: Follower, clock: ManualClock
) -> None:
    """Else the source could reach it in the meantime, with changes that nobody has seen."""
    await source.change("a", "a")
    follower.start()
    await until_read(follower, 2)
    await follower.crash()
    await source.forget_newest()
    follower.start()

    async def given_up() -> bool:
        return await follower.cursor() is None

    await soon(given_up)
    await clock.sleeping(1)
    await follower.stop()


async def test_a_follower_that_asks_for_another_kind_lists_again(source: Source, follower: Follower) -> None:
    await source.change("t", kind="token")
    await source.change("a")
    await follower.know("a")
    await follower.know("t", kind="token")
    follower.start()
    await until_dirty(follower, "a")
    await follower.take_dirty()
    await follower.crash()
    follower.kinds = ("token", "pool")
    follower.start()
    await until_dirty(follower, "a", "t")


async def test_marks_and_cursor_are_stored_together_or_not_at_all(
    source: Source, follower: Follower, eventually: Eventually
) -> None:
    await follower.know("a")
    follower.start()
    await until_dirty(follower, "a")
    await follower.take_dirty()
    follower.woken.clear()
    failures = 2

    def failing(conn: Connection, kind: str, ids: list[str] | None) -> list[str]:
        nonlocal failures
        keys = mark(conn, kind, ids)
        if failures:
            failures -= 1
            raise StoreUnavailable("disk full")
        return keys

    follower.mark = failing
    await source.change("a")

    async def tried() -> bool:
        return failures == 1

    await soon(tried)
    assert await follower.dirty() == set() and await follower.cursor() == 0 and follower.woken == []

    async def woken() -> bool:
        return follower.woken == ["own-a"]

    await eventually(woken)  # after the commit
    assert await follower.dirty() == {"a"} and await follower.cursor() == 1


async def test_a_source_that_is_away_is_tried_again_after_ever_longer_waits(
    source: Source, follower: Follower, clock: ManualClock
) -> None:
    await source.stop()
    calls = _Counted(source.stub)
    follower.stub = calls
    follower.start()
    waits = [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]
    for n, wait in enumerate(waits, start=1):
        await clock.sleeping(1)
        assert calls.count == n
        await clock.advance(wait - 0.01)
        assert calls.count == n
        await clock.advance(0.01)


async def test_waits_are_short_again_once_a_change_came_through(
    source: Source, follower: Follower, clock: ManualClock, eventually: Eventually
) -> None:
    follower.stub = calls = _Counted(source.stub)
    await source.stop()
    follower.start()
    for wait in (0.1, 0.2, 0.4):
        await clock.sleeping(1)
        await clock.advance(wait)
    await source.start()

    async def listed() -> bool:
        return await follower.cursor() == 0

    await eventually(listed)
    await source.change("a")
    await until_read(follower, 1)
    await source.stop()
    await clock.sleeping(1)
    asked = calls.count
    await clock.advance(0.1)

    async def asked_again() -> bool:
        return calls.count == asked + 1

    await soon(asked_again)


async def test_a_list_tells_the_follower_also_what_it_does_not_know(source: Source, follower: Follower) -> None:
    told: list[tuple[str, list[str] | None]] = []

    def telling(conn: Connection, kind: str, ids: list[str] | None) -> list[str]:
        told.append((kind, ids))
        return []

    await source.change("a", "b")
    follower.mark = telling
    follower.start()
    await until_read(follower, 2)
    assert told == [("pool", None), ("pool", ["a", "b"])] and follower.woken == []


async def test_a_fault_in_the_marking_itself_ends_the_consumer(source: Source, follower: Follower) -> None:
    def broken(conn: Connection, kind: str, ids: list[str] | None) -> list[str]:
        raise KeyError(kind)

    follower.mark = broken
    follower.start()
    assert follower.running is not None
    await asyncio.wait([follower.running], timeout=10)
    with pytest.raises(KeyError):
        await follower.stop()
    follower.running = None


@pytest.mark.parametrize("seed", range(6))
async def test_no_change_is_ever_missed(source: Source, follower: Follower, eventually: Eventually, seed: int) -> None:
    """A random life: things change, both sides restart, the source prunes. What the follower has read last of each
    thing is what the thing is, once all is quiet."""
    script = random.Random(seed)
    things = [f"t{n}" for n in range(8)]
    read: dict[str, int] = {}
    await follower.know(*things)

    async def handle() -> None:
        dirty = await follower.take_dirty()
        versions = await source.versions()
        read.update({id: versions.get(id, 0) for id in dirty})

    for _ in range(60):
        match script.choices(["change", "handle", "follower", "source", "prune", "settle"], [10, 4, 2, 2, 2, 4])[0]:
            case "change":
                await source.change(*script.choices(things, k=script.randint(1, 5)))
            case "handle":
                await handle()
            case "follower":
                await follower.crash()
                follower.start()
            case "source":
                await source.stop()
                await source.start()
            case "prune":
                await source.prune(kept=script.randint(1, 4))
            case "settle":
                await asyncio.sleep(script.random() / 100)  # real time: the stream goes on
    if follower.running is None:
        follower.start()

    async def all_read() -> bool:
        await handle()
        return read == {**dict.fromkeys(things, 0), **await source.versions()}

    await eventually(all_read)


class _Counted:
    """A stub that counts how often the source was asked."""

    def __init__(self, stub: Any) -> None:
        self._stub = stub
        self.count = 0

    def __getattr__(self, method: str) -> Any:
        self.count += 1
        return getattr(self._stub, method)
