"""The published client's workflows: `Client` and `AsyncClient`, which have to come to the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.contract.sdk import Judge
from tests.contract.world import World
from tests.support.installation import until

JOB = {"Client": "Job", "AsyncClient": "AsyncJob"}


@pytest.fixture(params=sorted(JOB))
def client(request: pytest.FixtureRequest, world: World, judge: Judge) -> str:
    """Kind and name of a client that is kept in the judge's process."""
    kind = str(request.param)
    judge.make(kind, kind, api_url=world.hosted.url, token=world.hosted.token).value(kind)
    return kind


@pytest.fixture
def ended(world: World) -> Iterator[list[str]]:
    """Ids of Jobs to end after the test."""
    names: list[str] = []
    yield names
    for name in names:
        world.hosted.call("DELETE", f"/workloads/{name}")


def run_next(worker: Judge, report: str, **words: str) -> str:
    """Takes a Job, gives it that outcome and cleans up; its id."""
    taken = worker.on("deployment", "next_job", keep="taken", timeout=15).value("CurrentJob")
    worker.on("taken", report, **words).value("NoneType")
    worker.on("taken", "cleanup").value("NoneType")
    return str(taken["jobId"])


def submit(judge: Judge, client: str, keep: str = "handle", **more: Any) -> Any:
    return judge.on(client, "submit", keep=keep, **more).value(JOB[client])


@pytest.mark.parametrize("kind", sorted(JOB))
def test_the_client_finds_the_api_that_the_command_line_uses(
    world: World, judge: Judge, parked: dict[str, Any], ended: list[str], kind: str
) -> None:
    world.installation.cli("api", "use", world.hosted.url)
    try:
        judge.make(kind, "found").value(kind)
        ended.append(judge.on("found", "submit", deployment="parked").value(JOB[kind])["id"])
    finally:
        world.installation.cli("api", "use", "local")
    assert world.hosted.ask("GET", f"/workloads/{ended[0]}")["workload"]["deploymentId"] == parked["id"]
    judge.make(kind, "found").value(kind)
    assert judge.on("found", "list_deployments").value("list") == []


def test_a_job_is_submitted_waited_for_and_completed(
    judge: Judge, worker: Judge, client: str, served: dict[str, Any], unique: Callable[[str], str]
) -> None:
    name = unique("job")
    handle = submit(judge, client, deployment="served", workload_id=name)
    assert (handle["id"], handle["revision"]) == (name, 0)
    status = judge.on("handle", "status").value("WorkloadStatusResponse")
    assert (status["workload"]["state"], status["workload"]["deploymentId"]) == ("queued", served["id"])
    assert run_next(worker, "complete") == name
    judge.on("handle", "wait_for_claim").value(JOB[client])
    done = judge.on("handle", "wait", timeout_seconds=10, poll_interval_seconds=0.1).value(JOB[client])
    assert done["state"] == "completed"


def test_a_submission_that_waits_returns_with_the_claim(
    judge: Judge, worker: Judge, client: str, served: dict[str, Any]
) -> None:
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(submit, judge, client, deployment=served["id"], wait=True, timeout=60)
        job = run_next(worker, "complete")
        handle = waiting.result(20)
    assert handle["id"] == job
    assert handle["submission"]["claimDeadlineAt"] is not None


@pytest.mark.parametrize(("report", "state"), [("error", "errored"), ("invalid", "invalid")])
def test_waiting_for_a_job_that_fails_tells_how(
    judge: Judge, worker: Judge, client: str, served: dict[str, Any], report: str, state: str
) -> None:
    submit(judge, client, deployment=served["id"])
    run_next(worker, report, message="broken")
    told = judge.on("handle", "wait", timeout_seconds=10, poll_interval_seconds=0.1).raised("JobFailedError")
    assert told["state"] == state


def test_waiting_ends_by_itself_and_ends_nothing(
    world: World, judge: Judge, client: str, parked: dict[str, Any], ended: list[str]
) -> None:
    ended.append(submit(judge, client, deployment=parked["id"])["id"])
    judge.on("handle", "wait", timeout_seconds=0.5, poll_interval_seconds=0.1).raised("WorkloadWaitTimeout")
    assert world.hosted.ask("GET", f"/workloads/{ended[0]}")["workload"]["state"] == "queued"


def test_a_submission_that_nobody_claims_expires(
    world: World, judge: Judge, client: str, parked: dict[str, Any]
) -> None:
    told = judge.on(client, "submit", deployment=parked["id"], timeout=0.5, wait=True).raised("JobSubmissionExpired")
    assert told["job"]["submission"]["claimDeadlineAt"] is not None
    assert world.hosted.ask("GET", f"/workloads/{told['job']['id']}")["workload"]["state"] == "terminated"


def test_a_submission_that_is_terminated_before_its_claim(judge: Judge, client: str, parked: dict[str, Any]) -> None:
    submit(judge, client, deployment=parked["id"])
    judge.on("handle", "terminate").value("MessageResponse")
    judge.on("handle", "wait_for_claim").raised("JobSubmissionTerminated")
    assert judge.on("handle", "wait", timeout_seconds=5).raised("JobFailedError")["state"] == "terminated"


