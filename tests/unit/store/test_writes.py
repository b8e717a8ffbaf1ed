"""The rules of `Store.write`: groups, savepoints, answers and wake-ups after COMMIT."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from typing import Any

import pytest
from anycloud_common.store import StoreBusy, StoreUnavailable, Tx, sqlite, writer
from sqlalchemy import insert, text
from sqlalchemy.exc import IntegrityError


@asynccontextmanager
async def held(shop: Any) -> AsyncIterator[None]:
    """Keeps the writer inside a transaction, so that whatever is queued meanwhile becomes the next group."""
    inside, leave = threading.Event(), threading.Event()

    def wait(_tx: Tx) -> None:
        inside.set()
        leave.wait()

    holder = asyncio.create_task(shop.store.write(wait))
    await asyncio.to_thread(inside.wait)
    try:
        yield
    finally:
        leave.set()
        await holder


def queue(shop: Any, *functions: Any) -> list[asyncio.Task[Any]]:
    return [asyncio.create_task(shop.store.write(fn)) for fn in functions]


def committed(shop: Any) -> list[str]:
    """What a stranger reads from the file now."""
    with closing(sqlite3.connect(shop.path)) as conn:
        return [row[0] for row in conn.execute("SELECT id FROM shop_item ORDER BY id")]


async def test_the_answer_comes_after_commit_with_the_functions_result(shop: Any) -> None:
    assert await shop.store.write(shop.add("a")) == "a"
    assert committed(shop) == ["a"]


async def test_a_failing_function_is_undone_alone_within_its_group(shop: Any) -> None:
    def fails_after_writing(tx: Tx) -> None:
        tx.conn.execute(insert(shop.items), {"id": "bad"})
        raise ValueError("no")

    async with held(shop):
        tasks = queue(shop, shop.add("a"), fails_after_writing, shop.add("a"), shop.add("b"))
        await asyncio.sleep(0)
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert results[0] == "a"
    assert isinstance(results[1], ValueError)
    assert isinstance(results[2], IntegrityError)
    assert results[3] == "b"
    assert committed(shop) == ["a", "b"]


async def test_what_is_queued_meanwhile_shares_a_transaction_of_at_most_64_functions(shop: Any) -> None:
    readings = iter(range(1000))
    shop.clock.now_ms = lambda: next(readings)
    async with held(shop):
        tasks = queue(shop, *[lambda tx: tx.now] * 150)
        await asyncio.sleep(0)
    times = await asyncio.gather(*tasks)
    sizes = [times.count(reading) for reading in sorted(set(times))]
    assert sizes == [64, 64, 22]


async def test_functions_run_in_the_order_of_their_calls(shop: Any) -> None:
    order: list[int] = []
    async with held(shop):
        tasks = queue(shop, *[lambda _tx, n=n: order.append(n) for n in range(100)])
        await asyncio.sleep(0)
    await asyncio.gather(*tasks)
    assert order == list(range(100))


async def test_wake_ups_run_on_the_event_loop_after_commit_in_commit_order_and_before_the_answers(shop: Any) -> None:
    loop_thread = threading.get_ident()
    seen: list[tuple[int, bool, bool]] = []
    tasks: list[asyncio.Task[Any]] = []

    def adds(n: int) -> Any:
        def wake_up() -> None:
            on_loop = threading.get_ident() == loop_thread
            seen.append((n, on_loop, f"i{n}" in committed(shop) and not tasks[n].done()))

        def run(tx: Tx) -> None:
            tx.conn.execute(insert(shop.items), {"id": f"i{n}"})
            tx.after_commit(wake_up)

        return run

    async with held(shop):
        tasks += queue(shop, *[adds(n) for n in range(5)])
        await asyncio.sleep(0)
    await asyncio.gather(*tasks)
    assert seen == [(n, True, True) for n in range(5)]


async def test_a_failing_wake_up_stops_neither_the_next_nor_the_answer(shop: Any) -> None:
    woken: list[str] = []

    def fails() -> None:
        raise ValueError("a bug in a wake-up")

    def run(tx: Tx) -> str:
        tx.after_commit(fails)
        tx.after_commit(lambda: woken.append("second"))
        return "answer"

    assert await shop.store.write(run) == "answer"
    assert woken == ["second"]


async def test_a_failed_function_wakes_nobody(shop: Any) -> None:
    woken: list[str] = []

    def run(tx: Tx) -> None:
        tx.after_commit(lambda: woken.append("never"))
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await shop.store.write(run)
    await shop.store.write(shop.add("a"))
    assert woken == []


async def test_a_cancelled_caller_does_not_cancel_its_function(shop: Any) -> None:
    async with held(shop):
        [task] = queue(shop, shop.add("a"))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await shop.store.write(shop.add("b"))
    assert committed(shop) == ["a", "b"]


async def test_a_full_queue_refuses_at_once_and_loses_nothing_that_it_took(
    shop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "QUEUE", 3)
    shop.reopen()
    async with held(shop):
        tasks = queue(shop, *[shop.add(name) for name in "abc"])
        await asyncio.sleep(0)
        with pytest.raises(StoreBusy):
            await shop.store.write(shop.add("d"))
    await asyncio.gather(*tasks)
    assert committed(shop) == ["a", "b", "c"]
    assert StoreBusy.unavailable and StoreUnavailable.unavailable


async def test_an_error_that_ends_the_transaction_stops_its_whole_group_and_nothing_else(shop: Any) -> None:
    woken: list[str] = []

    def loses_the_transaction(tx: Tx) -> None:  # as SQLite itself does when the disk is full
        tx.conn.exec_driver_sql("ROLLBACK")
        raise sqlite3.OperationalError("disk I/O error")

    def wakes(tx: Tx) -> None:
        tx.after_commit(lambda: woken.append("never"))

    async with held(shop):
        tasks = queue(shop, shop.add("a"), wakes, loses_the_transaction, shop.add("b"))
        await asyncio.sleep(0)
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(result) for result in results] == [StoreUnavailable] * 4
    assert committed(shop) == [] and woken == []
    assert await shop.store.write(shop.add("c")) == "c"
    assert committed(shop) == ["c"] and shop.fatal == []


async def test_close_commits_what_was_queued_and_refuses_what_comes_later(shop: Any) -> None:
    tasks = queue(shop, *[shop.add(f"i{n:03}") for n in range(200)])
    await asyncio.sleep(0)
    shop.store.close()
    assert len(await asyncio.gather(*tasks)) == 200
    assert len(committed(shop)) == 200
    with pytest.raises(StoreUnavailable, match="closed"):
        await shop.store.write(shop.add("late"))


async def test_a_read_sees_what_was_answered_and_one_snapshot_while_writes_go_on(shop: Any) -> None:
    await shop.store.write(shop.add("a"))
    reading, go_on = threading.Event(), threading.Event()

    def reads_twice(conn: Any) -> tuple[int, int]:
        count = text("SELECT count(*) FROM shop_item")
        first = conn.execute(count).scalar_one()
        reading.set()
        go_on.wait()
        return first, conn.execute(count).scalar_one()

    read = asyncio.create_task(shop.store.read(reads_twice))
    await asyncio.to_thread(reading.wait)
    await shop.store.write(shop.add("b"))
    go_on.set()
    assert await read == (1, 1)
    assert await shop.names() == ["a", "b"]


async def test_a_reader_cannot_write(shop: Any) -> None:
    with pytest.raises(StoreUnavailable, match="readonly"):
        await shop.store.read(lambda conn: conn.execute(insert(shop.items), {"id": "a"}))


async def test_error_texts_hold_no_values_of_the_statement(shop: Any) -> None:
    await shop.store.write(shop.add("s3cret"))
    with pytest.raises(IntegrityError) as raised:
        await shop.store.write(shop.add("s3cret"))
    assert "s3cret" not in str(raised.value)


async def test_commits_are_synced_to_disk_and_the_log_is_wal(shop: Any) -> None:
    def pragmas(tx: Tx) -> tuple[Any, ...]:
        names = ("journal_mode", "synchronous", "foreign_keys")
        return tuple(tx.conn.exec_driver_sql(f"PRAGMA {name}").scalar_one() for name in names)

    assert await shop.store.write(pragmas) == ("wal", 2, 1)  # 2 is FULL


async def test_a_look_sees_what_was_committed_also_while_all_readers_are_busy(shop: Any) -> None:
    await shop.store.write(shop.add("a"))
    begun, leave = threading.Semaphore(0), threading.Event()

    def long_read(conn: Any) -> None:
        begun.release()
        leave.wait()

    busy = [asyncio.create_task(shop.store.read(long_read)) for _ in range(sqlite.READERS)]
    for _ in busy:
        await asyncio.to_thread(begun.acquire)
    try:
        found = await shop.store.look(lambda conn: conn.execute(text("SELECT id FROM shop_item")).scalars().all())
    finally:
        leave.set()
        await asyncio.gather(*busy)
    assert found == ["a"]
