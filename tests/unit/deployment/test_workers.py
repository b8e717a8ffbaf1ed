"""The five worker operations: discovery, claim, cancellation, outcome, cleanup."""

from __future__ import annotations

import asyncio

import pytest
from anycloud_common.errors import ApiError
from anycloud_common.kube import KubeError
from anycloud_common.rest import Invalid
from anycloud_deployment.domain.ports import Holder
from anycloudapi.deployment.v1 import jobs_pb2, states_pb2

from tests.unit.deployment.rig import Rig, execution

KEY = execution(1)


async def refused(awaited: object, code: str) -> str:
    with pytest.raises(ApiError) as error:
        await awaited  # type: ignore[misc]
    assert error.value.code == code, error.value.message
    return error.value.message


def candidate(job_id: str, revision: int = 0, previous: str | None = None) -> jobs_pb2.JobCandidate:
    return jobs_pb2.JobCandidate(job_id=job_id, submission_revision=revision, previous_execution_id=previous)


async def test_discovery_starts_nothing(rig: Rig) -> None:
    deployment_id, pod = await rig.running()
    await rig.submit("voice", "job-1")
    assert await rig.candidate(deployment_id, pod) == candidate("job-1")
    assert await rig.state("job-1") == "queued"


async def test_the_oldest_job_comes_first(rig: Rig) -> None:
    deployment_id, pod = await rig.running()
    for number in range(3):
        await rig.submit("voice", f"job-{number}")
    assert await rig.candidate(deployment_id, pod) == candidate("job-0")


async def test_nothing_to_do_is_no_candidate(rig: Rig) -> None:
    deployment_id, pod = await rig.running()
    assert await rig.candidate(deployment_id, pod) is None


@pytest.mark.req("JB-002", "JB-003", "DP-074")
async def test_a_claimed_job_runs_in_the_pod_that_claimed_it(rig: Rig) -> None:
    deployment_id, pod = await rig.running(max_concurrent_jobs_per_replica=2)
    await rig.submit("voice", "job-1")
    objects = len(rig.cluster.objects)
    selected = await rig.claim(deployment_id, pod, candidate("job-1"), KEY)
    assert (selected.job_id, selected.execution_id) == ("job-1", KEY)
    assert await rig.state("job-1") == "running"
    [shown] = await rig.listed()
    assert (shown.jobs.unreleased, shown.jobs.running, shown.max_concurrent_jobs_per_replica) == (1, 1, 2)
    assert len(rig.cluster.objects) == objects


async def test_a_repeated_claim_is_answered_from_its_row_whatever_has_changed_since(rig: Rig) -> None:
    deployment_id, pod = await rig.running()
    await rig.submit("voice", "job-1")
    first = await rig.claim(deployment_id, pod, candidate("job-1"), KEY)
    await rig.update("voice", image="acme/model:v2")
    rig.cluster.change_pod(pod.uid, ready=False, deleting=True)
    rig.cluster.synced = False
    assert await rig.claim(deployment_id, pod, candidate("job-1"), KEY) == first
    assert (await rig.status("job-1")).events_total == 2


@pytest.mark.parametrize("key", [KEY.upper(), KEY.replace("-", "")])
async def test_an_execution_id_has_several_spellings(rig: Rig, key: str) -> None:
    deployment_id, pod = await rig.running()
    await rig.submit("voice", "job-1")
    assert (await rig.claim(deployment_id, pod, candidate("job-1"), key)).execution_id == KEY


@pytest.mark.parametrize("key", [None, "", "no-uuid", KEY + "0"])
async def test_a_claim_without_a_uuid_has_the_wrong_shape(rig: Rig, key: str | None) -> None:
    deployment_id, pod = await rig.running()
    await rig.submit("voice", "job-1")
    with pytest.raises(Invalid, match="must be a UUID"):
        await rig.claim(deployment_id, pod, candidate("job-1"), key or "")


