"""Who is told of which Job: one waiter a Job, and the next one when an offer came to nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from anycloud_deployment.live.tokens import Bearer
from anycloudapi.deployment.v1 import jobs_pb2

from tests.unit.deployment.rig import Rig, execution


async def waiting(rig: Rig, *polls: Coroutine[Any, Any, Any]) -> list[asyncio.Task[Any]]:
    """The polls as tasks, once each of them is held."""
    tasks = []
    for poll in polls:
        before = rig.clock.sleepers
        tasks.append(asyncio.create_task(poll))
        await rig.clock.sleeping(before + 1)
    return tasks


async def turns(rig: Rig) -> None:
    """Lets what is under way in threads come to an end."""
    await rig.store.read(lambda conn: None)
    for _ in range(200):
        await asyncio.sleep(0)
    await asyncio.sleep(0.02)


async def test_a_new_job_wakes_one_waiter_only(rig: Rig) -> None:
    deployment_id, pod = await rig.running(max_concurrent_jobs_per_replica=5)
    polls = await waiting(rig, *(rig.candidate(deployment_id, pod, 20_000) for _ in range(3)))
    await rig.submit("voice", "job-1")
    await turns(rig)
    assert [poll.done() for poll in polls] == [True, False, False]
    await rig.clock.advance(20)
    assert [await poll for poll in polls[1:]] == [None, None]


async def test_an_offer_lasts_half_a_second_and_then_goes_to_the_next(rig: Rig) -> None:
    deployment_id, pod = await rig.running(max_concurrent_jobs_per_replica=5)
    await rig.run_offers()
    first, second = await waiting(rig, *(rig.candidate(deployment_id, pod, 20_000) for _ in range(2)))
    await rig.submit("voice", "job-1")
    assert (await first).job_id == "job-1"
    await rig.clock.advance(0.49)
    await turns(rig)
    assert not second.done()
    await rig.clock.advance(0.02)
    assert (await second).job_id == "job-1"


async def test_a_claim_ends_the_offer_and_a_stale_one_lets_the_next_look(rig: Rig) -> None:
    deployment_id, pod = await rig.running(max_concurrent_jobs_per_replica=5)
    await rig.run_offers()
    await rig.submit("voice", "job-1")
    offered = await rig.candidate(deployment_id, pod)
    assert offered is not None
    assert await rig.candidate(deployment_id, pod) is None, "nobody else is offered it meanwhile"
    wrong = jobs_pb2.JobCandidate(job_id="job-1", submission_revision=4)
    with pytest.raises(Exception, match="isn't waiting"):
        await rig.claim(deployment_id, pod, wrong, execution(1))
    assert await rig.candidate(deployment_id, pod) == offered


async def test_a_waiter_that_leaves_takes_no_job_along(rig: Rig) -> None:
    deployment_id, pod = await rig.running(max_concurrent_jobs_per_replica=5)
    first, second = await waiting(rig, *(rig.candidate(deployment_id, pod, 20_000) for _ in range(2)))
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    await rig.submit("voice", "job-1")
    assert (await second).job_id == "job-1"


async def test_a_waiter_that_leaves_as_it_is_told_gives_the_job_free(rig: Rig) -> None:
    deployment_id, pod = await rig.running()
    await rig.submit("voice", "job-1")
    bearer = Bearer("pool-ns", deployment_id, pod.uid)

    def leave() -> asyncio.Future[Bearer]:
        """Called as the offer is made: its waiter is gone before it can take it."""
        leaving.cancel()
        found: asyncio.Future[Bearer] = asyncio.get_running_loop().create_future()
        found.set_result(bearer)
        return found

    poll = rig.service.offers.poll(deployment_id, pod.uid, "token", review=leave, wait_s=20)
    leaving = asyncio.create_task(poll)
    await asyncio.gather(leaving, return_exceptions=True)
    assert leaving.cancelled()
    assert await rig.candidate(deployment_id, pod) is not None


async def test_offers_count_against_free_slots(rig: Rig) -> None:
    deployment_id, pod = await rig.running()
    other = rig.cluster.add_pod(deployment_id)
    for number in (1, 2):
        await rig.submit("voice", f"job-{number}")
    assert await rig.candidate(deployment_id, pod) is not None
    assert await rig.candidate(deployment_id, pod) is None, "its only slot is spoken for"
    found = await rig.candidate(deployment_id, other)
    assert found is not None
    assert found.job_id == "job-2"


async def test_a_pod_that_becomes_ready_is_offered_what_waits(rig: Rig) -> None:
    deployment_id, pod = await rig.running()
    rig.cluster.change_pod(pod.uid, ready=False)
    await rig.submit("voice", "job-1")
    [poll] = await waiting(rig, rig.candidate(deployment_id, pod, 20_000))
    await turns(rig)
    assert not poll.done()
    rig.cluster.change_pod(pod.uid, ready=True)
    assert (await poll).job_id == "job-1"


async def test_a_pod_that_stays_unready_is_held_and_then_told_nothing(rig: Rig) -> None:
    deployment_id, pod = await rig.running()
    rig.cluster.change_pod(pod.uid, ready=False)
    await rig.submit("voice", "job-1")
    [poll] = await waiting(rig, rig.candidate(deployment_id, pod, 5_000))
    await rig.clock.advance(5)
    assert await poll is None


async def test_a_freed_slot_is_offered(rig: Rig) -> None:
    deployment_id, pod = await rig.running()
    await rig.submit("voice", "job-1")
    await rig.submit("voice", "job-2")
    await rig.pick_up(deployment_id, pod, execution(1))
    [poll] = await waiting(rig, rig.candidate(deployment_id, pod, 20_000))
    await rig.report(deployment_id, pod, "job-1", execution(1))
    await turns(rig)
    assert not poll.done()
    await rig.clean_up(deployment_id, pod, "job-1", execution(1))
    assert (await poll).job_id == "job-2"


async def test_each_second_what_became_due_is_matched_again(rig: Rig) -> None:
    deployment_id, pod = await rig.running()
    await rig.run_offers()
    await rig.submit("voice", "job-1")
    await rig.pick_up(deployment_id, pod, execution(1))
    await rig.report(deployment_id, pod, "job-1", execution(1), "RETRYABLE", "busy")
    await rig.clean_up(deployment_id, pod, "job-1", execution(1))
    [poll] = await waiting(rig, rig.candidate(deployment_id, pod, 20_000))
    await rig.clock.advance(2)
    assert (await poll).previous_execution_id == execution(1)


async def test_many_waiters_get_many_jobs_each_one(rig: Rig) -> None:
    deployment_id, pod = await rig.running(max_concurrent_jobs_per_replica=50)
    polls = await waiting(rig, *(rig.candidate(deployment_id, pod, 20_000) for _ in range(20)))
    for number in range(20):
        await rig.submit("voice", f"job-{number:02}")
    offered = [(await poll).job_id for poll in polls]
    assert sorted(offered) == [f"job-{number:02}" for number in range(20)]