def test_an_older_handle_hears_of_the_newer_submission(
    judge: Judge, client: str, parked: dict[str, Any], ended: list[str]
) -> None:
    ended.append(submit(judge, client, keep="older", deployment=parked["id"])["id"])
    judge.on("older", "terminate").value("MessageResponse")
    judge.on(client, "get", keep="newer", workload_id=ended[0]).value(JOB[client])
    receipt = judge.on("newer", "resubmit", timeout=60).value("WorkloadResubmitResponse")
    assert receipt["submissionRevision"] == 1
    assert receipt["claimDeadlineAt"] is not None
    judge.on("older", "wait_for_claim").raised("JobSubmissionChanged")


@pytest.mark.req("JB-013")
def test_a_finished_job_is_resubmitted_and_runs_again(
    world: World, judge: Judge, worker: Judge, client: str, served: dict[str, Any]
) -> None:
    job = submit(judge, client, deployment=served["id"])["id"]
    run_next(worker, "error", message="once more")
    with ThreadPoolExecutor(1) as thread:
        resubmitted = thread.submit(judge.on, "handle", "resubmit", timeout=30, wait=True)
        assert run_next(worker, "complete") == job
        assert resubmitted.result(20).value("WorkloadResubmitResponse")["submissionRevision"] == 1
    assert judge.on("handle", "wait", timeout_seconds=10).value(JOB[client])["state"] == "completed"
    workload = world.hosted.ask("GET", f"/workloads/{job}")["workload"]
    assert (workload["submissionRevision"], workload["deploymentId"]) == (1, served["id"])


def test_a_job_that_runs_is_not_resubmitted(
    world: World, judge: Judge, worker: Judge, client: str, served: dict[str, Any]
) -> None:
    submit(judge, client, deployment=served["id"])
    worker.on("deployment", "next_job", keep="taken", timeout=10).value("CurrentJob")
    judge.on("handle", "resubmit").refused(409, "WORKLOAD_MANAGEMENT_CONFLICT")
    worker.on("taken", "complete").value("NoneType")
    judge.on("handle", "resubmit").refused(409, "WORKLOAD_MANAGEMENT_CONFLICT")  # not cleaned up yet
    worker.on("taken", "cleanup").value("NoneType")


def test_a_refused_submission_is_surely_not_admitted(
    judge: Judge, client: str, parked: dict[str, Any], ended: list[str], unique: Callable[[str], str]
) -> None:
    judge.on(client, "submit", deployment="nope").refused(400, "WORKLOAD_ADMISSION_REJECTED")
    judge.on(client, "submit", image="busybox", gpu=["T4", "A100"], env={}, command=[]).refused(
        400, "WORKLOAD_ADMISSION_REJECTED"
    )
    name = unique("job")
    ended.append(submit(judge, client, deployment=parked["id"], workload_id=name)["id"])
    judge.on(client, "submit", deployment=parked["id"], workload_id=name, timeout=9).refused(
        409, "WORKLOAD_ID_CONFLICT"
    )


def test_a_handle_of_a_job_that_there_is_not(judge: Judge, client: str) -> None:
    judge.on(client, "get", workload_id="nope").refused(404, "WORKLOAD_MANAGEMENT_NOT_FOUND")


def test_deployments_are_made_changed_and_deleted(
    world: World, judge: Judge, client: str, unique: Callable[[str], str]
) -> None:
    name = unique("flow")
    image = world.register_image("contract/flow:1")
    made = judge.on(
        client,
        "create_deployment",
        name=name,
        image=image,
        node_pool="pool",
        command=["serve"],
        env={"A": "1"},
        docker_options={"memory": "64m", "shm_size": "8m"},
        max_concurrent_jobs_per_replica=2,
        readiness_probe={"exec": {"command": ["true"]}, "periodSeconds": 1},
    ).value("DeploymentSummary")
    assert (made["command"], made["envKeys"], made["maxConcurrentJobsPerReplica"]) == (["serve"], ["A"], 2)
    assert made["readinessProbe"] == {"exec": {"command": ["true"]}, "periodSeconds": 1}
    changed = judge.on(
        client,
        "update_deployment",
        deployment=name,
        command=None,
        env=None,
        docker_options={"memory": None},
        readiness_probe=None,
    ).value("DeploymentSummary")
    assert (changed["command"], changed["envKeys"], changed["readinessProbe"]) == (None, [], None)
    assert changed["generation"] == 2
    listed = judge.on(client, "list_deployments", node_pool="pool").value("list")
    assert name in [one["name"] for one in listed]
    assert judge.on(client, "get_deployment", identifier=name).value("DeploymentSummary")["id"] == made["id"]
    gone = judge.on(client, "delete_deployment", deployment=made["id"]).value("DeploymentSummary")
    assert gone["deletionRequestedAt"] is not None
    until(lambda: world.hosted.ask("GET", f"/deployments/{made['id']}")["deployment"]["deletedAt"], 60)
