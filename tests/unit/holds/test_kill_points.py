"""A kill between any two steps leaves both, owner and hold, or neither; and nothing is stuck."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import pytest
from anycloud_common.admission import Conflict, HoldsUnavailable
from anycloud_common.holds import ADMISSION_RELEASED
from anycloud_common.holds.messages import to_message
from anycloudapi.common.internal.v1 import holds_pb2

from tests.unit.holds.caller import CallerService
from tests.unit.holds.conftest import Eventually
from tests.unit.holds.parent import ParentService

Until = Callable[[CallerService], Awaitable[str]]


async def _until_begun(caller: CallerService) -> str:
    return await caller.begin("dep-1", devices=4)


async def _until_the_parent_has_acted(caller: CallerService) -> str:
    admission_id = await _until_begun(caller)
    await _killed_during(caller, "AcquireHolds", caller.admissions.acquire(admission_id))
    return admission_id


async def _until_acquired(caller: CallerService) -> str:
    admission_id = await _until_begun(caller)
    await caller.admissions.acquire(admission_id)
    return admission_id


async def _until_cancelling(caller: CallerService) -> str:
    admission_id = await _until_acquired(caller)
    caller.line.cut_before = {"ReleaseHolds"}
    await caller.admissions.abandon(admission_id)
    return admission_id


async def _until_the_parent_has_released(caller: CallerService) -> str:
    admission_id = await _until_acquired(caller)
    await _killed_during(caller, "ReleaseHolds", caller.admissions.abandon(admission_id))
    return admission_id


async def _until_admitted(caller: CallerService) -> str:
    return await caller.create("dep-1", devices=4)


async def _killed_during(caller: CallerService, method: str, step: Awaitable[None]) -> None:
    caller.line.hang_after = {method}
    task = asyncio.ensure_future(step)
    await caller.line.hanging.wait()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


NEITHER = [
    _until_begun,
    _until_the_parent_has_acted,
    _until_acquired,
    _until_cancelling,
    _until_the_parent_has_released,
]


@pytest.mark.parametrize("until", NEITHER, ids=lambda step: step.__name__.strip("_"))
async def test_an_admission_that_was_not_committed_leaves_neither(
    caller: CallerService, parent: ParentService, eventually: Eventually, until: Until
) -> None:
    admission_id = await until(caller)
    await caller.crash()
    await _settled(caller, parent, eventually)
    assert await caller.stored() == set() and await parent.held() == set()
    with pytest.raises(Conflict):
        await caller.finish("dep-1", admission_id, base_revision=0)
    await caller.create("dep-2", devices=4, name="dep-1")


@pytest.mark.parametrize("until", NEITHER, ids=lambda step: step.__name__.strip("_"))
async def test_a_kill_of_both_services_leaves_neither(
    caller: CallerService, parent: ParentService, eventually: Eventually, until: Until
) -> None:
    await until(caller)
    await parent.stop()
    await caller.crash()
    caller.start()
    await parent.start()

    async def nothing_left() -> bool:
        return not (await caller.states() or await caller.stored() or await parent.held())

    await eventually(nothing_left)


async def test_an_admission_that_was_committed_leaves_both(
    caller: CallerService, parent: ParentService, eventually: Eventually
) -> None:
    admission_id = await _until_admitted(caller)
    await caller.crash()
    await _settled(caller, parent, eventually)
    assert await caller.visible() == {"dep-1": 1} and await parent.held() == {admission_id}


async def test_a_kill_after_the_owner_was_committed_but_not_answered_leaves_both(
    caller: CallerService, parent: ParentService, eventually: Eventually
) -> None:
    admission_id = await _until_acquired(caller)
    unanswered = asyncio.ensure_future(caller.finish("dep-1", admission_id))
    await asyncio.sleep(0)  # the write is queued now
    unanswered.cancel()
    await caller.crash()
    await _settled(caller, parent, eventually)
    assert await caller.visible() == {"dep-1": 1} and await parent.held() == {admission_id}


@pytest.mark.parametrize("method", ["cut_before", "hang_after"])
async def test_a_release_of_an_admitted_owner_goes_on_after_a_kill(
    caller: CallerService, parent: ParentService, eventually: Eventually, method: str
) -> None:
    admission_id = await _until_admitted(caller)
    if method == "hang_after":
        await _killed_during(caller, "ReleaseHolds", caller.admissions.release([admission_id]))
    else:
        caller.line.cut_before = {"ReleaseHolds"}
        await caller.admissions.release([admission_id])
        assert await parent.held() == {admission_id}
    await caller.crash()
    await _settled(caller, parent, eventually)
    assert await parent.held() == set() and await caller.visible() == {"dep-1": 1}


async def test_what_an_ended_process_left_pending_is_cancelled_at_the_next_start_not_at_the_end_of_its_lease(
    caller: CallerService,
) -> None:
    admission_id = await _until_acquired(caller)
    await caller.admissions.recover()
    assert await caller.states() == {admission_id: "pending"}
    await caller.crash()
    await caller.admissions.recover()
    assert await caller.states() == {admission_id: "cancelling"}


async def test_an_acquire_that_arrives_after_the_recovery_is_refused(
    caller: CallerService, parent: ParentService, eventually: Eventually
) -> None:
    admission_id = await _until_begun(caller)
    [row] = await caller.store.read(lambda conn: caller.admissions.of_owner(conn, "deployment", "dep-1"))
    late = holds_pb2.AcquireHoldsRequest(service="deployment", admission=to_message(row.admission))
    await caller.crash()
    await _settled(caller, parent, eventually)
    answer = await parent.stub.AcquireHolds(late)
    assert late.admission.id == admission_id and answer.refused.code == ADMISSION_RELEASED
    assert await parent.held() == set()


async def test_a_parent_killed_after_its_commit_answers_the_repeated_acquire_alike(
    caller: CallerService, parent: ParentService
) -> None:
    admission_id = await _until_begun(caller)
    caller.line.cut_after = {"AcquireHolds"}
    with pytest.raises(HoldsUnavailable):
        await caller.admissions.acquire(admission_id)
    await parent.stop()
    await parent.start()
    caller.line.cut_after.clear()
    await caller.admissions.acquire(admission_id)
    await caller.finish("dep-1", admission_id)
    assert await parent.held() == {admission_id} and await parent.devices_held("np-1") == 4


async def _settled(caller: CallerService, parent: ParentService, eventually: Eventually) -> None:
    """Lets the recovery end: no admission is on its way any more."""
    caller.start()

    async def settled() -> bool:
        return set((await caller.states()).values()) <= {"admitted"}

    await eventually(settled)