@pytest.mark.parametrize("wrong", [candidate("job-1", 1), candidate("job-1", 0, execution(7)), candidate("job-1", -1)])
async def test_another_state_of_the_job_than_offered_is_stale(rig: Rig, wrong: jobs_pb2.JobCandidate) -> None:
    deployment_id, pod = await rig.running()
    await rig.submit("voice", "job-1")
    await refused(rig.claim(deployment_id, pod, wrong, KEY), "WORKLOAD_CANDIDATE_STALE")


async def test_a_job_that_another_pod_took_is_stale(rig: Rig) -> None:
    deployment_id, pod = await rig.running()
    other = rig.cluster.add_pod(deployment_id)
    await rig.submit("voice", "job-1")
    await rig.claim(deployment_id, other, candidate("job-1"), KEY)
    await refused(rig.claim(deployment_id, pod, candidate("job-1"), execution(2)), "WORKLOAD_CANDIDATE_STALE")


async def test_an_execution_id_is_used_once(rig: Rig) -> None:
    deployment_id, pod = await rig.running(max_concurrent_jobs_per_replica=3)
    for job_id in ("job-1", "job-2"):
        await rig.submit("voice", job_id)
    await rig.claim(deployment_id, pod, candidate("job-1"), KEY)
    await refused(rig.claim(deployment_id, pod, candidate("job-2"), KEY), "WORKLOAD_EXECUTION_USED")
    await refused(rig.claim(deployment_id, pod, candidate("job-1", 1), KEY), "WORKLOAD_EXECUTION_USED")
    await rig.report(deployment_id, pod, "job-1", KEY)
    await refused(rig.claim(deployment_id, pod, candidate("job-1"), KEY), "WORKLOAD_EXECUTION_USED")
    await rig.clean_up(deployment_id, pod, "job-1", KEY)
    await refused(rig.claim(deployment_id, pod, candidate("job-2"), KEY), "WORKLOAD_EXECUTION_USED")


@pytest.mark.req("JB-005")
async def test_a_finished_job_holds_its_slot_until_it_is_cleaned_up(rig: Rig) -> None:
    deployment_id, pod = await rig.running(max_concurrent_jobs_per_replica=2)
    for number in (1, 2, 3):
        await rig.submit("voice", f"job-{number}")
    for number in (1, 2):
        await rig.pick_up(deployment_id, pod, execution(number))
    await rig.report(deployment_id, pod, "job-1", execution(1))
    assert await rig.candidate(deployment_id, pod) is None
    message = await refused(rig.claim(deployment_id, pod, candidate("job-3"), execution(3)), "WORKLOAD_CANDIDATE_STALE")
    assert message == "The Pod holds 2 Jobs already, and 2 are allowed."
    await rig.clean_up(deployment_id, pod, "job-1", execution(1))
    assert await rig.pick_up(deployment_id, pod, execution(3)) == "job-3"


@pytest.mark.req("DP-024", "DP-086", "JB-012")
@pytest.mark.parametrize("facts", [{"ready": False}, {"deleting": True}, {"node": None}])
async def test_a_pod_that_is_not_ready_gets_no_new_job(rig: Rig, facts: dict[str, object]) -> None:
    deployment_id, pod = await rig.running()
    await rig.submit("voice", "job-1")
    rig.cluster.change_pod(pod.uid, **facts)
    assert await rig.candidate(deployment_id, pod) is None
    await refused(rig.claim(deployment_id, pod, candidate("job-1"), KEY), "WORKLOAD_CANDIDATE_STALE")
    assert await rig.state("job-1") == "queued"


@pytest.mark.req("DP-025")
async def test_a_running_job_goes_on_while_its_pod_is_not_ready(rig: Rig) -> None:
    deployment_id, pod = await rig.running()
    await rig.submit("voice", "job-1")
    await rig.pick_up(deployment_id, pod, KEY)
    rig.cluster.change_pod(pod.uid, ready=False)
    await rig.judge(deployment_id)
    assert await rig.state("job-1") == "running"
    await rig.report(deployment_id, pod, "job-1", KEY)
    assert await rig.state("job-1") == "completed"


