"""The published client on Jobs that bring their own image: they are workloads like the others, on a node pool."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.contract.sdk import Judge
from tests.contract.world import Api, World
from tests.support.installation import until

SLEEPING: dict[str, Any] = {
    "reference": "contract/sleeps:1",
    "manifest": {"accelerator": "none", "env": {}, "command": ["/bin/sleep", "1000"], "labels": {}},
}
JOB = {"Client": "Job", "AsyncClient": "AsyncJob"}


@pytest.fixture
def image(world: World) -> str:
    """An image whose container says what it is given, and ends with the code that its second word is."""
    manifest = {"accelerator": "none", "env": {}, "command": ["/bin/sh", "-c", 'echo "$A:$1"; exit "$2"', "sh"]}
    body = {"reference": "contract/batch:1", "manifest": {**manifest, "labels": {}}}
    world.installation.world("POST", "/registry/images", body)
    return "contract/batch:1"


@pytest.fixture
def submit(world: World, judge: Judge, image: str, unique: Callable[[str], str]) -> Callable[..., dict[str, Any]]:
    """Submits as the client does; gives the request's body with the Job's id in it."""

    def submitted(*command: str, **more: Any) -> dict[str, Any]:
        body = {"id": unique("job"), "image": image, "cloudConfig": {}, "nodePool": "pool", "workloadType": "job"}
        body |= {"command": list(command), "env": {"A": "told"}, **more}
        answer = judge.operation(world.hosted, "submit_workload", workload_admission_input=body)
        receipt = answer.value("WorkloadAdmissionResponse", 202)
        assert receipt["id"] == body["id"]
        assert receipt.get("submissionRevision") is None, "that would make the client take it for a Deployment's"
        return body

    return submitted


def status(judge: Judge, api: Api, job_id: str) -> Any:
    return judge.operation(api, "get_workload_status", id=job_id).value("WorkloadStatusResponse", 200)


def cleaned(judge: Judge, api: Api, job_id: str) -> Any:
    def look() -> Any:
        seen = status(judge, api, job_id)
        return seen if seen["workload"].get("cleanedAt") else None

    return until(look, 60)


def lines(api: Api, job_id: str) -> list[str]:
    answer = api.call("GET", f"/workloads/{job_id}/logs")
    assert answer.status_code == 200, answer.text
    return [json.loads(line)["text"] for line in answer.text.splitlines()]


@pytest.mark.req("WK-001", "WK-003", "WK-008", "WK-009", "WK-010", "WK-011", "WK-014")
def test_a_job_is_admitted_runs_is_listed_and_runs_again(
    world: World, judge: Judge, hosted: Api, submit: Callable[..., dict[str, Any]]
) -> None:
    body = submit("a b", "0")
    over = cleaned(judge, hosted, body["id"])
    workload = over["workload"]
    assert (workload["state"], over["status"], workload["workloadType"]) == ("completed", "down", "job")
    assert (workload["image"], workload["command"]) == (body["image"], ["a b", "0"])
    assert (workload["deploymentId"], workload["nodePoolId"]) == (None, world.pool["id"])
    assert (workload["vmCount"], workload["totalCost"], workload["region"]) == (0, None, None)
    assert workload["startedAt"] <= workload["completedAt"] <= workload["cleanedAt"]
    [listed] = judge.operation(hosted, "list_workloads", filter=body["id"]).value("list", 200)
    assert listed == {**listed, **workload}
    assert judge.operation(hosted, "get_workload_cost", id=body["id"]).value("list", 200) == []
    assert lines(hosted, body["id"]) == ["told:a b"]
    again = judge.operation(hosted, "submit_workload", workload_admission_input=body)
    assert again.value("WorkloadAdmissionResponse", 202)["id"] == body["id"]
    asked = judge.operation(hosted, "resubmit_workload", id=body["id"], workload_resubmit_body={})
    assert asked.value("WorkloadResubmitResponse", 202)["message"]
    second = cleaned(judge, hosted, body["id"])["workload"]
    assert (second["submissionRevision"], second["state"]) == (1, "completed")


@pytest.mark.parametrize("kind", sorted(JOB))
def test_handles_follow_a_job_by_its_id(
    judge: Judge, hosted: Api, submit: Callable[..., dict[str, Any]], kind: str
) -> None:
    body = submit("x", "3")
    judge.make(kind, kind, api_url=hosted.url, token=hosted.token).value(kind)
    judge.on(kind, "get", keep="handle", workload_id=body["id"]).value(JOB[kind])
    told = judge.on("handle", "wait", timeout_seconds=60, poll_interval_seconds=0.1).raised("JobFailedError")
    assert "errored" in json.dumps(told)
    cleaned(judge, hosted, body["id"])
    judge.on("handle", "resubmit").value("WorkloadResubmitResponse")
    judge.on("handle", "terminate").value("MessageResponse")
    assert cleaned(judge, hosted, body["id"])["workload"]["state"] in ("terminated", "errored")


def test_what_is_only_for_a_deployments_jobs_is_refused(
    judge: Judge, hosted: Api, submit: Callable[..., dict[str, Any]]
) -> None:
    body = submit("x", "0")
    observed = {"submissionRevision": 0}
    judge.operation(hosted, "observe_job_submission", id=body["id"], job_submission_observation_body=observed).refused(
        409, "WORKLOAD_MANAGEMENT_CONFLICT"
    )
    judge.operation(hosted, "get_workload_ssh_access", id=body["id"], mode="host").refused(
        403, "NOT_AVAILABLE", defined=False
    )
    cleaned(judge, hosted, body["id"])
    judge.operation(hosted, "resubmit_workload", id=body["id"], workload_resubmit_body={"timeout": 5}).refused(
        400, "WORKLOAD_MANAGEMENT_REQUEST_INVALID"
    )
    other = {**body, "env": {"A": "else"}}
    judge.operation(hosted, "submit_workload", workload_admission_input=other).refused(409, "WORKLOAD_ID_CONFLICT")


@pytest.mark.req("WK-002", "WK-006")
@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"nodePool": "nosuch"}, "nosuch"),
        ({"cloudConfig": {"region": "us-east-1"}}, "cloudConfig.region"),
        ({"credentialName": "aws"}, "credentialName"),
        ({"gpuType": "h100"}, "gpuType"),
        ({"dockerOptions": {"gpus": "1"}}, "dockerOptions.gpus"),
        ({"workloadType": "service"}, "workloadType"),
        ({"secrets": ["nosuch"]}, "secrets"),
    ],
)
def test_what_a_pool_cannot_run_is_rejected_with_its_name(
    judge: Judge, hosted: Api, image: str, change: dict[str, Any], named: str
) -> None:
    body = {"image": image, "cloudConfig": {}, "nodePool": "pool", "workloadType": "job", **change}
    refused = judge.operation(hosted, "submit_workload", workload_admission_input=body)
    assert named in refused.refused(400, "WORKLOAD_ADMISSION_REJECTED")["message"]


@pytest.mark.req("WK-001", "WK-011", "WK-013")
def test_the_command_line_runs_an_image_on_the_only_pool_of_the_cluster(
    world: World, image: str, unique: Callable[[str], str]
) -> None:
    name = unique("job")

    def cli(*words: str) -> str:
        return world.installation.cli(*words).stdout

    cli("api", "use", world.hosted.url)
    try:
        said = cli("job", image, "--cluster", "contract", "-i", name, "-e", "A=cli", "--wait", "--", "it ran", "0")
        assert f"{name}  completed" in said
        assert cli("logs", name) == "cli:it ran\n"
        assert "Node pool:  pool" in cli("status", name)
        world.installation.world("POST", "/registry/images", SLEEPING)
        stopped = cli("job", SLEEPING["reference"], "--node-pool", "pool").strip()
        until(lambda: "running" in cli("status", stopped), 30)
        cli("terminate", stopped)
        until(lambda: "terminated" in cli("status", stopped), 30)
    finally:
        cli("api", "use", "local")
