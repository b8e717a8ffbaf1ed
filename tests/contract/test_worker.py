"""The published client inside a container: `current_deployment()` with the token that the container really has."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.contract.sdk import Judge, kept
from tests.contract.world import Api, World

UUID = "00000000-0000-4000-8000-00000000000{}"


@pytest.fixture
def submit(world: World, served: dict[str, Any], unique: Callable[[str], str]) -> Iterator[Callable[[], str]]:
    """Sends a Job to the Deployment that `worker` is in; what is left of it at the end is ended."""
    names: list[str] = []

    def send() -> str:
        names.append(unique("job"))
        world.hosted.ask("POST", "/workloads", {"deployment": served["id"], "id": names[-1]})
        return names[-1]

    yield send
    container = world.worker(served)
    for name in names:
        world.hosted.ask("DELETE", f"/workloads/{name}")
        for execution in executions(world.hosted, name):
            container.call("POST", f"/deployments/{served['id']}/jobs/{name}/cleanup", {"executionId": execution})


def executions(api: Api, job: str) -> list[str]:
    sql = f"SELECT execution_id FROM deployment_job WHERE id = '{job}' AND execution_id IS NOT NULL"
    return [row["execution_id"] for row in api.ask("POST", "/database/queries", {"sql": sql})["rows"]]


def take(worker: Judge, job: str) -> dict[str, Any]:
    """Claims the next Job, which has to be this one."""
    taken = worker.on("deployment", "next_job", keep="job", timeout=10).value("CurrentJob")
    assert taken["jobId"] == job
    return dict(taken)


def state(api: Api, job: str) -> tuple[str, bool]:
    """State, and whether it is cleaned up."""
    workload = api.ask("GET", f"/workloads/{job}")["workload"]
    return workload["state"], "cleanedAt" in workload


def test_a_container_is_told_where_it_is(world: World, served: dict[str, Any]) -> None:
    told = world.worker_environment(served)
    assert told["ANYCLOUD_API_URL"] == world.hosted.url
    assert told["ANYCLOUD_DEPLOYMENT_ID"] == served["id"]
    assert Path(told["ANYCLOUD_WORKLOAD_TOKEN_FILE"]).read_text().count(".") == 2


def test_a_job_is_taken_completed_and_cleaned_up(world: World, worker: Judge, submit: Callable[[], str]) -> None:
    job = submit()
    selected = take(worker, job)
    status = world.hosted.ask("GET", f"/workloads/{job}")
    assert (status["status"], status["workload"]["state"], status["workload"]["claimed"]) == ("up", "running", True)
    worker.on("job", "complete").value("NoneType")
    worker.on("job", "complete").value("NoneType")
    assert state(world.hosted, job) == ("completed", False)
    worker.on("job", "cleanup").value("NoneType")
    worker.on("job", "cleanup").value("NoneType")
    assert state(world.hosted, job) == ("completed", True)
    worker.on("job", "complete").value("NoneType")
    assert selected["executionId"] not in executions(world.hosted, job)


@pytest.mark.parametrize(("report", "ends"), [("error", "errored"), ("invalid", "invalid")])
def test_a_job_ends_as_its_worker_says_with_the_workers_words(
    world: World, worker: Judge, submit: Callable[[], str], report: str, ends: str
) -> None:
    job = submit()
    take(worker, job)
    worker.on("job", report, message="the input is №1 of none").value("NoneType")
    worker.on("job", "cleanup").value("NoneType")
    assert state(world.hosted, job) == (ends, True)
    [listed] = world.hosted.ask("GET", f"/workloads?filter={job}")
    assert listed["latestMessage"] == "the input is №1 of none"


@pytest.mark.parametrize("length", [1, 4096])
def test_an_outcomes_message_has_up_to_4096_characters(worker: Judge, submit: Callable[[], str], length: int) -> None:
    take(worker, submit())
    worker.on("job", "error", message="ä" * length).value("NoneType")
    worker.on("job", "cleanup").value("NoneType")


def test_a_job_that_is_to_be_retried_is_taken_again_under_another_execution(
    world: World, worker: Judge, submit: Callable[[], str]
) -> None:
    job = submit()
    first = take(worker, job)
    worker.on("job", "retry", message="not now").value("NoneType")
    worker.on("job", "cleanup").value("NoneType")
    assert state(world.hosted, job)[0] in ("retrying", "queued")
    second = take(worker, job)
    assert second["executionId"] != first["executionId"]
    worker.on("job", "complete").value("NoneType")
    worker.on("job", "cleanup").value("NoneType")
    assert state(world.hosted, job) == ("completed", True)


def test_without_a_job_nothing_is_taken(worker: Judge) -> None:
    worker.on("deployment", "next_job", timeout=0).value("NoneType")
    began = time.monotonic()
    worker.on("deployment", "next_job", timeout=1).value("NoneType")
    assert time.monotonic() - began > 0.9


def test_a_waiting_worker_has_a_new_job_at_once(worker: Judge, submit: Callable[[], str]) -> None:
    with ThreadPoolExecutor(1) as thread:
        taking = thread.submit(worker.on, "deployment", "next_job", keep="job", timeout=15)
        time.sleep(0.3)  # so that it waits; sooner or later, the answer has to be the same
        began = time.monotonic()
        job = submit()
        assert taking.result(20).value("CurrentJob")["jobId"] == job
    assert time.monotonic() - began < 3
    worker.on("job", "complete").value("NoneType")
    worker.on("job", "cleanup").value("NoneType")


def test_a_held_question_hears_of_the_cancellation(world: World, worker: Judge, submit: Callable[[], str]) -> None:
    job = submit()
    take(worker, job)
    assert worker.on("job", "cancellation_requested").value("bool") is False
    with ThreadPoolExecutor(1) as thread:
        held = thread.submit(worker.on, "job", "cancellation_requested", timeout=15)
        time.sleep(0.3)
        began = time.monotonic()
        world.hosted.ask("DELETE", f"/workloads/{job}")
        assert held.result(20).value("bool") is True
    assert time.monotonic() - began < 3
    assert worker.on("job", "cancellation_requested", timeout=5).value("bool") is True
    worker.on("job", "cleanup").value("NoneType")
    assert state(world.hosted, job) == ("terminated", True)
    assert worker.on("job", "cancellation_requested").value("bool") is True


def test_a_question_about_cancellation_ends_with_the_execution(
    worker: Judge, world: World, served: dict[str, Any], submit: Callable[[], str]
) -> None:
    job = submit()
    execution = take(worker, job)["executionId"]
    container = world.worker(served)
    jobs = f"/deployments/{served['id']}/jobs/{job}"
    with ThreadPoolExecutor(1) as thread:
        held = thread.submit(container.call, "GET", f"{jobs}/cancellation?executionId={execution}&waitMs=15000")
        time.sleep(0.3)
        began = time.monotonic()
        worker.on("job", "complete").value("NoneType")
        assert held.result(20).json() == {"cancelled": False}
    assert time.monotonic() - began < 3
    worker.on("job", "cleanup").value("NoneType")


@pytest.mark.parametrize("leaving", ["closes its connection", "says no more"])
def test_a_job_that_was_offered_to_a_caller_who_left_is_offered_to_the_next(
    world: World, worker: Judge, served: dict[str, Any], submit: Callable[[], str], leaving: str
) -> None:
    container = world.worker(served)
    url = httpx.URL(container.url)
    lines = [
        f"GET /v1/deployments/{served['id']}/jobs/candidate?waitMs=20000 HTTP/1.1",
        f"host: {url.netloc.decode()}",
        f"authorization: Bearer {container.token}",
    ]
    with socket.create_connection((url.host, url.port), timeout=20) as connected:
        connected.sendall("\r\n".join([*lines, "", ""]).encode())
        time.sleep(0.3)  # so that it is held
        if leaving == "says no more":
            connected.shutdown(socket.SHUT_WR)
        else:
            connected.close()
        job = submit()
        take(worker, job)
    worker.on("job", "complete").value("NoneType")
    worker.on("job", "cleanup").value("NoneType")


@pytest.mark.req("JB-005")
def test_a_container_has_as_many_jobs_as_slots_until_it_has_cleaned_up(
    worker: Judge, served: dict[str, Any], submit: Callable[[], str]
) -> None:
    jobs = [submit() for _ in range(served["maxConcurrentJobsPerReplica"] + 1)]
    for number, job in enumerate(jobs[:-1]):
        taken = worker.on("deployment", "next_job", keep=f"job{number}", timeout=10).value("CurrentJob")
        assert taken["jobId"] == job
    worker.on("deployment", "next_job", timeout=1).value("NoneType")
    worker.on("job0", "complete").value("NoneType")
    worker.on("deployment", "next_job", timeout=1).value("NoneType")
    worker.on("job0", "cleanup").value("NoneType")
    take(worker, jobs[-1])
    for name in ("job1", "job2", "job3", "job"):
        worker.on("deployment", "outcome", job=kept(name), outcome="completed").value("NoneType")
        worker.on("deployment", "cleanup", job=kept(name)).value("NoneType")


def test_a_stale_candidate_is_passed_over_for_the_next(
    world: World, worker: Judge, served: dict[str, Any], submit: Callable[[], str]
) -> None:
    first, second = submit(), submit()
    candidate = {"submissionRevision": 0, "previousExecutionId": None}
    world.hosted.ask("DELETE", f"/workloads/{first}")
    stale = worker.operation(
        world.worker(served),
        "claim_deployment_job",
        deployment_id=served["id"],
        job_id=first,
        idempotency_key=UUID.format(1),
        workload_claim_job_body=candidate,
    )
    stale.refused(409, "WORKLOAD_CANDIDATE_STALE")
    take(worker, second)
    worker.on("job", "complete").value("NoneType")
    worker.on("job", "cleanup").value("NoneType")


def claim(worker: Judge, api: Api, home: str, job: str, key: str, **changed: Any) -> Any:
    body = {"submissionRevision": 0, "previousExecutionId": None, **changed}
    names = {"deployment_id": home, "job_id": job, "idempotency_key": key}
    return worker.operation(api, "claim_deployment_job", **names, workload_claim_job_body=body)


def test_a_repeated_claim_is_the_same_claim_and_its_key_is_no_other_claims(
    world: World, worker: Judge, served: dict[str, Any], submit: Callable[[], str]
) -> None:
    api, home = world.worker(served), served["id"]
    job, other = submit(), submit()
    key = UUID.format(2)
    selected = {"jobId": job, "executionId": key}
    assert claim(worker, api, home, job, key).value("SelectedJob", 200) == selected
    assert claim(worker, api, home, job, key).value("SelectedJob", 200) == selected
    claim(worker, api, home, other, key).refused(409, "WORKLOAD_EXECUTION_USED")
    claim(worker, api, home, job, UUID.format(3)).refused(409, "WORKLOAD_CANDIDATE_STALE")
    claim(worker, api, home, other, UUID.format(3), submissionRevision=1).refused(409, "WORKLOAD_CANDIDATE_STALE")
    claim(worker, api, home, other, UUID.format(3), previousExecutionId=key).refused(409, "WORKLOAD_CANDIDATE_STALE")


def test_a_claim_of_an_older_submission_is_stale(
    world: World, worker: Judge, served: dict[str, Any], submit: Callable[[], str]
) -> None:
    job = submit()
    world.hosted.ask("DELETE", f"/workloads/{job}")
    world.hosted.ask("POST", f"/workloads/{job}/resubmissions", {})
    api, home = world.worker(served), served["id"]
    claim(worker, api, home, job, UUID.format(4)).refused(409, "WORKLOAD_CANDIDATE_STALE")
    claim(worker, api, home, job, UUID.format(4), submissionRevision=1).value("SelectedJob", 200)


def test_what_does_not_fit_the_execution_is_a_conflict(worker: Judge, submit: Callable[[], str]) -> None:
    take(worker, submit())
    worker.on("job", "complete").value("NoneType")
    told = worker.on("job", "error", message="no, it failed")
    told.refused(409, "WORKLOAD_CONFLICT")
    worker.on("job", "cleanup").value("NoneType")
    worker.on("job", "error", message="no, it failed").refused(409, "WORKLOAD_CONFLICT")


def test_cleanup_before_the_end_is_a_conflict(worker: Judge, submit: Callable[[], str]) -> None:
    take(worker, submit())
    worker.on("job", "cleanup").refused(409, "WORKLOAD_CONFLICT")
    worker.on("job", "complete").value("NoneType")
    worker.on("job", "cleanup").value("NoneType")


@pytest.mark.parametrize(
    ("operation", "more"),
    [
        (
            "report_deployment_job_outcome",
            {"workload_outcome_body": {"executionId": UUID.format(9), "outcome": "completed"}},
        ),
        ("cleanup_deployment_job", {"workload_cleanup_body": {"executionId": UUID.format(9)}}),
        ("get_deployment_job_cancellation", {"execution_id": UUID.format(9)}),
    ],
)
def test_a_job_or_an_execution_that_there_is_not(
    world: World,
    worker: Judge,
    served: dict[str, Any],
    submit: Callable[[], str],
    operation: str,
    more: dict[str, Any],
) -> None:
    api = world.worker(served)
    for job in ("nope", submit()):
        worker.operation(api, operation, deployment_id=served["id"], job_id=job, **more).refused(
            404, "WORKLOAD_NOT_FOUND"
        )


def test_another_deployments_jobs_are_not_found(
    world: World, worker: Judge, served: dict[str, Any], parked: dict[str, Any]
) -> None:
    job = world.hosted.ask("POST", "/workloads", {"deployment": parked["id"]})["id"]
    claim(worker, world.worker(served), served["id"], job, UUID.format(5)).refused(404, "WORKLOAD_NOT_FOUND")
    world.hosted.ask("DELETE", f"/workloads/{job}")


def test_a_token_of_another_deployments_pod_is_forbidden(
    world: World, worker: Judge, served: dict[str, Any], parked: dict[str, Any]
) -> None:
    api = world.worker(parked)
    worker.operation(api, "discover_deployment_job_candidate", deployment_id=served["id"], wait_ms=0).refused(
        403, "WORKLOAD_FORBIDDEN"
    )
    claim(worker, api, served["id"], "any", UUID.format(6)).refused(403, "WORKLOAD_FORBIDDEN")


def test_a_deployment_that_there_is_not(world: World, worker: Judge, served: dict[str, Any]) -> None:
    worker.operation(
        world.worker(served), "discover_deployment_job_candidate", deployment_id="dep-nope", wait_ms=0
    ).refused(404, "WORKLOAD_NOT_FOUND")


def test_a_token_that_the_cluster_did_not_sign_is_unauthorized(
    world: World, worker: Judge, served: dict[str, Any], tmp_path: Path
) -> None:
    real = world.worker(served).token
    forged = real[:-4] + ("AAAA" if real[-4:] != "AAAA" else "BBBB")
    file = tmp_path / "token"
    file.write_text(forged)
    environment = {**world.worker_environment(served), "ANYCLOUD_WORKLOAD_TOKEN_FILE": str(file)}
    worker.make("current_deployment", "forged", environment)
    worker.on("forged", "next_job", timeout=0).refused(401, "WORKLOAD_UNAUTHORIZED")
    file.write_text(real + "\n")  # a rotated token is read from its file before each attempt
    worker.on("forged", "next_job", timeout=0).value("NoneType")


def test_a_wrong_path_of_the_api_is_an_error_and_no_silence(
    world: World, worker: Judge, served: dict[str, Any]
) -> None:
    environment = {**world.worker_environment(served), "ANYCLOUD_API_URL": world.hosted.url + "/v1"}
    worker.make("current_deployment", "lost", environment)
    worker.on("lost", "next_job", timeout=0).raised("NotFoundException")
