"""How many functions a second `store.write` commits, against the same functions with one commit each.

Usage: python tests/bench/store.py [directory on the disk to measure]
A function is what the Job path does in one: a SELECT, an INSERT, an UPDATE and a change of the feed.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from anycloud_common.clock import SystemClock
from anycloud_common.store import Store, Tx, writer
from anycloud_common.store.scratch import open_scratch
from sqlalchemy import BigInteger, Column, MetaData, Table, Text, bindparam, insert, select, update

CALLERS = (1, 8, 64)
SECONDS = 1.5  # a round
ROUNDS = 3  # of each form, in turn; the best counts, as the disk is shared

metadata = MetaData()
jobs = Table(
    "bench_job",
    metadata,
    Column("id", Text, primary_key=True),
    Column("state", Text, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
)
find = select(jobs.c.state).where(jobs.c.id == bindparam("job"))
move = update(jobs).where(jobs.c.id == bindparam("job")).values(state="running", updated_at=bindparam("now"))
numbers = itertools.count()


def submit(tx: Tx) -> None:
    job = f"job-{next(numbers)}"
    assert tx.conn.execute(find, {"job": job}).first() is None
    tx.conn.execute(insert(jobs), {"id": job, "state": "queued", "updated_at": tx.now})
    tx.conn.execute(move, {"job": job, "now": tx.now})
    tx.change("job", job)


async def rate(store: Store, callers: int) -> float:
    """Functions a second with so many callers, each of which awaits one function after the other."""
    end = time.perf_counter() + SECONDS
    done = 0

    async def caller() -> None:
        nonlocal done
        while time.perf_counter() < end:
            await store.write(submit)
            done += 1

    started = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(callers)))
    return done / (time.perf_counter() - started)


async def best_rates(store: Store, callers: int) -> tuple[float, float]:
    """Grouped and one commit each, measured in turn."""
    grouped = single = 0.0
    for _ in range(ROUNDS):
        grouped = max(grouped, await with_group(writer.GROUP, store, callers))
        single = max(single, await with_group(1, store, callers))
    return grouped, single


async def with_group(size: int, store: Store, callers: int) -> float:
    normal = writer.GROUP
    writer.GROUP = size
    try:
        return await rate(store, callers)
    finally:
        writer.GROUP = normal


def run(directory: Path, show: Callable[[str], None] = print) -> None:
    async def measure() -> None:
        store = open_scratch(directory / "bench.sqlite", "bench", metadata, SystemClock())
        show(f"{'callers':>7}  {'grouped/s':>9}  {'one commit each/s':>17}  {'ratio':>5}")
        for callers in CALLERS:
            grouped, single = await best_rates(store, callers)
            show(f"{callers:>7}  {grouped:>9,.0f}  {single:>17,.0f}  {grouped / single:>5.1f}")
        store.close()

    asyncio.run(measure())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as scratch:
        run(Path(scratch))
