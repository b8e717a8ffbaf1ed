"""What the caller's side promises, against a real parent over a Unix socket."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest
from anycloud_common import holds
from anycloud_common.admission import Conflict, HoldsUnavailable, Refused
from anycloud_common.clock import ManualClock
from anycloud_common.holds import NO_FREE_DEVICES, Owner
from anycloud_common.store import Tx
from sqlalchemy.exc import IntegrityError

from tests.unit.holds.caller import OWNER, CallerService
from tests.unit.holds.conftest import Eventually, soon
from tests.unit.holds.parent import PREFIX, ParentService, set_pool


async def nothing_left(caller: CallerService, parent: ParentService) -> bool:
    return not (await caller.stored() or await caller.states() or await parent.held())


async def test_an_admitted_owner_is_visible_and_holds_its_parent(caller: CallerService, parent: ParentService) -> None:
    admission_id = await caller.create("dep-1", devices=2)
    assert await caller.visible() == {"dep-1": 1}
    assert await caller.states() == {admission_id: "admitted"}
    assert await parent.owners("np-1") == [Owner(OWNER, "dep-1")] and await parent.devices_held("np-1") == 2


async def test_before_the_parent_has_answered_the_owner_is_stored_but_not_visible(caller: CallerService) -> None:
    await caller.begin("dep-1", name="web")
    assert await caller.stored() == {"dep-1"} and await caller.visible() == {}
    with pytest.raises(IntegrityError):
        await caller.begin("dep-2", name="web")


@pytest.mark.req("DP-033")
async def test_a_refused_owner_leaves_nothing_and_its_name_is_free_at_once(
    caller: CallerService, parent: ParentService
) -> None:
    await caller.create("dep-1", devices=3)
    with pytest.raises(Refused) as caught:
        await caller.create("dep-2", devices=2, name="web")
    refused = caught.value
    assert (refused.code, refused.parent_kind, refused.parent_id) == (NO_FREE_DEVICES, "node-pool", "np-1")
    assert str(refused) == "Node pool gpu (running) has 1 of 4 devices free; the request wants 2."
    assert await caller.stored() == {"dep-1"} and len(await caller.states()) == 1
    await caller.create("dep-3", devices=1, name="web")


async def test_an_acquire_whose_answer_was_lost_is_released(caller: CallerService, parent: ParentService) -> None:
    caller.line.cut_after = {"AcquireHolds"}
    with pytest.raises(HoldsUnavailable):
        await caller.create("dep-1")
    assert await nothing_left(caller, parent)
    assert caller.line.calls == ["AcquireHolds", "ReleaseHolds"]


async def test_a_parent_that_restarts_during_the_acquire_is_waited_for(
    caller: CallerService, parent: ParentService
) -> None:
    await parent.stop()
    creation = asyncio.create_task(caller.create("dep-1"))
    await asyncio.sleep(0.05)  # real time: the connection is refused meanwhile
    assert not creation.done()
    await parent.start()
    await creation
    assert await parent.owners("np-1") == [Owner(OWNER, "dep-1")]


@pytest.mark.parametrize("cut", ["cut_before", "cut_after"])
async def test_a_release_is_repeated_until_it_is_answered_and_the_owner_keeps_its_name_till_then(
    caller: CallerService, parent: ParentService, eventually: Eventually, cut: str
) -> None:
    caller.line.cut_after = {"AcquireHolds"}
    getattr(caller.line, cut).add("ReleaseHolds")
    caller.start()
    with pytest.raises(HoldsUnavailable):
        await caller.create("dep-1")

    async def tried(times: int) -> bool:
        return caller.line.calls.count("ReleaseHolds") >= times

    await soon(lambda: tried(2))
    await eventually(lambda: tried(4))
    assert await caller.stored() == {"dep-1"}
    assert list((await caller.states()).values()) == ["cancelling"]
    getattr(caller.line, cut).discard("ReleaseHolds")
    await eventually(lambda: nothing_left(caller, parent))


async def test_a_call_that_is_cancelled_gives_its_holds_back(caller: CallerService, parent: ParentService) -> None:
    caller.line.hang_after = {"AcquireHolds"}
    creation = asyncio.create_task(caller.create("dep-1"))
    await caller.line.hanging.wait()
    assert len(await parent.held()) == 1
    creation.cancel()
    with pytest.raises(asyncio.CancelledError):
        await creation
    assert await nothing_left(caller, parent)


async def test_of_two_changes_made_for_one_revision_the_second_is_a_conflict(
    caller: CallerService, parent: ParentService
) -> None:
    first = await caller.create("dep-1", devices=1)
    early, late = [await caller.begin_upgrade("dep-1", devices=devices) for devices in (2, 3)]
    for id in (early, late):
        await caller.admissions.acquire(id)
    await caller.finish("dep-1", late)
    with pytest.raises(Conflict):
        async with caller.admissions.attempt(early):
            await caller.finish("dep-1", early)
    assert await caller.visible() == {"dep-1": 2}
    assert await caller.states() == {first: "admitted", late: "admitted"}
    assert await parent.held() == {first, late}


async def test_an_owner_that_is_being_deleted_is_not_admitted_any_more(
    caller: CallerService, parent: ParentService, eventually: Eventually
) -> None:
    caller.start()
    admission_id = await caller.begin("dep-1")
    await caller.admissions.acquire(admission_id)
    await caller.store.write(lambda tx: caller.admissions.cancel_pending(tx, OWNER, "dep-1"))
    with pytest.raises(Conflict):
        await caller.finish("dep-1", admission_id)
    await eventually(lambda: nothing_left(caller, parent))


async def test_cancelling_an_owners_pending_admissions_leaves_its_admitted_ones(
    caller: CallerService, parent: ParentService, eventually: Eventually
) -> None:
    caller.start()
    admitted = await caller.create("dep-1")
    other = await caller.create("dep-2")
    await caller.begin_upgrade("dep-1", devices=1)
    await caller.store.write(lambda tx: caller.admissions.cancel_pending(tx, OWNER, "dep-1"))

    async def only_those_two() -> bool:
        return await caller.states() == {admitted: "admitted", other: "admitted"}

    await eventually(only_those_two)
    assert await parent.held() == {admitted, other} and await caller.visible() == {"dep-1": 1, "dep-2": 1}


async def test_a_cancelled_admission_is_not_acquired(caller: CallerService) -> None:
    admission_id = await caller.begin("dep-1")
    await caller.admissions.abandon(admission_id)
    with pytest.raises(Conflict):
        await caller.admissions.acquire(admission_id)
    assert "AcquireHolds" not in caller.line.calls


async def test_abandoning_an_admitted_admission_changes_nothing(caller: CallerService, parent: ParentService) -> None:
    admission_id = await caller.create("dep-1")
    await caller.admissions.abandon(admission_id)
    assert await caller.states() == {admission_id: "admitted"} and await parent.held() == {admission_id}


async def test_an_upgrade_counts_with_the_larger_of_old_and_new_until_the_old_is_released(
    caller: CallerService, parent: ParentService
) -> None:
    old = await caller.create("dep-1", devices=3)
    new = await caller.upgrade("dep-1", devices=1)
    assert await parent.devices_held("np-1") == 3
    with pytest.raises(Refused):
        await caller.create("dep-2", devices=2)
    rows = await caller.store.read(lambda conn: caller.admissions.of_owner(conn, OWNER, "dep-1"))
    assert [(row.admission.id, row.admission.devices, row.state) for row in rows] == sorted(
        [(old, 3, "admitted"), (new, 1, "admitted")]
    )
    await caller.admissions.release([old])
    assert await parent.devices_held("np-1") == 1
    await caller.create("dep-2", devices=2)
    assert await caller.visible() == {"dep-1": 2, "dep-2": 1}


async def test_a_release_belongs_to_the_transaction_that_asks_for_it_and_follows_its_commit(
    caller: CallerService, parent: ParentService
) -> None:
    caller.start()
    admission_id = await caller.create("dep-1")

    def rolled_back(tx: Tx) -> None:
        caller.admissions.releasing(tx, [admission_id])
        raise RuntimeError

    with pytest.raises(RuntimeError):
        await caller.store.write(rolled_back)
    assert await caller.states() == {admission_id: "admitted"}
    await caller.store.write(lambda tx: caller.admissions.releasing(tx, [admission_id]))

    async def released() -> bool:
        return not (await caller.states() or await parent.held())

    await soon(released)
    assert await caller.visible() == {"dep-1": 1}


async def test_a_pending_admission_is_cancelled_when_its_lease_is_over_and_not_before(
    caller: CallerService, parent: ParentService, clock: ManualClock
) -> None:
    caller.start()
    admission_id = await caller.begin("dep-1")
    await caller.admissions.acquire(admission_id)
    await clock.sleeping(1)
    await clock.advance(29)
    await caller.admissions.recover()
    assert await caller.states() == {admission_id: "pending"}
    await clock.advance(1)
    await soon(lambda: nothing_left(caller, parent))
    with pytest.raises(Conflict):
        await caller.finish("dep-1", admission_id)


async def test_after_a_restore_the_parent_holds_what_was_admitted_and_nothing_else(
    caller: CallerService, parent: ParentService
) -> None:
    admitted = await caller.create("dep-1", devices=1)
    pending = await caller.begin("dep-2")
    await caller.admissions.acquire(pending)
    await parent.store.write(lambda tx: holds.release(tx, PREFIX, [admitted]))
    assert await parent.held() == {pending}
    await caller.crash()
    await caller.admissions.replace("life-2", "node-pool")
    assert await parent.held() == {admitted} and await parent.devices_held("np-1") == 1
    assert await parent.owners("np-1") == [Owner(OWNER, "dep-1")]
    caller.line.cut_after = {"ReplaceHolds"}
    with pytest.raises(HoldsUnavailable):
        await caller.admissions.replace("life-3", "node-pool")


@pytest.mark.req("DP-032", "DP-033")
async def test_the_last_device_goes_to_exactly_one_of_many_callers(
    caller: CallerService, parent: ParentService
) -> None:
    await caller.create("dep-first", devices=3)
    for round in range(10):
        racers = [f"dep-{round}-{n}" for n in range(4)]
        answers = await asyncio.gather(*(caller.create(id, devices=1) for id in racers), return_exceptions=True)
        assert sum(isinstance(answer, Refused) for answer in answers) == 3
        [(winner, admission_id)] = [(id, won) for id, won in zip(racers, answers, strict=True) if isinstance(won, str)]
        assert len(await caller.visible()) == 2 and await parent.devices_held("np-1") == 4
        await caller.remove(winner, admission_id)
    assert await parent.devices_held("np-1") == 3


async def test_a_parent_that_is_being_deleted_is_refused_with_its_state(
    caller: CallerService, parent: ParentService
) -> None:
    await parent.store.write(partial(set_pool, pool_id="np-1", state="deleting"))
    with pytest.raises(Refused, match=r"Node pool gpu is deleting\."):
        await caller.create("dep-1")
    assert await nothing_left(caller, parent)