@pytest.mark.req("JB-009", "JB-010", "DP-128")
async def test_from_the_moment_of_an_upgrade_the_old_pod_gets_no_job_and_the_new_one_does(rig: Rig) -> None:
    deployment_id, pod = await rig.running()
    await rig.submit("voice", "job-1")
    await rig.submit("voice", "job-2")
    await rig.pick_up(deployment_id, pod, KEY)
    await rig.update("voice", image="acme/model:v2")
    await rig.report(deployment_id, pod, "job-1", KEY)
    await rig.clean_up(deployment_id, pod, "job-1", KEY)
    assert await rig.candidate(deployment_id, pod) is None
    await refused(rig.claim(deployment_id, pod, candidate("job-2"), execution(2)), "WORKLOAD_CANDIDATE_STALE")
    await rig.reconcile(deployment_id)
    [new] = rig.cluster.seen_pods(deployment_id)
    assert new.generation == 2
    assert await rig.pick_up(deployment_id, new, execution(2)) == "job-2"


@pytest.mark.req("DP-060", "DP-061")
async def test_each_pickup_is_reviewed_anew_and_a_pod_that_is_gone_gets_nothing(rig: Rig) -> None:
    deployment_id, pod = await rig.running(max_concurrent_jobs_per_replica=2)
    await rig.submit("voice", "job-1")
    await rig.submit("voice", "job-2")
    await rig.candidate(deployment_id, pod)
    await rig.claim(deployment_id, pod, candidate("job-1"), KEY)
    assert len(rig.cluster.reviews) == 2, "one to be let in, one for the pickup, begun with the offer"
    await rig.claim(deployment_id, pod, candidate("job-2"), execution(2))
    assert len(rig.cluster.reviews) == 3, "without an offer the claim asks itself"
    del rig.cluster.tokens[f"token-{pod.uid}"]
    await rig.submit("voice", "job-3")
    await refused(rig.claim(deployment_id, pod, candidate("job-3"), execution(3)), "WORKLOAD_UNAUTHORIZED")


async def test_a_verdict_is_kept_for_ten_seconds(rig: Rig) -> None:
    deployment_id, pod = await rig.running()
    for _ in range(3):
        await rig.candidate(deployment_id, pod)
    assert len(rig.cluster.reviews) == 1
    await rig.clock.advance(10)
    await rig.candidate(deployment_id, pod)
    assert len(rig.cluster.reviews) == 2


async def test_only_the_clusters_own_word_refuses_a_token(rig: Rig) -> None:
    deployment_id, pod = await rig.running()
    await rig.submit("voice", "job-1")
    rig.cluster.error = KubeError("unreachable", "no answer in time")
    await refused(rig.candidate(deployment_id, pod), "WORKLOAD_UNAVAILABLE")
    rig.cluster.error = None
    rig.cluster.synced = False
    await refused(rig.candidate(deployment_id, pod), "WORKLOAD_UNAVAILABLE")
    await refused(rig.claim(deployment_id, pod, candidate("job-1"), KEY), "WORKLOAD_UNAVAILABLE")
    rig.cluster.synced = True
    rig.cluster.error = KubeError("unreachable", "no answer in time")
    await refused(rig.claim(deployment_id, pod, candidate("job-1"), KEY), "WORKLOAD_UNAVAILABLE")
    assert await rig.state("job-1") == "queued"


async def test_a_no_is_believed_when_it_is_said_twice(rig: Rig) -> None:
    deployment_id, pod = await rig.running()
    rig.cluster.lookups_to_fail = 1
    assert await rig.candidate(deployment_id, pod) is None
    assert len(rig.cluster.reviews) == 2
    await rig.clock.advance(10)
    rig.cluster.lookups_to_fail = 2
    await refused(rig.candidate(deployment_id, pod), "WORKLOAD_UNAUTHORIZED")


