"""`kill -9` after every single call to the outside, while a cluster is made and while it is taken apart."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from anycloud_cluster.domain.cluster import State
from anycloud_cluster.store import ledger
from anycloud_common.clock import ManualClock

from tests.unit.cluster.fakes import Killed, World
from tests.unit.cluster.installation import Installation, at_rest

START_MS = 1_750_000_000_000


class Lives:
    """Lives of one installation, each with the same files and a fresh process."""

    def __init__(self, directory: Path, migrated: Path) -> None:
        self._directory = directory
        self._migrated = migrated
        self._key = directory / "cipher.key"
        self._count = 0

    def fresh(self) -> Path:
        self._count += 1
        path = self._directory / str(self._count) / "cluster.sqlite"
        path.parent.mkdir()
        return Path(shutil.copy(self._migrated, path))

    def copied(self, database: Path) -> Path:
        path = self.fresh()
        with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(path)) as copy:
            source.backup(copy)
        return path

    def begin(self, database: Path, world: World, clock: ManualClock) -> Installation:
        return Installation(database, self._key, world, clock)


async def created(life: Installation) -> None:
    await life.with_credential()
    await life.create()


def check_made(world: World) -> None:
    """One of each thing, whatever happened on the way. A certificate whose signing nobody heard of has no key left."""
    assert len(world.cloud.machines()) == 1
    made = world.cloud.made("account").items.values()
    assert sorted(type(item).__name__ for item in made) == ["Address", "Machine", "Network"]
    assert len(world.cloud.buckets) == 1
    assert len(world.records) == 1
    assert sorted(name for kind, _, name in world.objects if kind == "HelmChart") == [
        "anycloud-api",
        "anycloud-traefik",
    ]


def check_ended(world: World) -> None:
    assert world.machines_alive == 0
    made = world.cloud.made("account").items.values()
    assert [type(item).__name__ for item in made if type(item).__name__ != "Machine"] == []
    assert world.cloud.buckets == {}
    assert world.records == {}


async def unheard(life: Installation, world: World) -> set[str]:
    """Certificates that were signed without the installation ever hearing of it."""
    cluster = await life.cluster()
    rows = await life.store.read(lambda conn: ledger.of_owner(conn, "cluster", cluster.id))
    return set(world.certificates.signed) - {row.provider_id for row in rows if row.kind == "certificate"}


async def run_to_rest(life: Installation, steps: int = 120) -> State:
    return (await life.drive(at_rest, steps=steps, seconds=10)).state


@pytest.fixture
def lives(tmp_path: Path, migrated: Path) -> Lives:
    return Lives(tmp_path, migrated)


async def calls_of_a_creation(lives: Lives) -> int:
    world, clock = World(), ManualClock(START_MS)
    life = lives.begin(lives.fresh(), world, clock)
    await created(life)
    assert await run_to_rest(life) is State.RUNNING
    life.close()
    return world.effects


@pytest.mark.req("CL-028", "CL-062", "CL-027", "CL-040", "CL-042")
async def test_a_creation_goes_on_after_a_kill_at_any_call_and_makes_nothing_twice(lives: Lives) -> None:
    total = await calls_of_a_creation(lives)
    assert total > 15
    for n in range(1, total + 1):
        world, clock = World(), ManualClock(START_MS)
        database = lives.fresh()
        life = lives.begin(database, world, clock)
        await created(life)
        world.kill_at = n
        with contextlib.suppress(Killed):
            await run_to_rest(life)
        life.close()
        world.dead, world.kill_at = False, None
        after = lives.begin(database, world, clock)
        await after.start()
        assert await run_to_rest(after) is State.RUNNING, (n, world.calls)
        check_made(world)
        assert len(world.certificates.valid - await unheard(after, world)) == 1
        assert not (await after.cluster()).interrupted
        after.close()


@pytest.mark.req("CL-117", "CL-011")
async def test_what_a_killed_creation_left_is_removed_by_delete(lives: Lives) -> None:
    total = await calls_of_a_creation(lives)
    for n in range(1, total + 1):
        world, clock = World(), ManualClock(START_MS)
        database = lives.fresh()
        life = lives.begin(database, world, clock)
        await created(life)
        world.kill_at = n
        with contextlib.suppress(Killed):
            await run_to_rest(life)
        life.close()
        world.dead, world.kill_at, world.serving = False, None, False
        after = lives.begin(database, world, clock)
        await after.start()
        await after.delete()
        assert await run_to_rest(after) is State.TERMINATED, (n, world.calls)
        check_ended(world)
        assert world.certificates.valid <= await unheard(after, world)
        after.close()


@pytest.mark.req("CL-112", "CL-115", "CL-097", "CL-025", "CL-083", "CL-077")
async def test_a_deletion_goes_on_after_a_kill_at_any_call_and_leaves_nothing(lives: Lives) -> None:
    world, clock = World(), ManualClock(START_MS)
    before = lives.fresh()
    life = lives.begin(before, world, clock)
    await created(life)
    await run_to_rest(life)
    life.close()
    total = await _deletion(lives, before, world.copy(), None)
    assert total > 6
    for n in range(1, total + 1):
        await _deletion(lives, before, world.copy(), n)


async def _deletion(lives: Lives, before: Path, world: World, kill_at: int | None) -> int:
    clock = ManualClock(START_MS + 1_000_000)
    database = lives.copied(before)
    life = lives.begin(database, world, clock)
    world.kill_at = kill_at
    with contextlib.suppress(Killed):
        await life.delete()
        await run_to_rest(life)
    life.close()
    effects = world.effects
    world.dead, world.kill_at = False, None
    after = lives.begin(database, world, clock)
    await after.start()
    if not (await after.cluster()).deleting and (await after.cluster()).live:
        await after.drive(lambda c: not c.delete_stage)  # the question of the dead process is taken back first
        await after.delete()
    assert await run_to_rest(after) is State.TERMINATED, (kill_at, world.calls)
    check_ended(world)
    assert world.certificates.valid <= await unheard(after, world)
    after.close()
    return effects
