"""Logs of a Deployment's newest Pod."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from anycloud_common.errors import ApiError
from anycloud_common.kube import KubeError
from anycloudapi.deployment.v1 import deployments_pb2 as pb

from tests.unit.deployment.rig import NO_CONTEXT, Rig


async def lines(rig: Rig, reference: str = "voice", **options: Any) -> list[tuple[str, bool]]:
    rig.act_as()
    request = pb.StreamLogsRequest(id=reference, **options)
    stream = rig.service.deployments_rpc.StreamLogs(request, NO_CONTEXT)
    return [(line.text, line.previous) async for line in stream]


@pytest.mark.req("JB-018")
async def test_the_newest_pod_speaks_ready_or_not(rig: Rig) -> None:
    deployment_id, old = await rig.running()
    new = rig.cluster.add_pod(deployment_id, ready=False)
    rig.cluster.logs = {(old.name, False): ["old"], (new.name, False): ["one", "two"]}
    assert await lines(rig) == [("one", False), ("two", False)]
    assert await lines(rig, deployment_id, tail=1) == [("two", False)]
    assert await lines(rig, tail=0) == []


@pytest.mark.req("JB-019")
async def test_a_restarted_container_shows_its_previous_run_first(rig: Rig) -> None:
    _, pod = await rig.running()
    rig.cluster.change_pod(pod.uid, restarts=2)
    rig.cluster.logs = {(pod.name, True): ["last words"], (pod.name, False): ["hello"]}
    assert await lines(rig) == [("last words", True), ("hello", False)]
    assert await lines(rig, previous=True) == [("last words", True)]
    assert await lines(rig, tail=1) == [("hello", False)]


@pytest.mark.req("JB-019")
async def test_a_container_in_back_off_shows_its_last_run_once(rig: Rig) -> None:
    _, pod = await rig.running()
    rig.cluster.change_pod(pod.uid, restarts=2, running=False, ready=False, waiting="CrashLoopBackOff")
    rig.cluster.logs = {(pod.name, True): ["last words"], (pod.name, False): ["last words"]}
    assert await lines(rig) == [("last words", True)]


async def test_a_container_that_never_ran_has_no_lines(rig: Rig) -> None:
    _, pod = await rig.running()
    rig.cluster.change_pod(pod.uid, running=False, ready=False, waiting="ImagePullBackOff")
    assert await lines(rig) == []


async def test_without_a_pod_there_is_nothing_to_show(rig: Rig) -> None:
    await rig.create()
    with pytest.raises(ApiError) as error:
        await lines(rig)
    assert error.value.code == "DEPLOYMENT_CONFLICT"
    with pytest.raises(ApiError) as error:
        await lines(rig, "nosuch")
    assert error.value.code == "DEPLOYMENT_NOT_FOUND"


async def test_an_unreachable_cluster_is_unavailable(rig: Rig) -> None:
    await rig.running()
    rig.cluster.error = KubeError("unreachable", "no route")
    with pytest.raises(ApiError) as error:
        await lines(rig)
    assert error.value.code == "DEPLOYMENT_UNAVAILABLE"


@pytest.mark.req("JB-018")
async def test_following_goes_from_run_to_run_and_from_pod_to_pod_until_the_deployment_is_gone(rig: Rig) -> None:
    deployment_id, pod = await rig.running()
    rig.cluster.logs = {(pod.name, False): ["first"]}
    rig.act_as()
    request = pb.StreamLogsRequest(id="voice", follow=True)
    stream = rig.service.deployments_rpc.StreamLogs(request, NO_CONTEXT)
    assert (await anext(stream)).text == "first"
    following = asyncio.ensure_future(anext(stream))
    await rig.clock.sleeping(1)
    rig.cluster.drop_pod(pod.uid)
    other = rig.cluster.add_pod(deployment_id)
    rig.cluster.logs[other.name, False] = ["second"]
    await rig.clock.advance(1)
    assert (await following).pod_name == other.name
    ending = asyncio.ensure_future(anext(stream, None))
    await rig.clock.sleeping(1)
    rig.cluster.drop_pod(other.uid)
    await rig.delete("voice")
    await rig.clock.advance(1)
    assert await ending is None