async def test_tokens_of_others_are_refused(rig: Rig) -> None:
    deployment_id, pod = await rig.running()
    other_id, other = await rig.running("other")
    await rig.submit("voice", "job-1")
    await refused(rig.candidate(other_id, pod), "WORKLOAD_FORBIDDEN")
    await refused(rig.candidate("dep-none", pod), "WORKLOAD_NOT_FOUND")
    rig.cluster.tokens["token-x"] = Holder("another-ns", deployment_id, "x", "x")
    rig.cluster.tokens["token-y"] = Holder("pool-ns", deployment_id, None, None)
    request = jobs_pb2.DiscoverCandidateRequest(deployment_id=deployment_id)
    for token, code in (
        ("token-x", "WORKLOAD_FORBIDDEN"),
        ("token-y", "WORKLOAD_FORBIDDEN"),
        ("token-z", "WORKLOAD_UNAUTHORIZED"),
        (None, "WORKLOAD_UNAUTHORIZED"),
    ):
        rig.work_as(token)
        await refused(rig.service.jobs_rpc.DiscoverCandidate(request, None), code)  # type: ignore[arg-type]
    assert other.uid != pod.uid


async def test_an_outcome_is_taken_once_and_repeated_at_will(rig: Rig) -> None:
    deployment_id, pod = await rig.running()
    await rig.submit("voice", "job-1")
    await rig.pick_up(deployment_id, pod, KEY)
    for _ in range(2):
        await rig.report(deployment_id, pod, "job-1", KEY, "ERRORED", "boom")
    await refused(rig.report(deployment_id, pod, "job-1", KEY), "WORKLOAD_CONFLICT")
    for _ in range(2):
        await rig.clean_up(deployment_id, pod, "job-1", KEY)
    await rig.report(deployment_id, pod, "job-1", KEY, "ERRORED", "boom")
    await refused(rig.report(deployment_id, pod, "job-1", KEY, "INVALID", "x"), "WORKLOAD_CONFLICT")
    status = await rig.status("job-1")
    assert status.workload.state == states_pb2.WORKLOAD_STATE_ERRORED
    assert [event.metadata["reason"] for event in status.events] == [
        "cleaned-up",
        "outcome-reported",
        "claimed",
        "submitted",
    ]
    assert status.events[0].metadata["message"] == "boom"


async def test_a_running_execution_is_not_cleaned_up_before_its_outcome(rig: Rig) -> None:
    deployment_id, pod = await rig.running()
    await rig.submit("voice", "job-1")
    await rig.pick_up(deployment_id, pod, KEY)
    await refused(rig.clean_up(deployment_id, pod, "job-1", KEY), "WORKLOAD_CONFLICT")


async def test_what_is_asked_about_unknown_or_foreign_executions_is_refused(rig: Rig) -> None:
    deployment_id, pod = await rig.running()
    other = rig.cluster.add_pod(deployment_id)
    await rig.submit("voice", "job-1")
    await rig.pick_up(deployment_id, pod, KEY)
    await refused(rig.report(deployment_id, pod, "job-1", execution(9)), "WORKLOAD_NOT_FOUND")
    await refused(rig.report(deployment_id, pod, "job-9", KEY), "WORKLOAD_NOT_FOUND")
    await refused(rig.report(deployment_id, other, "job-1", KEY), "WORKLOAD_FORBIDDEN")
    await refused(rig.clean_up(deployment_id, other, "job-1", KEY), "WORKLOAD_FORBIDDEN")
    await refused(rig.cancelled(deployment_id, other, "job-1", KEY), "WORKLOAD_FORBIDDEN")
    await refused(rig.cancelled(deployment_id, pod, "job-1", execution(9)), "WORKLOAD_NOT_FOUND")
    assert await rig.state("job-1") == "running"


