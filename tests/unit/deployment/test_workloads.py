"""Jobs towards their submitters: submit, list, status, terminate, resubmit, observe."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from anycloud_common.errors import ApiError
from anycloudapi.deployment.v1 import states_pb2
from anycloudapi.deployment.v1 import workloads_pb2 as pb

from tests.unit.deployment.rig import NO_CONTEXT, Rig, execution

KEY = execution(1)
Submit = pb.SubmitWorkloadRequest


async def refused(awaited: Any, code: str) -> str:
    with pytest.raises(ApiError) as error:
        await awaited
    assert error.value.code == code, error.value.message
    return error.value.message


async def listed(rig: Rig, **filters: Any) -> list[str]:
    rig.act_as()
    request = pb.ListWorkloadsRequest(**filters)
    answer = await rig.service.workloads_rpc.ListWorkloads(request, NO_CONTEXT)
    return [one.workload.id for one in answer.workloads]


async def observe(rig: Rig, job_id: str, revision: int = 0, wait_ms: int = 0) -> pb.SubmissionObservation:
    rig.act_as()
    spec = pb.ObservationSpec(submission_revision=revision, wait_ms=wait_ms)
    request = pb.ObserveSubmissionRequest(id=job_id, observation=spec)
    return await rig.service.workloads_rpc.ObserveSubmission(request, NO_CONTEXT)


async def resubmit(rig: Rig, job_id: str, **spec: Any) -> pb.Resubmission:
    rig.act_as()
    request = pb.ResubmitWorkloadRequest(id=job_id, resubmission=pb.ResubmissionSpec(**spec))
    return await rig.service.workloads_rpc.ResubmitWorkload(request, NO_CONTEXT)


async def finish(rig: Rig, deployment_id: str, job_id: str, number: int, outcome: str = "COMPLETED") -> None:
    [pod] = rig.cluster.seen_pods(deployment_id)
    assert await rig.pick_up(deployment_id, pod, execution(number)) == job_id
    await rig.report(deployment_id, pod, job_id, execution(number), outcome, "" if outcome == "COMPLETED" else "why")
    await rig.clean_up(deployment_id, pod, job_id, execution(number))


@pytest.mark.req("JB-001")
async def test_a_job_is_submitted_by_name_and_by_id(rig: Rig) -> None:
    deployment_id, _ = await rig.running("Voice")
    for reference in ("voice", "VOICE", deployment_id):
        admission = await rig.submit(reference)
        assert admission.submission_revision == 0
        assert admission.id.startswith("job-")
        assert not admission.HasField("claim_deadline_at")


async def test_the_same_submission_again_gets_the_same_receipt_and_no_second_job(rig: Rig) -> None:
    deployment_id, _ = await rig.running()
    first = await rig.submit("voice", "job-1", timeout=30.0, session="s")
    await rig.clock.advance(5)
    assert await rig.submit(deployment_id, "job-1", timeout=30.0, session="s") == first
    await rig.submit("voice", "job-2")
    await finish(rig, deployment_id, "job-1", 1)
    assert await rig.submit("voice", "job-1", timeout=30.0, session="s") == first
    assert (await rig.get("voice")).jobs.terminal == 1


async def test_an_id_of_another_submission_conflicts(rig: Rig) -> None:
    deployment_id, _ = await rig.running()
    await rig.running("other")
    await rig.submit("voice", "job-1")
    await refused(rig.submit("voice", "job-1", timeout=1.0), "WORKLOAD_ID_CONFLICT")
    await refused(rig.submit("voice", "job-1", session="s"), "WORKLOAD_ID_CONFLICT")
    await refused(rig.submit("other", "job-1"), "WORKLOAD_ID_CONFLICT")
    await finish(rig, deployment_id, "job-1", 1)
    await resubmit(rig, "job-1")
    await refused(rig.submit("voice", "job-1"), "WORKLOAD_ID_CONFLICT")
    rig.act_as("bob")
    target = Submit.DeploymentTarget(deployment="voice")
    bobs = Submit(id="job-1", deployment_target=target)
    await refused(rig.service.workloads_rpc.SubmitWorkload(bobs, NO_CONTEXT), "WORKLOAD_ID_CONFLICT")


@pytest.mark.parametrize(
    ("request_", "rule"),
    [
        (Submit(), "deployment is missing"),
        (Submit(deployment_target=Submit.DeploymentTarget(deployment="nosuch")), "doesn't exist"),
        (Submit(workload_type=states_pb2.WORKLOAD_TYPE_SERVICE), "workloadType must be job"),
        (Submit(gpus_per_node=1), "gpusPerNode isn't supported"),
        (Submit(launch=Submit.LAUNCH_DISTRIBUTED), "launch isn't supported"),
        (Submit(mounts=[Submit.Mount(name="state", path="/x")]), "mounts isn't supported"),
        (Submit(nodes=2), "nodes isn't supported"),
        (Submit(resumable=True), "resumable isn't supported"),
        (Submit(time_limit=5), "timeLimit isn't supported"),
        (Submit(id="a b"), "id 'a b' isn't allowed"),
        (Submit(id="x" * 129), "isn't allowed"),
        (Submit(session="s" * 257), "session is longer"),
        (Submit(deployment_target=Submit.DeploymentTarget(deployment="voice", timeout=-1)), "timeout is -1"),
        (Submit(deployment_target=Submit.DeploymentTarget(deployment="voice", timeout=float("nan"))), "timeout"),
    ],
)
async def test_what_no_job_on_a_deployment_can_be_is_rejected_before_anything_is_stored(
    rig: Rig, request_: pb.SubmitWorkloadRequest, rule: str
) -> None:
    await rig.running()
    if request_.WhichOneof("target") is None and request_ != Submit():
        request_.deployment_target.deployment = "voice"
    rig.act_as()
    message = await refused(
        rig.service.workloads_rpc.SubmitWorkload(request_, NO_CONTEXT), "WORKLOAD_ADMISSION_REJECTED"
    )
    assert rule in message
    assert await listed(rig) == []


async def test_harmless_spellings_of_the_defaults_are_accepted(rig: Rig) -> None:
    await rig.running()
    await rig.submit("voice", "job-1", nodes=1, launch=Submit.LAUNCH_SINGLE, resumable=False)
    await rig.submit("voice", "job-2", workload_type=states_pb2.WORKLOAD_TYPE_JOB)


@pytest.mark.req("JB-011", "DP-133")
async def test_a_deployment_that_is_being_deleted_rejects_jobs_and_ends_the_queued_ones(rig: Rig) -> None:
    deployment_id, pod = await rig.running()
    for number in (1, 2):
        await rig.submit("voice", f"job-{number}")
    await rig.pick_up(deployment_id, pod, KEY)
    await rig.delete("voice")
    assert [await rig.state(f"job-{number}") for number in (1, 2)] == ["running", "terminated"]
    assert "being deleted" in await refused(rig.submit("voice"), "WORKLOAD_ADMISSION_REJECTED")
    reason = (await rig.status("job-2")).events[0].metadata["reason"]
    assert reason == "deployment-deleted"


async def test_many_jobs_are_taken_in_one_step_or_none(rig: Rig) -> None:
    await rig.running()
    rig.act_as()
    jobs = [pb.SubmitJobsRequest.Job(id=f"job-{number}", timeout=60) for number in range(500)]
    request = pb.SubmitJobsRequest(deployment="voice", jobs=jobs)
    answer = await rig.service.workloads_rpc.SubmitJobs(request, NO_CONTEXT)
    assert [admission.id for admission in answer.admissions] == [f"job-{number}" for number in range(500)]
    assert (await rig.get("voice")).jobs.queued == 500
    again = pb.SubmitJobsRequest(deployment="voice", jobs=[*jobs[:2], pb.SubmitJobsRequest.Job(id="job-1", timeout=1)])
    rig.act_as()
    await refused(rig.service.workloads_rpc.SubmitJobs(again, NO_CONTEXT), "WORKLOAD_ADMISSION_REJECTED")
    fresh = pb.SubmitJobsRequest(deployment="voice", jobs=[pb.SubmitJobsRequest.Job(id=name) for name in ("n", "n")])
    await refused(rig.service.workloads_rpc.SubmitJobs(fresh, NO_CONTEXT), "WORKLOAD_ADMISSION_REJECTED")
    empty = pb.SubmitJobsRequest(deployment="voice")
    await refused(rig.service.workloads_rpc.SubmitJobs(empty, NO_CONTEXT), "WORKLOAD_ADMISSION_REJECTED")
    assert (await rig.get("voice")).jobs.queued == 500


@pytest.mark.req("JB-016")
async def test_a_job_reports_its_deployment_and_no_container_configuration(rig: Rig) -> None:
    deployment_id, _ = await rig.running()
    await rig.submit("voice", "job-1", session="s", session_label="label", agent="claude")
    job = (await rig.status("job-1")).workload
    assert (job.deployment_id, job.node_pool_id, job.node_pool_name) == (deployment_id, "np-1", "training")
    assert (job.user_id, job.session, job.session_label, job.agent) == ("alice", "s", "label", "claude")
    for field in ("image", "image_digest", "command", "docker_options", "secret_names", "vm_type", "total_cost"):
        assert not job.HasField(field)
    assert (job.vm_count, job.docker_command, job.claimed) == (0, "", False)


async def test_status_tells_the_place_in_the_queue_for_queued_jobs_only(rig: Rig) -> None:
    deployment_id, pod = await rig.running()
    for number in range(3):
        await rig.submit("voice", f"job-{number}")
    assert [(await rig.status(f"job-{number}")).jobs_ahead for number in range(3)] == [0, 1, 2]
    await rig.pick_up(deployment_id, pod, KEY)
    assert not (await rig.status("job-0")).HasField("jobs_ahead")
    assert (await rig.status("job-2")).jobs_ahead == 1
    assert (await rig.status("job-0")).status == pb.WorkloadStatus.LIVENESS_UP
    assert (await rig.status("job-2")).status == pb.WorkloadStatus.LIVENESS_NONE


async def test_unknown_workloads_are_not_found(rig: Rig) -> None:
    for awaited in (rig.status("x"), rig.terminate("x"), resubmit(rig, "x"), observe(rig, "x")):
        await refused(awaited, "WORKLOAD_MANAGEMENT_NOT_FOUND")


@pytest.mark.req("JB-013")
async def test_terminating_is_a_request_and_may_be_repeated(rig: Rig) -> None:
    deployment_id, pod = await rig.running()
    for number in (1, 2):
        await rig.submit("voice", f"job-{number}")
    await rig.pick_up(deployment_id, pod, KEY)
    assert "worker is asked" in (await rig.terminate("job-1")).message
    assert "worker is asked" in (await rig.terminate("job-1")).message
    assert (await rig.terminate("job-2")).message == "Job job-2 is terminated."
    assert (await rig.terminate("job-2")).message == "Job job-2 is terminated."
    assert (await rig.status("job-2")).workload.HasField("cleaned_at")
    assert (await rig.status("job-1")).events_total == 3


async def test_terminating_within_a_session_finds_only_its_jobs(rig: Rig) -> None:
    await rig.running()
    await rig.submit("voice", "job-1", session="mine")
    rig.act_as()
    other = pb.TerminateWorkloadRequest(id="job-1", session="other")
    await refused(rig.service.workloads_rpc.TerminateWorkload(other, NO_CONTEXT), "WORKLOAD_MANAGEMENT_NOT_FOUND")
    own = pb.TerminateWorkloadRequest(id="job-1", session="mine")
    await rig.service.workloads_rpc.TerminateWorkload(own, NO_CONTEXT)
    assert await rig.state("job-1") == "terminated"


@pytest.mark.req("JB-013", "JB-015")
async def test_a_cleaned_up_job_runs_again_under_its_id_as_a_new_submission(rig: Rig) -> None:
    deployment_id, pod = await rig.running()
    await rig.submit("voice", "job-1", timeout=60.0)
    await refused(resubmit(rig, "job-1"), "WORKLOAD_MANAGEMENT_CONFLICT")
    await rig.pick_up(deployment_id, pod, KEY)
    await rig.report(deployment_id, pod, "job-1", KEY)
    assert "isn't cleaned up" in await refused(resubmit(rig, "job-1"), "WORKLOAD_MANAGEMENT_CONFLICT")
    await rig.clean_up(deployment_id, pod, "job-1", KEY)
    await rig.update("voice", image="acme/model:v2")
    await rig.reconcile(deployment_id)
    again = await resubmit(rig, "job-1")
    assert again.submission_revision == 1
    assert not again.HasField("claim_deadline_at"), "a missing timeout clears the old deadline"
    job = (await rig.status("job-1")).workload
    assert (job.claimed, job.submission_revision, job.deployment_id) == (False, 1, deployment_id)
    [new] = rig.cluster.seen_pods(deployment_id)
    offered = await rig.candidate(deployment_id, new)
    assert offered is not None
    assert (offered.submission_revision, offered.HasField("previous_execution_id")) == (1, False)
    await rig.claim(deployment_id, new, offered, execution(2))
    assert (await rig.get("voice")).jobs.terminal == 0


async def test_nothing_runs_again_on_a_deployment_that_is_deleted(rig: Rig) -> None:
    deployment_id, _ = await rig.running()
    await rig.submit("voice", "job-1")
    await finish(rig, deployment_id, "job-1", 1)
    await rig.delete("voice")
    await refused(resubmit(rig, "job-1"), "WORKLOAD_MANAGEMENT_CONFLICT")
    await rig.reconcile(deployment_id)
    await refused(resubmit(rig, "job-1"), "WORKLOAD_MANAGEMENT_CONFLICT")
    assert await rig.state("job-1") == "completed"


async def test_a_submission_is_observed_from_pending_to_claimed(rig: Rig) -> None:
    deployment_id, pod = await rig.running()
    await rig.submit("voice", "job-1", timeout=60.0)
    seen = await observe(rig, "job-1")
    assert (seen.outcome, seen.claimed) == (pb.SubmissionObservation.OUTCOME_PENDING, False)
    assert seen.claim_deadline_at == rig.clock.now_ms() + 60_000
    watching = asyncio.create_task(observe(rig, "job-1", wait_ms=20_000))
    await rig.clock.sleeping(1)
    await rig.pick_up(deployment_id, pod, KEY)
    seen = await watching
    assert (seen.outcome, seen.claimed) == (pb.SubmissionObservation.OUTCOME_CLAIMED, True)
    await rig.report(deployment_id, pod, "job-1", KEY, "RETRYABLE", "x")
    await rig.terminate("job-1")
    assert (await observe(rig, "job-1")).claimed, "the first claim stays on record"


async def test_an_observation_ends_at_its_wait_and_when_the_process_stops(rig: Rig) -> None:
    await rig.running()
    await rig.submit("voice", "job-1")
    watching = asyncio.create_task(observe(rig, "job-1", wait_ms=5_000))
    await rig.clock.sleeping(1)
    await rig.clock.advance(5)
    assert (await watching).outcome == pb.SubmissionObservation.OUTCOME_PENDING
    watching = asyncio.create_task(observe(rig, "job-1", wait_ms=20_000))
    await rig.clock.sleeping(1)
    rig.draining.begin()
    assert (await watching).outcome == pb.SubmissionObservation.OUTCOME_PENDING


async def test_an_overdue_submission_is_expired_by_whoever_looks_and_can_not_start_later(rig: Rig) -> None:
    deployment_id, pod = await rig.running()
    await rig.submit("voice", "job-1", timeout=0.25)
    watching = asyncio.create_task(observe(rig, "job-1", wait_ms=20_000))
    await rig.clock.sleeping(1)
    await rig.clock.advance(0.25)
    seen = await watching
    assert (seen.outcome, seen.claimed) == (pb.SubmissionObservation.OUTCOME_EXPIRED, False)
    assert await rig.state("job-1") == "terminated"
    assert (await rig.status("job-1")).events[0].metadata["reason"] == "claim-deadline-expired"
    assert await rig.candidate(deployment_id, pod) is None


async def test_nobody_has_to_look_for_a_submission_to_expire(rig: Rig) -> None:
    deployment_id, _ = await rig.running()
    for number, timeout in ((1, 1.0), (2, 3.0), (3, None)):
        await rig.submit("voice", f"job-{number}", timeout=timeout)
    await rig.clock.advance(1)
    outcome = await rig.judge(deployment_id)
    assert getattr(outcome, "after", None) == 2.0
    assert [await rig.state(f"job-{number}") for number in (1, 2, 3)] == ["terminated", "queued", "queued"]


async def test_a_claim_after_the_deadline_expires_the_submission(rig: Rig) -> None:
    deployment_id, pod = await rig.running()
    await rig.submit("voice", "job-1", timeout=1.0)
    offered = await rig.candidate(deployment_id, pod)
    assert offered is not None
    await rig.clock.advance(1)
    await refused(rig.claim(deployment_id, pod, offered, KEY), "WORKLOAD_CANDIDATE_STALE")
    assert (await observe(rig, "job-1")).outcome == pb.SubmissionObservation.OUTCOME_EXPIRED


async def test_an_observer_learns_of_termination_and_of_a_new_submission(rig: Rig) -> None:
    await rig.running()
    await rig.submit("voice", "job-1")
    watching = asyncio.create_task(observe(rig, "job-1", wait_ms=20_000))
    await rig.clock.sleeping(1)
    await rig.terminate("job-1")
    seen = await watching
    assert (seen.outcome, seen.claimed) == (pb.SubmissionObservation.OUTCOME_TERMINATED, False)
    await resubmit(rig, "job-1")
    seen = await observe(rig, "job-1")
    assert (seen.outcome, seen.submission_revision) == (pb.SubmissionObservation.OUTCOME_CHANGED, 1)


@pytest.mark.req("JB-017")
async def test_lists_show_the_newest_first_and_no_more_than_asked(rig: Rig) -> None:
    deployment_id, _ = await rig.running()
    other_id, _ = await rig.running("other")
    for number in range(6):
        await rig.submit("other" if number == 3 else "voice", f"job-{number}")
        await rig.clock.advance(1)
    await finish(rig, deployment_id, "job-0", 1)
    await finish(rig, other_id, "job-3", 2, "ERRORED")
    assert await listed(rig) == [f"job-{number}" for number in (5, 4, 3, 2, 1, 0)]
    assert await listed(rig, limit=2) == ["job-5", "job-4"]
    assert await listed(rig, deployment_id=deployment_id, limit=400) == ["job-5", "job-4", "job-2", "job-1", "job-0"]


async def test_lists_are_filtered(rig: Rig) -> None:
    deployment_id, _ = await rig.running()
    await rig.submit("voice", "job-1", session="s1", session_label="my label", agent="claude")
    await rig.clock.advance(1)
    later = rig.clock.now_ms()
    await rig.submit("voice", "job-2", session="s2")
    await finish(rig, deployment_id, "job-1", 1, "ERRORED")
    queued, terminal = states_pb2.WORKLOAD_STATE_QUEUED, pb.ListWorkloadsRequest.STATE_CLASS_TERMINAL
    assert await listed(rig, status=queued) == ["job-2"]
    assert await listed(rig, status=states_pb2.WORKLOAD_STATE_PROVISIONING) == []
    assert await listed(rig, state_class=terminal) == ["job-1"]
    assert await listed(rig, state_class=terminal, status=queued) == []
    assert await listed(rig, state_class=pb.ListWorkloadsRequest.STATE_CLASS_ACTIVE) == ["job-2"]
    assert await listed(rig, since_ms=later) == ["job-2"]
    assert await listed(rig, session="my label") == ["job-1"]
    assert await listed(rig, session_exact="my label") == []
    assert await listed(rig, session_exact="s1") == ["job-1"]
    assert await listed(rig, agent="claude") == ["job-1"]
    assert await listed(rig, user="alice") == ["job-2", "job-1"]
    assert await listed(rig, user="bob") == []
    assert await listed(rig, filter="WHY") == ["job-1"]
    assert await listed(rig, filter="%") == []
    assert await listed(rig, credential_name="aws") == []
    assert await listed(rig, workload_type=states_pb2.WORKLOAD_TYPE_VM) == []


async def test_a_list_says_whose_job_it_is_and_its_last_words(rig: Rig) -> None:
    deployment_id, _ = await rig.running()
    await rig.submit("voice", "job-1")
    await finish(rig, deployment_id, "job-1", 1, "ERRORED")
    rig.act_as("bob")
    answer = await rig.service.workloads_rpc.ListWorkloads(pb.ListWorkloadsRequest(), NO_CONTEXT)
    [one] = answer.workloads
    assert (one.is_owned_by_caller, one.latest_message) == (False, "why")
