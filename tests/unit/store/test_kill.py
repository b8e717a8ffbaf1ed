"""What a SIGKILL leaves: every answered function, and no half of any."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from anycloud_common.clock import SystemClock
from anycloud_common.store import Store

_WRITER = """
import asyncio, os, signal, sys
from pathlib import Path
from anycloud_common.clock import SystemClock
from anycloud_common.store import Store, Tx
from anycloud_common.store.scratch import open_scratch
from sqlalchemy import Column, MetaData, Table, Text, insert
metadata = MetaData()
items = Table("shop_item", metadata, Column("id", Text, primary_key=True))
def add(name):
    def run(tx):
        tx.conn.execute(insert(items), [{"id": f"{name}-left"}, {"id": f"{name}-right"}])
        tx.change("item", name)
        return name
    return run
def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)
async def main(path, moment):
    store = open_scratch(Path(path), "shop", metadata, SystemClock())
    await store.write(add("first"))
    print("first", flush=True)
    if moment == "in the function":
        await asyncio.gather(store.write(add("second")), store.write(die))
    elif moment == "after commit, before the answer":
        await store.write(lambda tx: (add("second")(tx), tx.after_commit(die)))
    else:
        async def caller(c):
            for n in range(100_000):
                print(await store.write(add(f"{c}-{n}")), flush=True)
        await asyncio.gather(*(caller(c) for c in range(16)))
asyncio.run(main(*sys.argv[1:]))
"""


def start(path: Path, moment: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", _WRITER, str(path), moment], stdout=subprocess.PIPE, text=True)


def stored(path: Path) -> tuple[set[str], set[str]]:
    """The items and the changes that a new process finds."""
    with closing(sqlite3.connect(path)) as conn:
        assert conn.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        items = {row[0] for row in conn.execute("SELECT id FROM shop_item")}
        changes = {row[0] for row in conn.execute("SELECT id FROM shop_change")}
    return items, changes


@pytest.mark.parametrize(
    ("moment", "kept"),
    [("in the function", {"first"}), ("after commit, before the answer", {"first", "second"})],
)
def test_what_was_committed_survives_a_kill_and_what_was_not_leaves_nothing(
    tmp_path: Path, moment: str, kept: set[str]
) -> None:
    path = tmp_path / "shop.sqlite"
    with start(path, moment) as process:
        process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    items, changes = stored(path)
    assert changes == kept
    assert items == {f"{name}-{side}" for name in kept for side in ("left", "right")}


@pytest.mark.parametrize("lines", [1, 40, 400])
def test_a_kill_under_load_loses_no_answered_function_and_halves_none(tmp_path: Path, lines: int) -> None:
    path = tmp_path / "shop.sqlite"
    with start(path, "under load") as process:
        assert process.stdout is not None
        answered = {process.stdout.readline().strip() for _ in range(lines)}
        os.kill(process.pid, signal.SIGKILL)
        answered |= {line.strip() for line in process.stdout.read().splitlines(keepends=True) if line.endswith("\n")}
    items, changes = stored(path)
    assert answered <= changes
    assert items == {f"{name}-{side}" for name in changes for side in ("left", "right")}
    Store.open(path, "shop", SystemClock(), check_head=False).close()  # the lock died with its process
