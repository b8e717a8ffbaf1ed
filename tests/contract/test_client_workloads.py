"""The published client on Jobs, one operation after the other; the handles built on these are in test_workflows.py."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.contract.sdk import Judge
from tests.contract.world import Api, World
from tests.support.installation import until

MANAGED = ("get_workload_status", "terminate_workload", "resubmit_workload", "observe_job_submission")
BODIES: dict[str, Any] = {
    "resubmit_workload": {"workload_resubmit_body": {}},
    "observe_job_submission": {"job_submission_observation_body": {"submissionRevision": 0}},
}


@pytest.fixture
def job(world: World, parked: dict[str, Any], unique: Callable[[str], str]) -> Iterator[str]:
    """A Job that waits in `parked`, and ends with the test."""
    name = unique("job")
    world.hosted.ask("POST", "/workloads", {"deployment": parked["id"], "id": name, "agent": "tester", "session": "s1"})
    yield name
    world.hosted.call("DELETE", f"/workloads/{name}")


def submit(judge: Judge, api: Api, **body: Any) -> Any:
    return judge.operation(api, "submit_workload", workload_admission_input=body)


@pytest.mark.parametrize("reference", ["id", "name"])
def test_a_job_is_admitted_with_its_revision_and_deadline(
    world: World, judge: Judge, parked: dict[str, Any], unique: Callable[[str], str], reference: str
) -> None:
    name = unique("job")
    before = time.time() * 1000
    taken = submit(judge, world.hosted, deployment=parked[reference], id=name, timeout=0.25).value(
        "WorkloadAdmissionResponse", 202
    )
    assert (taken["id"], taken["submissionRevision"]) == (name, 0)
    assert 0 <= taken["claimDeadlineAt"] - before - 250 < 5000
    chosen = submit(judge, world.hosted, deployment=parked[reference]).value("WorkloadAdmissionResponse", 202)
    assert chosen["id"].startswith("job-")
    assert chosen["claimDeadlineAt"] is None
    judge.operation(world.hosted, "terminate_workload", id=chosen["id"]).value("MessageResponse", 202)


@pytest.mark.parametrize("timeout", [0, 5, 0.25, 2147483648.0, 9007199254740.99])
def test_a_timeout_is_any_number_of_seconds(
    world: World, judge: Judge, parked: dict[str, Any], unique: Callable[[str], str], timeout: float
) -> None:
    taken = submit(judge, world.hosted, deployment=parked["id"], id=unique("job"), timeout=timeout).value(
        "WorkloadAdmissionResponse", 202
    )
    assert 0 < taken["claimDeadlineAt"] <= 2**53
    judge.operation(world.hosted, "terminate_workload", id=taken["id"]).value("MessageResponse", 202)


def test_the_same_submission_twice_is_one_job_and_another_one_a_conflict(
    world: World, judge: Judge, parked: dict[str, Any], unique: Callable[[str], str]
) -> None:
    body = {"deployment": parked["id"], "id": unique("job"), "timeout": 60}
    first = submit(judge, world.hosted, **body).value("WorkloadAdmissionResponse", 202)
    assert submit(judge, world.hosted, **body).value("WorkloadAdmissionResponse", 202) == first
    submit(judge, world.hosted, **{**body, "timeout": 61}).refused(409, "WORKLOAD_ID_CONFLICT")
    judge.operation(world.hosted, "terminate_workload", id=body["id"]).value("MessageResponse", 202)
    listed = judge.operation(world.hosted, "list_workloads", filter=body["id"]).value("list", 200)
    assert len(listed) == 1


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"deployment": "nope"}, "nope"),
        ({"deployment": "parked", "id": "-starts-with-a-dash"}, "-starts-with-a-dash"),
        ({"deployment": "parked", "nodes": 2}, "nodes"),
        ({"deployment": "parked", "launch": "distributed"}, "launch"),
        ({"deployment": "parked", "gpusPerNode": 1}, "gpusPerNode"),
        ({"deployment": "parked", "resumable": True}, "resumable"),
        ({"deployment": "parked", "timeLimit": 5}, "timeLimit"),
        ({"deployment": "parked", "mounts": [{"name": "state", "path": "/x"}]}, "mounts"),
        ({"image": "busybox", "cloudConfig": {}, "workloadType": "job"}, "nodePool"),
        ({"image": "busybox", "cloudConfig": {"vmType": ["a", "b"], "spot": True, "diskSizeGb": 0.5}}, "nodePool"),
    ],
    ids=str,
)
def test_a_job_that_cannot_run_is_not_admitted(
    hosted: Api, judge: Judge, parked: dict[str, Any], body: dict[str, Any], says: str
) -> None:
    assert says in submit(judge, hosted, **body).refused(400, "WORKLOAD_ADMISSION_REJECTED")["message"]


@pytest.mark.req("JB-016")
def test_status_of_a_waiting_job(world: World, judge: Judge, parked: dict[str, Any], job: str) -> None:
    for more in ({}, {"verbose": "true"}, {"events_limit": "1"}):
        status = judge.operation(world.hosted, "get_workload_status", id=job, **more).value(
            "WorkloadStatusResponse", 200
        )
        workload = status["workload"]
        assert (workload["id"], workload["state"], workload["workloadType"]) == (job, "queued", "job")
        assert (workload["deploymentId"], workload["nodePoolId"]) == (parked["id"], world.pool["id"])
        assert (workload["agent"], workload["session"]) == ("tester", "s1")
        assert all(workload[key] is None for key in ("image", "command", "dockerOptions", "secretNames"))
        assert (status["status"], status["eventsTotal"]) == ("-", 1)
        assert status["jobsAhead"] >= 0
        assert [event["state"] for event in status["events"]] == ["queued"]


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ({}, True),
        ({"limit": "400"}, True),
        ({"session": "s1"}, True),
        ({"session_exact": "s1"}, True),
        ({"session_exact": "s"}, False),
        ({"agent": "tester"}, True),
        ({"agent": "nobody"}, False),
        ({"user": "nobody"}, False),
        ({"since_ms": "0"}, True),
        ({"since_ms": "9007199254740991"}, False),
        ({"state_class": "active"}, True),
        ({"state_class": "terminal"}, False),
        ({"status": "queued"}, True),
        ({"status": "running"}, False),
        ({"workload_type": "job"}, True),
        ({"workload_type": "vm"}, False),
        ({"credential_name": "aws"}, False),
        ({"deployment_id": "nope"}, False),
    ],
    ids=str,
)
def test_jobs_are_listed_by_what_is_asked_for(
    world: World, judge: Judge, job: str, question: dict[str, str], found: bool
) -> None:
    listed = judge.operation(world.hosted, "list_workloads", **question).value("list", 200)
    assert (job in [one["id"] for one in listed]) is found
    assert all(one["isOwnedByCaller"] for one in listed)


def test_jobs_of_a_deployment_are_listed_newest_first_up_to_a_limit(
    world: World, judge: Judge, parked: dict[str, Any], unique: Callable[[str], str]
) -> None:
    ids = [unique("job") for _ in range(3)]
    for one in ids:
        submit(judge, world.hosted, deployment=parked["id"], id=one).value("WorkloadAdmissionResponse", 202)
    listed = judge.operation(world.hosted, "list_workloads", deployment_id=parked["id"], limit="3").value("list", 200)
    assert [one["id"] for one in listed] == ids[::-1]

    def between() -> bool:
        first, third = (world.hosted.ask("GET", f"/workloads/{one}")["jobsAhead"] for one in (ids[0], ids[2]))
        return bool(third == first + 2)

    until(between, 5)  # others may leave the queue between the two looks
    for one in ids:
        judge.operation(world.hosted, "terminate_workload", id=one).value("MessageResponse", 202)


@pytest.mark.parametrize(
    "question",
    [
        {"limit": "0"},
        {"limit": "1001"},
        {"limit": "many"},
        {"since_ms": "-1"},
        {"since_ms": "2026-01-01"},
        {"state_class": "Active"},
        {"status": "RUNNING"},
        {"workload_type": "Job"},
    ],
    ids=str,
)
def test_a_list_with_an_unusable_question(hosted: Api, judge: Judge, question: dict[str, str]) -> None:
    [name] = question
    first, *rest = name.split("_")
    error = judge.operation(hosted, "list_workloads", **question).refused(400, "WORKLOAD_MANAGEMENT_REQUEST_INVALID")
    assert first + "".join(map(str.capitalize, rest)) in error["message"]


@pytest.mark.req("JB-013")
def test_a_waiting_job_is_terminated_and_resubmitted_under_its_id(world: World, judge: Judge, job: str) -> None:
    def observed(revision: int) -> dict[str, Any]:
        body = {"submissionRevision": revision, "waitMs": 0}
        answer = judge.operation(world.hosted, "observe_job_submission", id=job, job_submission_observation_body=body)
        return dict(answer.value("JobSubmissionObservation", 200))

    assert observed(0) == {"outcome": "pending", "claimed": False, "submissionRevision": 0, "claimDeadlineAt": None}
    judge.operation(world.hosted, "resubmit_workload", id=job, workload_resubmit_body={}).refused(
        409, "WORKLOAD_MANAGEMENT_CONFLICT"
    )
    judge.operation(world.hosted, "terminate_workload", id=job).value("MessageResponse", 202)
    judge.operation(world.hosted, "terminate_workload", id=job, session="s1").value("MessageResponse", 202)
    assert observed(0)["outcome"] == "terminated"
    again = judge.operation(world.hosted, "resubmit_workload", id=job, workload_resubmit_body={"timeout": 60}).value(
        "WorkloadResubmitResponse", 202
    )
    assert again["submissionRevision"] == 1
    assert again["claimDeadlineAt"] is not None
    assert observed(0)["outcome"] == "changed"
    assert observed(1)["outcome"] == "pending"
    status = judge.operation(world.hosted, "get_workload_status", id=job).value("WorkloadStatusResponse", 200)
    assert (status["workload"]["submissionRevision"], status["workload"]["state"]) == (1, "queued")


def test_an_observation_turns_an_overdue_submission_into_an_expired_one(
    world: World, judge: Judge, parked: dict[str, Any], unique: Callable[[str], str]
) -> None:
    name = unique("job")
    submit(judge, world.hosted, deployment=parked["id"], id=name, timeout=0.3).value("WorkloadAdmissionResponse", 202)
    began = time.monotonic()
    body = {"submissionRevision": 0, "waitMs": 20000}
    seen = judge.operation(world.hosted, "observe_job_submission", id=name, job_submission_observation_body=body).value(
        "JobSubmissionObservation", 200
    )
    assert (seen["outcome"], seen["claimed"]) == ("expired", False)
    assert time.monotonic() - began < 5
    status = judge.operation(world.hosted, "get_workload_status", id=name).value("WorkloadStatusResponse", 200)
    assert (status["status"], status["workload"]["state"]) == ("down", "terminated")


def test_a_held_observation_ends_with_the_submission(world: World, judge: Judge, job: str) -> None:
    body = {"submissionRevision": 0, "waitMs": 20000}
    with ThreadPoolExecutor(1) as thread:
        held = thread.submit(
            judge.operation, world.hosted, "observe_job_submission", id=job, job_submission_observation_body=body
        )
        time.sleep(0.3)  # so that it is held; sooner or later, the answer has to be the same
        began = time.monotonic()
        world.hosted.ask("DELETE", f"/workloads/{job}")
        assert held.result(20).value("JobSubmissionObservation", 200)["outcome"] == "terminated"
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("operation", MANAGED)
def test_a_job_that_there_is_not(hosted: Api, judge: Judge, operation: str) -> None:
    judge.operation(hosted, operation, id="no/such job", **BODIES.get(operation, {})).refused(
        404, "WORKLOAD_MANAGEMENT_NOT_FOUND"
    )


def test_another_session_does_not_find_the_job(hosted: Api, judge: Judge, job: str) -> None:
    judge.operation(hosted, "terminate_workload", id=job, session="s2").refused(404, "WORKLOAD_MANAGEMENT_NOT_FOUND")


def test_a_question_about_events_has_its_bounds(hosted: Api, judge: Judge, job: str) -> None:
    for limit in ("0", "1001", "all"):
        error = judge.operation(hosted, "get_workload_status", id=job, events_limit=limit).refused(
            400, "WORKLOAD_MANAGEMENT_REQUEST_INVALID"
        )
        assert "eventsLimit" in error["message"]


@pytest.mark.req("JB-011")
def test_a_deployment_that_is_being_deleted_ends_its_queue_and_takes_no_more(
    world: World, judge: Judge, unique: Callable[[str], str]
) -> None:
    body = {"name": unique("leaving"), "image": world.register_image("contract/plain:1"), "nodePool": "pool"}
    home = world.hosted.ask("POST", "/deployments", body)["deployment"]["id"]
    name = submit(judge, world.hosted, deployment=home).value("WorkloadAdmissionResponse", 202)["id"]
    judge.operation(world.hosted, "delete_deployment", id=home).value("DeploymentResponse", 202)
    status = judge.operation(world.hosted, "get_workload_status", id=name).value("WorkloadStatusResponse", 200)
    assert status["workload"]["state"] == "terminated"
    submit(judge, world.hosted, deployment=home).refused(400, "WORKLOAD_ADMISSION_REJECTED")
    judge.operation(world.hosted, "resubmit_workload", id=name, workload_resubmit_body={}).refused(
        409, "WORKLOAD_MANAGEMENT_CONFLICT"
    )
