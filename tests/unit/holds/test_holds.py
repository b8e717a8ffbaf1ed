"""What the parent's side promises, transaction by transaction."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest
from anycloud_common import holds
from anycloud_common.clock import ManualClock
from anycloud_common.holds import (
    ADMISSION_RELEASED,
    ADMISSION_REUSED,
    NO_FREE_DEVICES,
    Admission,
    Owner,
    Parent,
    Refusal,
)
from anycloud_common.store import change_table
from sqlalchemy import select

from tests.unit.holds.parent import (
    HOLDS,
    METADATA,
    POOL,
    PREFIX,
    ParentService,
    PoolPolicy,
    add_pool,
    delete_pool,
    set_pool,
)

A, B = Owner("deployment", "dep-a"), Owner("service", "svc-b")


def admission(id: str, owner: Owner = A, devices: int = 0, pools: tuple[str, ...] = ("np-1",)) -> Admission:
    return Admission(id, owner, tuple(Parent(POOL, pool) for pool in pools), devices)


async def acquire(parent: ParentService, wanted: Admission) -> Refusal | None:
    return await parent.store.write(lambda tx: holds.acquire(tx, PREFIX, PoolPolicy(), "deployment", wanted))


async def release(parent: ParentService, *ids: str) -> None:
    await parent.store.write(lambda tx: holds.release(tx, PREFIX, ids))


async def replace(parent: ParentService, incarnation: str, *all: Admission, service: str = "deployment") -> None:
    await parent.store.write(lambda tx: holds.replace(tx, PREFIX, service, incarnation, all))


async def changes(parent: ParentService) -> list[tuple[str, str]]:
    table = change_table(PREFIX, METADATA)
    rows = await parent.store.read(lambda conn: conn.execute(select(table).order_by(table.c.seq)).all())
    return [(row.kind, row.id) for row in rows]


async def test_a_granted_admission_holds_each_of_its_parents(parent: ParentService) -> None:
    assert await acquire(parent, admission("adm-1", pools=("np-1", "np-2"))) is None
    assert await parent.owners("np-1") == await parent.owners("np-2") == [A]


async def test_a_repeated_acquire_is_granted_again_even_when_the_parent_would_refuse_now(parent: ParentService) -> None:
    await acquire(parent, admission("adm-1", devices=4))
    await parent.store.write(lambda tx: set_pool(tx, "np-1", "failed"))
    assert await acquire(parent, admission("adm-1", devices=4)) is None
    assert await parent.devices_held("np-1") == 4


@pytest.mark.parametrize(
    "other", [admission("adm-1", B), admission("adm-1", devices=1), admission("adm-1", pools=("np-2",))], ids=repr
)
async def test_an_id_is_never_taken_for_another_admission(parent: ParentService, other: Admission) -> None:
    await acquire(parent, admission("adm-1"))
    refusal = await acquire(parent, other)
    assert refusal is not None and refusal.code == ADMISSION_REUSED
    assert await parent.owners("np-1") == [A] and await parent.owners("np-2") == []


async def test_a_refusal_names_the_parent_and_its_state_and_takes_nothing(parent: ParentService) -> None:
    await parent.store.write(lambda tx: set_pool(tx, "np-2", "deleting"))
    refusal = await acquire(parent, admission("adm-1", pools=("np-1", "np-2")))
    assert refusal == Refusal(POOL, "np-2", "NOT_RUNNING", "Node pool cpu is deleting.")
    assert await parent.held() == set() and await changes(parent) == []


async def test_a_refused_admission_may_be_granted_later(parent: ParentService) -> None:
    await parent.store.write(lambda tx: set_pool(tx, "np-1", "failed"))
    assert await acquire(parent, admission("adm-1")) is not None
    await parent.store.write(lambda tx: set_pool(tx, "np-1", "running"))
    assert await acquire(parent, admission("adm-1")) is None


@pytest.mark.req("DP-032")
async def test_devices_that_others_hold_are_not_free(parent: ParentService) -> None:
    await acquire(parent, admission("adm-1", A, devices=3))
    refusal = await acquire(parent, admission("adm-2", B, devices=2))
    message = "Node pool gpu (running) has 1 of 4 devices free; the request wants 2."
    assert refusal == Refusal(POOL, "np-1", NO_FREE_DEVICES, message)
    assert await acquire(parent, admission("adm-3", B, devices=1)) is None


async def test_an_owner_counts_with_its_largest_hold_until_that_is_released(parent: ParentService) -> None:
    await acquire(parent, admission("adm-old", A, devices=3))
    assert await acquire(parent, admission("adm-new", A, devices=2)) is None
    assert await parent.devices_held("np-1") == 3
    assert await acquire(parent, admission("adm-b", B, devices=2)) is not None
    await release(parent, "adm-old")
    assert await acquire(parent, admission("adm-b", B, devices=2)) is None


async def test_an_upgrade_may_use_what_its_own_owner_holds(parent: ParentService) -> None:
    await acquire(parent, admission("adm-old", A, devices=4))
    assert await acquire(parent, admission("adm-new", A, devices=4)) is None


async def test_owners_of_another_kind_with_the_same_id_are_others(parent: ParentService) -> None:
    await acquire(parent, admission("adm-1", Owner("deployment", "x"), devices=4))
    assert await acquire(parent, admission("adm-2", Owner("service", "x"), devices=1)) is not None


async def test_a_parent_that_lost_devices_still_takes_owners_that_want_none(parent: ParentService) -> None:
    await acquire(parent, admission("adm-1", A, devices=4))
    await parent.store.write(lambda tx: tx.conn.exec_driver_sql("UPDATE nodepool_pool SET devices = 1"))
    refusal = await acquire(parent, admission("adm-2", B, devices=1))
    assert refusal is not None and "has 0 of 1 devices free" in refusal.message
    assert await acquire(parent, admission("adm-3", B)) is None


async def test_devices_of_a_parent_that_does_not_count_them_are_not_limited(parent: ParentService) -> None:
    assert await acquire(parent, admission("adm-1", devices=1000, pools=("np-2",))) is None


async def test_a_released_admission_is_refused_for_a_day(parent: ParentService, clock: ManualClock) -> None:
    await acquire(parent, admission("adm-1"))
    await release(parent, "adm-1")
    await clock.advance(24 * 3600)
    await release(parent, "adm-other")
    refusal = await acquire(parent, admission("adm-1"))
    assert refusal is not None and refusal.code == ADMISSION_RELEASED
    assert await parent.held() == set()


async def test_a_release_that_comes_first_refuses_the_acquire(parent: ParentService) -> None:
    await release(parent, "adm-1")
    refusal = await acquire(parent, admission("adm-1"))
    assert refusal is not None and refusal.code == ADMISSION_RELEASED


async def test_a_repeated_release_renews_its_tombstone(parent: ParentService, clock: ManualClock) -> None:
    await release(parent, "adm-1")
    await clock.advance(20 * 3600)
    await release(parent, "adm-1", "adm-1")
    await clock.advance(20 * 3600)
    await release(parent, "adm-other")
    assert await acquire(parent, admission("adm-1")) is not None


async def test_tombstones_older_than_a_day_are_dropped(parent: ParentService, clock: ManualClock) -> None:
    await release(parent, "adm-1", "adm-2")
    await clock.advance(24 * 3600 + 1)
    await release(parent, "adm-3")
    tombstone = HOLDS.tombstone.c.admission_id
    left = await parent.store.read(lambda conn: conn.execute(select(tombstone)).scalars().all())
    assert left == ["adm-3"]


async def test_only_the_named_admissions_are_released_not_all_of_the_owner(parent: ParentService) -> None:
    await acquire(parent, admission("adm-1", devices=1))
    await acquire(parent, admission("adm-2", devices=2))
    await release(parent, "adm-2")
    assert await parent.held() == {"adm-1"} and await parent.devices_held("np-1") == 1


async def test_an_owner_is_counted_once(parent: ParentService) -> None:
    for id, owner in [("adm-1", A), ("adm-2", A), ("adm-3", B)]:
        await acquire(parent, admission(id, owner))
    assert await parent.owners("np-1") == [A, B]
    assert await parent.store.read(lambda conn: holds.count(conn, PREFIX, POOL, "np-1")) == 2


async def test_each_change_of_holds_names_its_parents_in_the_feed(parent: ParentService) -> None:
    await acquire(parent, admission("adm-1", pools=("np-1", "np-2")))
    await acquire(parent, admission("adm-1", pools=("np-1", "np-2")))
    assert await changes(parent) == [(POOL, "np-1"), (POOL, "np-2")]
    await release(parent, "adm-1", "adm-never")
    assert sorted((await changes(parent))[2:]) == [(POOL, "np-1"), (POOL, "np-2")]
    await release(parent, "adm-1")
    assert len(await changes(parent)) == 4


async def test_after_a_restore_the_holds_are_exactly_those_that_the_service_names(parent: ParentService) -> None:
    await acquire(parent, admission("adm-stale"))
    await release(parent, "adm-back")
    await replace(parent, "life-2", admission("adm-back", B, devices=2), admission("adm-gone", pools=("np-lost",)))
    assert await parent.held() == {"adm-back", "adm-gone"}
    assert await parent.owners("np-1") == [B] and await parent.devices_held("np-1") == 2
    assert await acquire(parent, admission("adm-back", B, devices=2)) is None
    assert set(await changes(parent)) == {(POOL, "np-1"), (POOL, "np-lost")}


async def test_a_replacement_that_arrives_late_undoes_nothing(parent: ParentService) -> None:
    await replace(parent, "life-2", admission("adm-1"))
    await acquire(parent, admission("adm-2", B))
    await replace(parent, "life-2", admission("adm-1"))
    assert await parent.held() == {"adm-1", "adm-2"}
    await replace(parent, "life-3")
    assert await parent.held() == set()


async def test_a_replacement_leaves_the_holds_of_other_services(parent: ParentService) -> None:
    await acquire(parent, admission("adm-1"))
    await replace(parent, "life-2", admission("adm-2", Owner("cluster", "cl-1")), service="cluster")
    await replace(parent, "life-2", service="other")
    assert await parent.held() == {"adm-1", "adm-2"}


@pytest.mark.req("DP-032")
async def test_the_last_device_goes_to_exactly_one_of_two_admissions(parent: ParentService) -> None:
    for round in range(40):
        pool = f"np-race-{round}"
        await parent.store.write(partial(add_pool, pool_id=pool, devices=1))
        racers = [admission(f"adm-{round}-{owner.id}", owner, 1, (pool,)) for owner in (A, B)]
        answers = await asyncio.gather(*(acquire(parent, racer) for racer in racers[:: 1 if round % 2 else -1]))
        assert sorted(answer is None for answer in answers) == [False, True]
        assert await parent.devices_held(pool) == 1


async def test_of_a_deletion_and_an_admission_at_one_moment_exactly_one_wins(parent: ParentService) -> None:
    outcomes = set()
    for round in range(40):
        pool = f"np-race-{round}"
        await parent.store.write(partial(add_pool, pool_id=pool))
        deletion = parent.store.write(partial(delete_pool, pool_id=pool))
        admitting = acquire(parent, admission(f"adm-{round}", pools=(pool,)))
        if round % 2:
            deleted, refusal = await asyncio.gather(deletion, admitting)
        else:
            refusal, deleted = await asyncio.gather(admitting, deletion)
        assert deleted is (refusal is not None)
        assert await parent.owners(pool) == ([] if deleted else [A])
        outcomes.add(deleted)
    assert outcomes == {True, False}
