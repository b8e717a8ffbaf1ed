"""The stream of gRPC workers: the same transitions, many at once, and cancellations pushed."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator

import pytest
from anycloud_common.errors import ApiError
from anycloudapi.deployment.v1 import jobs_pb2 as pb

from tests.unit.deployment.rig import NO_CONTEXT, Rig, execution

Up = pb.WorkerMessage


class Worker:
    """A gRPC worker on one stream."""

    def __init__(self, rig: Rig, deployment_id: str, token: str) -> None:
        rig.work_as(token, deployment_id=deployment_id)
        self._up: asyncio.Queue[Up | None] = asyncio.Queue()
        self._down = rig.service.jobs_rpc.Work(self._messages(), NO_CONTEXT)
        self._refs = 0

    async def _messages(self) -> AsyncIterator[Up]:
        while (message := await self._up.get()) is not None:
            yield message

    def send(self, **message: object) -> int:
        self._refs += 1
        self._up.put_nowait(Up(ref=self._refs, **message))  # type: ignore[arg-type]
        return self._refs

    def half_close(self) -> None:
        self._up.put_nowait(None)

    async def next(self) -> pb.WorkMessage:
        return await anext(self._down)

    async def close(self) -> None:
        await self._down.aclose()  # type: ignore[attr-defined]

    def claim(self, offer: pb.JobCandidate, key: str) -> int:
        claim = Up.Claim(job_id=offer.job_id, execution_id=key, submission_revision=offer.submission_revision)
        if offer.HasField("previous_execution_id"):
            claim.previous_execution_id = offer.previous_execution_id
        return self.send(claim=claim)

    def report(self, job_id: str, key: str) -> int:
        outcome = pb.OutcomeReport(execution_id=key, outcome=pb.OutcomeReport.OUTCOME_COMPLETED)
        return self.send(report=Up.Report(job_id=job_id, report=outcome))

    def clean_up(self, job_id: str, key: str) -> int:
        return self.send(cleanup=Up.Cleanup(job_id=job_id, execution_id=key))


async def test_a_job_is_offered_claimed_reported_and_cleaned_up_on_one_stream(rig: Rig) -> None:
    deployment_id, pod = await rig.running()
    worker = Worker(rig, deployment_id, f"token-{pod.uid}")
    worker.send(ready=Up.Ready(slots=1))
    first = asyncio.ensure_future(worker.next())
    await rig.submit("voice", "job-1")
    offer = (await first).offer
    assert offer.job_id == "job-1"
    ref = worker.claim(offer, execution(1))
    answer = await worker.next()
    assert (answer.ref, answer.claimed.job_id, answer.claimed.execution_id) == (ref, "job-1", execution(1))
    for ref in (worker.report("job-1", execution(1)), worker.clean_up("job-1", execution(1))):
        answer = await worker.next()
        assert (answer.ref, answer.WhichOneof("message")) == (ref, "done")
    assert await rig.state("job-1") == "completed"
    worker.half_close()
    with pytest.raises(StopAsyncIteration):
        await worker.next()


async def test_offers_go_no_further_than_the_workers_word(rig: Rig) -> None:
    deployment_id, pod = await rig.running(max_concurrent_jobs_per_replica=10)
    for number in range(5):
        await rig.submit("voice", f"job-{number}")
    worker = Worker(rig, deployment_id, f"token-{pod.uid}")
    worker.send(ready=Up.Ready(slots=2))
    assert [(await worker.next()).offer.job_id for _ in range(2)] == ["job-0", "job-1"]
    third = asyncio.ensure_future(worker.next())
    await rig.store.read(lambda conn: None)
    assert not third.done()
    worker.send(ready=Up.Ready(slots=1))
    assert (await third).offer.job_id == "job-2"
    await worker.close()


async def test_offers_of_a_stream_that_ends_go_to_others(rig: Rig) -> None:
    deployment_id, pod = await rig.running(max_concurrent_jobs_per_replica=10)
    await rig.submit("voice", "job-1")
    worker = Worker(rig, deployment_id, f"token-{pod.uid}")
    worker.send(ready=Up.Ready(slots=1))
    assert (await worker.next()).offer.job_id == "job-1"
    assert await rig.candidate(deployment_id, pod) is None
    await worker.close()
    assert await rig.candidate(deployment_id, pod) is not None


async def test_refusals_are_answers_and_the_stream_goes_on(rig: Rig) -> None:
    deployment_id, pod = await rig.running()
    await rig.submit("voice", "job-1")
    worker = Worker(rig, deployment_id, f"token-{pod.uid}")
    wrong = pb.JobCandidate(job_id="job-1", submission_revision=9)
    sent = {
        worker.claim(wrong, execution(1)): "WORKLOAD_CANDIDATE_STALE",
        worker.claim(wrong, "no-uuid"): "INVALID_REQUEST",
        worker.report("job-1", execution(2)): "WORKLOAD_NOT_FOUND",
        worker.send(): "INVALID_REQUEST",
    }
    for _ in sent.copy():
        answer = await worker.next()
        assert answer.refused.code == sent.pop(answer.ref)
    worker.claim(pb.JobCandidate(job_id="job-1"), execution(3))
    assert (await worker.next()).WhichOneof("message") == "claimed"
    await worker.close()


async def test_a_cancellation_is_pushed_also_to_a_stream_opened_later(rig: Rig) -> None:
    deployment_id, pod = await rig.running(max_concurrent_jobs_per_replica=2)
    for number in (1, 2):
        await rig.submit("voice", f"job-{number}")
    await rig.pick_up(deployment_id, pod, execution(1))
    worker = Worker(rig, deployment_id, f"token-{pod.uid}")
    worker.claim(pb.JobCandidate(job_id="job-2"), execution(2))
    assert (await worker.next()).claimed.job_id == "job-2"
    for number in (1, 2):
        await rig.terminate(f"job-{number}")
        told = (await worker.next()).cancelled
        assert (told.job_id, told.execution_id) == (f"job-{number}", execution(number))
        worker.clean_up(f"job-{number}", execution(number))
        assert (await worker.next()).WhichOneof("message") == "done"
        assert await rig.state(f"job-{number}") == "terminated"
    await worker.close()


async def test_a_stream_ends_before_its_token_does(rig: Rig) -> None:
    deployment_id, pod = await rig.running()
    claims = base64.urlsafe_b64encode(json.dumps({"exp": rig.clock.now_ms() / 1000 + 600}).encode()).decode()
    token = f"h.{claims.rstrip('=')}.s"
    rig.cluster.tokens[token] = rig.cluster.tokens[f"token-{pod.uid}"]
    worker = Worker(rig, deployment_id, token)
    ending = asyncio.ensure_future(worker.next())
    await rig.clock.sleeping(1)
    await rig.clock.advance(539)
    assert not ending.done()
    await rig.clock.advance(1)
    with pytest.raises(ApiError) as error:
        await ending
    assert error.value.code == "WORKLOAD_UNAVAILABLE"


async def test_a_stream_ends_when_the_process_stops(rig: Rig) -> None:
    deployment_id, pod = await rig.running()
    worker = Worker(rig, deployment_id, f"token-{pod.uid}")
    ending = asyncio.ensure_future(worker.next())
    await rig.clock.sleeping(1)
    rig.draining.begin()
    with pytest.raises(ApiError) as error:
        await ending
    assert error.value.code == "WORKLOAD_UNAVAILABLE"


async def test_a_stream_needs_the_token_of_a_pod_of_the_deployment(rig: Rig) -> None:
    deployment_id, _ = await rig.running()
    worker = Worker(rig, deployment_id, "token-unknown")
    with pytest.raises(ApiError) as error:
        await worker.next()
    assert error.value.code == "WORKLOAD_UNAUTHORIZED"


async def test_many_jobs_pass_through_one_stream_each_once(rig: Rig) -> None:
    deployment_id, pod = await rig.running(max_concurrent_jobs_per_replica=100)
    for number in range(60):
        await rig.submit("voice", f"job-{number}")
    worker = Worker(rig, deployment_id, f"token-{pod.uid}")
    worker.send(ready=Up.Ready(slots=60))
    waiting: dict[int, str] = {}
    claimed: list[tuple[str, str]] = []
    while len(claimed) < 60:
        message = await worker.next()
        if message.WhichOneof("message") == "offer":
            waiting[worker.claim(message.offer, execution(len(waiting)))] = message.offer.job_id
        else:
            claimed.append((message.claimed.job_id, waiting[message.ref]))
    assert sorted(job_id for job_id, _ in claimed) == sorted(f"job-{number}" for number in range(60))
    assert all(answered == asked for answered, asked in claimed)
    await worker.close()
