"""A create or update is there wholly or not at all, wherever the process is killed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from anycloud_common.errors import ApiError
from anycloudapi.common.internal.v1 import holds_pb2
from anycloudapi.common.v1 import types_pb2

from tests.unit.deployment.fakes import Killed
from tests.unit.deployment.rig import Rig


async def settle(rig: Rig) -> None:
    """What a new process does about admissions, at its start and then."""
    work = asyncio.create_task(rig.service.admissions.run())
    for _ in range(20):
        await rig.store.write(lambda tx: None)
        await asyncio.sleep(0.005)
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)


async def killed_at(rig: Rig, step: str, call: Any) -> None:
    """Runs a call and ends the process at that step."""
    write, reached = rig.store.write, 0

    async def counted(fn: Any) -> Any:
        nonlocal reached
        reached += 1
        if step == "before publishing" and reached == 2:
            raise Killed
        result = await write(fn)
        if step == "after the intent" and reached == 1:
            raise Killed
        if step == "after publishing" and reached == 2:
            raise Killed
        return result

    rig.store.write = counted  # type: ignore[method-assign]
    task = asyncio.create_task(call)
    await asyncio.gather(task, return_exceptions=True)
    rig.store.write = write  # type: ignore[method-assign]
    await rig.restart()
    await settle(rig)


STEPS = ("after the intent", "before publishing", "after publishing")


@pytest.mark.req("DP-032", "DP-033")
@pytest.mark.parametrize("step", STEPS)
async def test_a_killed_create_leaves_both_deployment_and_hold_or_neither(rig: Rig, step: str) -> None:
    await killed_at(rig, step, rig.create())
    found = await rig.listed()
    assert len(found) == len(rig.holds.held) == (1 if step == "after publishing" else 0)
    if not found:
        await rig.create()
        assert len(rig.holds.held) == 1


@pytest.mark.parametrize("step", STEPS)
async def test_a_killed_update_leaves_both_revision_and_hold_or_neither(rig: Rig, step: str) -> None:
    made = await rig.create(node_pool="gpu", docker_options=types_pb2.DockerOptions(gpus="1"))
    await killed_at(rig, step, rig.update("voice", image="acme/model:v2"))
    done = step == "after publishing"
    assert (await rig.get(made.id)).generation == (2 if done else 1)
    assert len(rig.holds.held) == (2 if done else 1)


async def test_what_is_being_admitted_is_invisible_and_holds_its_name(rig: Rig) -> None:
    asked, answer, acquire = asyncio.Event(), asyncio.Event(), rig.holds.AcquireHolds

    async def slow(request: holds_pb2.AcquireHoldsRequest, **given: Any) -> holds_pb2.AcquireHoldsResponse:
        asked.set()
        await answer.wait()
        return await acquire(request, **given)

    rig.holds.AcquireHolds = slow  # type: ignore[method-assign]
    creating = asyncio.create_task(rig.create())
    await asked.wait()
    assert await rig.listed() == []
    for awaited, code in ((rig.get("voice"), "DEPLOYMENT_NOT_FOUND"), (rig.create(), "DEPLOYMENT_CONFLICT")):
        with pytest.raises(ApiError) as error:
            await awaited
        assert error.value.code == code
    answer.set()
    made = await creating
    assert [found.id for found in await rig.listed()] == [made.id]


async def test_a_refused_create_frees_its_name_and_holds_nothing(rig: Rig) -> None:
    rig.holds.refusal = ("NODE_POOL_NOT_FOUND", "Node pool np-1 is deleted.")
    with pytest.raises(ApiError) as error:
        await rig.create()
    assert (error.value.code, error.value.message) == ("DEPLOYMENT_NOT_FOUND", "Node pool np-1 is deleted.")
    rig.holds.refusal = None
    await rig.create()
    assert len(rig.holds.held) == 1


@pytest.mark.req("DP-032")
async def test_the_last_devices_go_to_one_of_many_at_once(rig: Rig) -> None:
    options = types_pb2.DockerOptions(gpus="8")

    async def attempt(number: int) -> str:
        try:
            return (await rig.create(f"d{number}", node_pool="gpu", docker_options=options)).name
        except ApiError as error:
            assert error.code == "DEPLOYMENT_CONFLICT"
            return ""

    winners = [name for name in await asyncio.gather(*(attempt(number) for number in range(8))) if name]
    assert len(winners) == 1
    assert [found.name for found in await rig.listed()] == winners
    assert len(rig.holds.held) == 1


@pytest.mark.req("DP-127", "DP-145")
async def test_an_update_that_another_overtakes_while_it_takes_its_holds_conflicts_and_holds_nothing(rig: Rig) -> None:
    made = await rig.create()
    acquire = rig.holds.AcquireHolds

    async def overtaken(request: holds_pb2.AcquireHoldsRequest, **given: Any) -> holds_pb2.AcquireHoldsResponse:
        rig.holds.AcquireHolds = acquire  # type: ignore[method-assign]
        await rig.update("voice", image="acme/model:other")
        return await acquire(request, **given)

    rig.holds.AcquireHolds = overtaken  # type: ignore[method-assign]
    with pytest.raises(ApiError) as error:
        await rig.update("voice", image="acme/model:v2")
    assert error.value.code == "DEPLOYMENT_CONFLICT"
    found = await rig.get(made.id)
    assert (found.generation, found.image) == (2, "acme/model:other")
    await settle(rig)
    assert len(rig.holds.held) == 2, "those of the create and of the update that went through"


async def test_a_deletion_ends_an_update_that_is_on_its_way(rig: Rig) -> None:
    made = await rig.create()
    acquire = rig.holds.AcquireHolds

    async def overtaken(request: holds_pb2.AcquireHoldsRequest, **given: Any) -> holds_pb2.AcquireHoldsResponse:
        await rig.delete("voice")
        return await acquire(request, **given)

    rig.holds.AcquireHolds = overtaken  # type: ignore[method-assign]
    with pytest.raises(ApiError) as error:
        await rig.update("voice", image="acme/model:v2")
    assert error.value.code == "DEPLOYMENT_CONFLICT"
    assert (await rig.get(made.id)).generation == 1
    await settle(rig)
    assert len(rig.holds.held) == 1