@pytest.mark.req("JB-004")
async def test_a_retry_waits_and_goes_to_whichever_pod_comes(rig: Rig) -> None:
    deployment_id, pod = await rig.running()
    other = rig.cluster.add_pod(deployment_id)
    await rig.submit("voice", "job-1")
    await rig.pick_up(deployment_id, pod, KEY)
    await rig.report(deployment_id, pod, "job-1", KEY, "RETRYABLE", "busy")
    assert await rig.state("job-1") == "retrying"
    retry = (await rig.status("job-1")).retry
    assert (retry.attempt, retry.earliest_at) == (1, rig.clock.now_ms() + 1000)
    assert await rig.candidate(deployment_id, other) is None, "its execution isn't cleaned up"
    await rig.clean_up(deployment_id, pod, "job-1", KEY)
    assert await rig.candidate(deployment_id, other) is None, "a retry pauses"
    await rig.clock.advance(1)
    again = candidate("job-1", 0, KEY)
    assert await rig.candidate(deployment_id, other) == again
    await rig.claim(deployment_id, other, again, execution(2))
    assert (await rig.status("job-1")).workload.claimed


async def test_cancellation_is_told_to_the_worker_that_waits_for_it(rig: Rig) -> None:
    deployment_id, pod = await rig.running()
    await rig.submit("voice", "job-1")
    await rig.pick_up(deployment_id, pod, KEY)
    assert await rig.cancelled(deployment_id, pod, "job-1", KEY) is False
    waiting = asyncio.create_task(rig.cancelled(deployment_id, pod, "job-1", KEY, 20_000))
    await rig.clock.sleeping(1)
    await rig.terminate("job-1")
    assert await waiting is True
    assert await rig.state("job-1") == "running", "its worker has to stop first"
    await rig.clean_up(deployment_id, pod, "job-1", KEY)
    status = await rig.status("job-1")
    assert status.workload.state == states_pb2.WORKLOAD_STATE_TERMINATED
    assert status.workload.HasField("cleaned_at")
    assert await rig.cancelled(deployment_id, pod, "job-1", KEY) is True


async def test_a_held_cancellation_ends_with_the_execution_and_with_the_wait(rig: Rig) -> None:
    deployment_id, pod = await rig.running()
    await rig.submit("voice", "job-1")
    await rig.pick_up(deployment_id, pod, KEY)
    waiting = asyncio.create_task(rig.cancelled(deployment_id, pod, "job-1", KEY, 20_000))
    await rig.clock.sleeping(1)
    await rig.report(deployment_id, pod, "job-1", KEY)
    assert await waiting is False
    await rig.clean_up(deployment_id, pod, "job-1", KEY)
    assert await rig.cancelled(deployment_id, pod, "job-1", KEY, 20_000) is False


async def test_a_cancelled_execution_that_completes_all_the_same_is_completed(rig: Rig) -> None:
    deployment_id, pod = await rig.running()
    await rig.submit("voice", "job-1")
    await rig.pick_up(deployment_id, pod, KEY)
    await rig.terminate("job-1")
    await rig.report(deployment_id, pod, "job-1", KEY)
    assert await rig.state("job-1") == "completed"


async def test_held_polls_end_with_nothing_yet_when_the_process_stops(rig: Rig) -> None:
    deployment_id, pod = await rig.running(max_concurrent_jobs_per_replica=2)
    await rig.submit("voice", "job-1")
    await rig.pick_up(deployment_id, pod, KEY)
    looking = asyncio.create_task(rig.candidate(deployment_id, pod, 20_000))
    asking = asyncio.create_task(rig.cancelled(deployment_id, pod, "job-1", KEY, 20_000))
    await rig.clock.sleeping(2)
    rig.draining.begin()
    assert await looking is None
    assert await asking is False


async def test_the_wait_for_a_job_is_bounded(rig: Rig) -> None:
    deployment_id, pod = await rig.running()
    with pytest.raises(Invalid, match="must be 0 to 20000"):
        await rig.candidate(deployment_id, pod, 20_001)
