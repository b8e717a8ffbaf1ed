"""Disk full, I/O errors, and a COMMIT whose outcome nobody knows."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from anycloud_common.store import StoreOpenError, StoreUnavailable, Tx
from anycloud_common.store.sqlite import SqliteBackend
from sqlalchemy.exc import OperationalError


def limit_pages(pages: int) -> Any:
    def run(tx: Tx) -> int:
        return int(tx.conn.exec_driver_sql(f"PRAGMA max_page_count={pages}").scalar_one())

    return run


async def test_a_full_database_refuses_with_unavailable_and_goes_on_when_there_is_room_again(shop: Any) -> None:
    await shop.store.write(shop.add("a"))
    await shop.store.write(limit_pages(1))  # SQLite takes the present size instead
    with pytest.raises(StoreUnavailable, match="full"):
        await shop.store.write(shop.add("b", size=100_000))
    assert await shop.names() == ["a"]
    await shop.store.write(limit_pages(1_000_000))
    await shop.store.write(shop.add("c"))
    assert await shop.names() == ["a", "c"]
    assert shop.fatal == []


# Real writes that fail: the limit on a file's size makes the kernel refuse them, in the middle of a group.
_FILE_LIMIT = """
import asyncio, resource, signal, sys
from pathlib import Path
from anycloud_common.clock import SystemClock
from anycloud_common.store import StoreUnavailable, Tx
from anycloud_common.store.scratch import open_scratch
from sqlalchemy import Column, MetaData, Table, Text, insert, select
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
metadata = MetaData()
items = Table("shop_item", metadata, Column("id", Text, primary_key=True))
def add(name):
    return lambda tx: tx.conn.execute(insert(items), {"id": name}) and name
async def main():
    store = open_scratch(Path(sys.argv[1]), "shop", metadata, SystemClock())
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
    kept, refused, n = [], 0, 0
    while refused < 20:
        names = [f"{n + i:06}" + "x" * 3000 for i in range(8)]
        n += 8
        for name, result in zip(names, await asyncio.gather(*(store.write(add(x)) for x in names),
                                                            return_exceptions=True)):
            if result == name:
                kept.append(name)
            else:
                assert isinstance(result, StoreUnavailable), repr(result)
                refused += 1
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    kept.append(await store.write(add("room again")))
    there = await store.read(lambda conn: list(conn.execute(select(items.c.id)).scalars()))
    assert sorted(there) == sorted(kept), (len(there), len(kept))
    store.close()
    print("kept", len(kept))
asyncio.run(main())
"""


def test_when_the_disk_refuses_writes_exactly_the_answered_functions_are_there_and_the_process_goes_on(
    tmp_path: Path,
) -> None:
    script = [sys.executable, "-c", _FILE_LIMIT, str(tmp_path / "shop.sqlite")]
    run = subprocess.run(script, capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("kept ")
    with sqlite3.connect(tmp_path / "shop.sqlite") as conn:
        assert conn.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def failing_commit(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next COMMIT fails with that code of SQLite, its transaction gone."""
    from sqlalchemy.engine import default

    commit = default.DefaultDialect.do_commit

    def fail(self: Any, connection: Any) -> None:
        monkeypatch.setattr(default.DefaultDialect, "do_commit", commit)
        connection.rollback()
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = code
        raise error

    monkeypatch.setattr(default.DefaultDialect, "do_commit", fail)


async def test_a_commit_that_surely_failed_is_refused_and_the_process_goes_on(
    shop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing_commit(sqlite3.SQLITE_FULL, monkeypatch)
    with pytest.raises(StoreUnavailable, match="didn't commit"):
        await shop.store.write(shop.add("a"))
    assert await shop.store.write(shop.add("b")) == "b"
    assert await shop.names() == ["b"] and shop.fatal == []


async def test_a_commit_of_unknown_outcome_ends_the_process_without_any_answer(
    shop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = threading.Event()
    shop.fatal = _Calls(ended)
    shop.reopen()
    failing_commit(sqlite3.SQLITE_IOERR_FSYNC, monkeypatch)
    woken: list[str] = []

    def wakes(tx: Tx) -> None:
        tx.after_commit(lambda: woken.append("never"))

    task = asyncio.create_task(shop.store.write(wakes))
    await asyncio.to_thread(ended.wait, 10)
    assert shop.fatal == ["the outcome of COMMIT is unknown: disk I/O error"]
    await asyncio.sleep(0)
    assert not task.done() and woken == []
    task.cancel()
    with pytest.raises(StoreUnavailable):
        await shop.store.write(shop.add("later"))


class _Calls(list[str]):
    def __init__(self, called: threading.Event) -> None:
        super().__init__()
        self._called = called

    def append(self, reason: str) -> None:
        super().append(reason)
        self._called.set()


@pytest.mark.parametrize(
    ("code", "undone"),
    [
        (sqlite3.SQLITE_FULL, True),
        (sqlite3.SQLITE_IOERR_WRITE, True),
        (sqlite3.SQLITE_IOERR_FSYNC, False),
        (sqlite3.SQLITE_IOERR_DIR_FSYNC, False),
        (sqlite3.SQLITE_CORRUPT, False),
        (0, False),
    ],
)
async def test_only_a_failed_write_proves_that_nothing_was_committed(shop: Any, code: int, undone: bool) -> None:
    backend = SqliteBackend(shop.path, shop.clock)
    driver_error = sqlite3.OperationalError("x")
    driver_error.sqlite_errorcode = code
    with backend.connect_reader() as conn:
        assert backend.commit_undone(conn, OperationalError("COMMIT", None, driver_error)) is undone
    backend.close()


async def test_a_damaged_file_is_refused_in_one_sentence(shop: Any) -> None:
    shop.store.close()
    shop.path.write_bytes(b"no database" * 1000)
    with pytest.raises(StoreOpenError, match=r"^The shop database at .* can't be opened: file is not a database\.$"):
        _open(shop)
    _open_fails_the_same_way_twice(shop)


def _open_fails_the_same_way_twice(shop: Any) -> None:
    """The first refusal let go of the lock."""
    with pytest.raises(StoreOpenError, match="not a database"):
        _open(shop)


def _open(shop: Any) -> None:
    from anycloud_common.store import Store

    Store.open(shop.path, "shop", shop.clock, check_head=False)


def test_the_end_of_the_process_is_logged_with_its_reason_and_has_exit_code_70() -> None:
    code = "from anycloud_common.store.store import end_process; end_process('the outcome of COMMIT is unknown')"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (run.returncode, run.stderr) == (70, "Ending the process: the outcome of COMMIT is unknown\n")
