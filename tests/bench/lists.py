"""A list's page of 10 with 10,000 rows behind it, against the same page of a store that has just these 10 rows, and
against a list that is empty.

Usage: python tests/bench/lists.py [rows] [seconds of a round] [rounds]
Jobs and Deployments are asked for over HTTP, 16 connections, both stores in turn; node pools in this process, from
their store. Goal: 0.9 of the store with 10 rows.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import timeit
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from anycloud_common.cipher import Cipher
from anycloud_common.clock import SystemClock
from anycloud_common.paging import Page
from anycloud_common.settings import Settings
from anycloud_common.store import Store, Tx
from anycloud_nodepool.domain.model import Pool, State
from anycloud_nodepool.store import pools
from sqlalchemy import Connection

from tests.bench.doors import content, stack
from tests.bench.doors.stack import DOORS, Stack, measure

GOAL, FEW, CONNECTIONS = 0.9, 10, 16
PATHS = {"Jobs": "/v1/workloads?limit=10", "Deployments": "/v1/deployments?limit=10"}
EMPTY = "/v1/workloads?limit=10&deploymentId=dep-000000000000"


def filled(directory: Path, rows: int) -> dict[str, str]:
    """So many Deployments, all but one deleted, and so many Jobs, which wait in that one."""
    env = stack.filled(directory)
    settings = Settings.from_environment(env)

    async def fill() -> None:
        with content.opened(settings) as (store, cipher):
            await store.write(partial(content.add, cipher=cipher, number=1, jobs=rows))
            await store.write(partial(add_deleted, cipher=cipher, rows=rows))

    asyncio.run(fill())
    return env


def add_deleted(tx: Tx, cipher: Cipher, rows: int) -> None:
    for number in range(2, rows + 1):
        content.add(tx, cipher, number, deleted=True)


def add_pools(tx: Tx, rows: int) -> None:
    """All but 10 are deleted, as it is in life."""
    for number in range(rows):
        deleted_at = None if number < FEW else content.CREATED_AT
        pool = Pool(
            id=f"np-{number:012d}",
            name=f"pool-{number}",
            cluster_id="cl-7h3kq2w9x4bc",
            credential_id="cr-7h3kq2w9x4bc",
            credential_name="main",
            provider="AWS",
            region="us-east-1",
            zone=None,
            vm_type="m5.large",
            vm_count=0,
            gpus=0,
            created_by="local",
            created_at=content.CREATED_AT + number,
            updated_at=content.CREATED_AT + number,
            state=State.RUNNING if deleted_at is None else State.DELETED,
            deleted_at=deleted_at,
        )
        pools.insert_new(tx, pool)


def rates(few: Stack, many: Stack, path: str, seconds: float, rounds: int) -> tuple[list[float], list[float]]:
    """Answers a second of each round, of the small store and of the large one."""
    found: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds):
        for which in (0, 1) if number % 2 else (1, 0):
            made = (few, many)[which]
            told = measure(made, DOORS[0], made.request(DOORS[0], "GET", path), CONNECTIONS, seconds)
            found[which].append(told.rps)
    return found


def show(what: str, few: float, many: float, ratio: float, unit: str) -> None:
    verdict = "met" if ratio >= GOAL else "missed"
    print(f"{what:12} 10 rows {few:8.1f}{unit}  many rows {many:8.1f}{unit}  ratio {ratio:.2f}  goal {GOAL}: {verdict}")


def over_http(few: Stack, many: Stack, seconds: float, rounds: int) -> None:
    for what, path in PATHS.items():
        small, large = rates(few, many, path, seconds, rounds)
        ratio = statistics.median(b / a for a, b in zip(small, large, strict=True))
        show(what, statistics.median(small), statistics.median(large), ratio, "/s")
    small, _ = rates(few, few, EMPTY, seconds, rounds)
    _, large = rates(many, many, PATHS["Jobs"], seconds, rounds)
    ratio = statistics.median(large) / statistics.median(small)
    print(f"an empty list is answered {statistics.median(small):.1f}/s; a page of Jobs of many is {ratio:.2f} of it")


def page_of_pools(conn: Connection) -> float:
    """Seconds for one page."""
    return min(timeit.repeat(partial(pools.listed, conn, page=Page(10)), number=20, repeat=9)) / 20


async def of_pools(directory: Path, rows: int) -> None:
    """A page's microseconds, store and rows alone."""
    taken = []
    for name, count in (("few", FEW), ("many", rows)):
        env = stack.filled(directory / f"pools-{name}")
        store = Store.open(Settings.from_environment(env).database("nodepool"), "nodepool", SystemClock())
        try:
            await store.write(partial(add_pools, rows=count))
            taken.append(
                await store.read(
                    lambda conn: (
                        min(timeit.repeat(partial(pools.listed, conn, page=Page(10)), number=20, repeat=9)) / 20
                    )
                )
            )
        finally:
            store.close()
    show("node pools", taken[0] * 1e6, taken[1] * 1e6, taken[0] / taken[1], "us")


def main(rows: int = 10_000, seconds: float = 1.0, rounds: int = 5) -> None:
    with tempfile.TemporaryDirectory(prefix="ac-") as scratch:
        directories = {name: Path(scratch) / name for name in ("few", "many")}
        for directory in directories.values():
            directory.mkdir()
        small, large = (filled(directories[name] / "a", count) for name, count in (("few", FEW), ("many", rows)))
        with stack.product(directories["few"], small) as few, stack.product(directories["many"], large) as many:
            over_http(few, many, seconds, rounds)
        asyncio.run(of_pools(Path(scratch), rows))


if __name__ == "__main__":
    main(*(kind(word) for kind, word in zip((int, float, int), sys.argv[1:], strict=False)))
