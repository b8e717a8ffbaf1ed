"""The process dies right after the effect of any call outside, and another one goes on: nothing twice, nothing left."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from anycloud_nodepool.domain.model import ResourceState
from anycloud_nodepool.store.tables import ATTEMPT
from sqlalchemy import update

from tests.unit.nodepool.fakes import Killed, unavailable
from tests.unit.nodepool.rig import Rig

Scenario = Callable[[Rig, str], Awaitable[None]]


async def survive(rig: Rig, pool_id: str, work: Scenario) -> bool:
    """Does the work, and when it is killed, does the rest in another process; whether it was killed."""
    try:
        await work(rig, pool_id)
    except BaseExceptionGroup as group:
        if group.split(Killed)[1] is not None:
            raise
    except Killed:
        pass
    else:
        return False
    rig.world.kill_at = None
    rig.stop()
    await rig.start()
    await work(rig, pool_id)
    return True


async def work_on(rig: Rig, pool_id: str) -> None:
    await rig.run(pool_id)


async def every_kill(tmp_path: Path, prepare: Scenario, work: Scenario, check: Scenario, **pool: Any) -> int:
    """Runs the scenario once for each call it makes, killed at the first effect from that call on; how many times."""
    for nth in range(1, 200):
        directory = tmp_path / str(nth)
        directory.mkdir()
        rig = Rig(directory)
        await rig.start()
        try:
            pool_id = (await rig.create("p", 2, **pool)).id
            await prepare(rig, pool_id)
            rig.world.kill_at = len(rig.world.calls) + nth
            killed = await survive(rig, pool_id, work)
            rig.world.kill_at = None
            await check(rig, pool_id)
        finally:
            rig.stop()
        if not killed:
            return nth - 1
    raise AssertionError("it never gets through")


async def two_good_machines(rig: Rig, pool_id: str) -> None:
    assert (await rig.pool(pool_id)).state == "running"
    assert len(rig.world.machines()) == 2
    assert len(rig.world.node_facts) == 2
    assert rig.world.tokens() == []
    open_ones = [attempt.id for attempt in await rig.attempts(pool_id) if attempt.open]
    assert sorted(open_ones) == sorted(rig.world.machines())


@pytest.mark.req("NP-017", "NP-026")
@pytest.mark.parametrize("gpus", [0, 4])
async def test_creating(tmp_path: Path, gpus: int) -> None:
    async def prepare(rig: Rig, pool_id: str) -> None:
        rig.world.gpus = gpus

    more = {"vm_types": ["g4dn.12xlarge"]} if gpus else {}
    kills = await every_kill(tmp_path, prepare, work_on, two_good_machines, **more)
    assert kills >= 7


async def test_replacing(tmp_path: Path) -> None:
    async def prepare(rig: Rig, pool_id: str) -> None:
        await rig.run(pool_id)
        rig.world.turn(rig.world.machines()[0], ResourceState.LOST)

    assert await every_kill(tmp_path, prepare, work_on, two_good_machines) >= 4


@pytest.mark.req("NP-074")
async def test_deleting(tmp_path: Path) -> None:
    async def prepare(rig: Rig, pool_id: str) -> None:
        await rig.run(pool_id)
        await rig.hold(pool_id)
        await rig.run(pool_id)
        await rig.let_go()
        await rig.delete("p")

    async def nothing_left(rig: Rig, pool_id: str) -> None:
        assert (await rig.pool(pool_id)).state == "deleted"
        assert {fact.state for fact in rig.world.resource_facts.values()} == {ResourceState.RELEASED}
        assert not rig.world.objects
        assert not rig.world.node_facts

    assert await every_kill(tmp_path, prepare, work_on, nothing_left) >= 8


async def test_making_the_namespace(tmp_path: Path) -> None:
    async def prepare(rig: Rig, pool_id: str) -> None:
        await rig.run(pool_id)
        await rig.hold(pool_id)

    async def both_there(rig: Rig, pool_id: str) -> None:
        assert (await rig.pool(pool_id)).namespace_uid
        assert len(rig.world.named("Namespace")) == len(rig.world.named("NetworkPolicy")) == 1

    assert await every_kill(tmp_path, prepare, work_on, both_there) >= 2


@pytest.mark.req("NP-025")
async def test_a_token_that_a_kill_kept_from_being_recorded_goes_all_the_same(rig: Rig) -> None:
    pool_id = (await rig.create()).id
    rig.world.refuse("machine", unavailable())
    await rig.run(pool_id)
    rig.world.allow()
    rig.world.kill_at = len(rig.world.calls) + 1
    with pytest.raises(BaseExceptionGroup):
        await rig.run(pool_id)
    rig.world.kill_at = None
    await rig.store.write(lambda tx: tx.conn.execute(update(ATTEMPT).values(token_uid=None)))
    while rig.world.settle():
        assert len(rig.world.tokens()) == 1
    await rig.run(pool_id)
    assert rig.world.tokens() == []
    assert (await rig.pool(pool_id)).state == "running"
