"""Jobs that bring their own image, from the command line."""

from __future__ import annotations

import json
from typing import Any

import pytest


def pools(*states: str) -> dict[str, Any]:
    named = [{"id": f"np-{number}", "name": f"pool-{number}", "state": state} for number, state in enumerate(states)]
    return {"nodePools": named}


@pytest.fixture
def submitted(api: Any) -> Any:
    api.on("POST", "/workloads", {"id": "job-1"}, status=202)
    return api


@pytest.mark.req("WK-001", "WK-009", "CLI-007")
@pytest.mark.parametrize(
    "words",
    [
        ["acme/batch:v1", "--node-pool", "np-1", "--gpus", "2", "--", "python", "--json", "--node-pool"],
        ["--gpus", "2", "--node-pool", "np-1", "acme/batch:v1", "--", "python", "--json", "--node-pool"],
    ],
)
def test_options_stand_on_both_sides_of_the_image_and_the_command_is_taken_as_it_is(
    cli: Any, submitted: Any, words: list[str]
) -> None:
    assert cli("job", *words) == (0, "job-1\n", "")
    [request] = submitted.requests
    chosen = request.body.pop("id")
    assert chosen.startswith("job-") and len(chosen) == 28
    assert request.body == {
        "image": "acme/batch:v1",
        "workloadType": "job",
        "cloudConfig": {},
        "dockerOptions": {"gpus": "2"},
        "command": ["python", "--json", "--node-pool"],
        "nodePool": "np-1",
    }


def test_help_and_errors_name_the_command_as_it_is_typed(cli: Any, api: Any) -> None:
    assert cli("job", "img", "--help").out.startswith("Usage: anycloud job [OPTIONS] IMAGE [-- COMMAND...]\n")
    assert cli("job", "img").err.endswith("See `anycloud job --help`.\n")
    assert "[IMAGE [-- COMMAND...] | list]" in cli("job", "--help").out
    assert api.requests == []


@pytest.mark.req("DP-005")
def test_every_setting_reaches_the_request(cli: Any, submitted: Any, tmp_path: Any) -> None:
    (tmp_path / "env").write_text("A=file\nB=file\n")
    words = "-i mine --memory 1g --cpus 2 --shm-size 64m --runtime runc --bind /data --bind /tmp/x --privileged"
    more = f"--secret db --secret s3 -e A=flag --env-file {tmp_path}/env --time-limit 2m --json"
    assert cli("job", "img", "--node-pool", "p", *words.split(), *more.split()).json == {"id": "job-1"}
    assert submitted.requests[0].body == {
        "id": "mine",
        "image": "img",
        "workloadType": "job",
        "cloudConfig": {},
        "dockerOptions": {
            "runtime": "runc",
            "shmSize": "64m",
            "memory": "1g",
            "cpus": "2",
            "binds": ["/data", "/tmp/x"],
            "privileged": True,
        },
        "secrets": ["db", "s3"],
        "timeLimit": 120,
        "env": {"A": "flag", "B": "file"},
        "nodePool": "p",
    }


@pytest.mark.req("WK-001", "OPEN-071")
def test_a_cluster_stands_for_its_only_running_pool(cli: Any, submitted: Any) -> None:
    submitted.on("GET", "/node-pools", pools("failed", "running", "provisioning"))
    assert cli("job", "img", "--cluster", "training").code == 0
    asked, sent = submitted.requests
    assert asked.query == {"cluster": "training"}
    assert sent.body["nodePool"] == "np-1"


@pytest.mark.req("WK-001", "OPEN-071")
@pytest.mark.parametrize(
    ("states", "said"),
    [
        (["running", "running", "failed"], "has 2 running node pools: pool-0, pool-1. Give --node-pool"),
        (["failed", "terminated"], "has no running node pool: pool-0 (failed)."),
        ([], "has no running node pool."),
    ],
)
def test_a_cluster_with_several_running_pools_or_none_is_refused_not_guessed(
    cli: Any, submitted: Any, states: list[str], said: str
) -> None:
    submitted.on("GET", "/node-pools", pools(*states))
    run = cli("job", "img", "--cluster", "training")
    assert (run.code, run.out) == (1, "")
    assert said in run.err
    assert [request.method for request in submitted.requests] == ["GET"]


def test_a_pool_may_be_named_beside_its_cluster_and_no_other(cli: Any, submitted: Any) -> None:
    submitted.on("GET", "/node-pools", pools("running", "running"))
    assert cli("job", "img", "--cluster", "training", "--node-pool", "pool-1").code == 0
    assert submitted.requests[-1].body["nodePool"] == "pool-1"
    assert "has no node pool other" in cli("job", "img", "--cluster", "training", "--node-pool", "other").err


@pytest.mark.req("WK-002")
@pytest.mark.parametrize("target", ["--cluster", "--node-pool"])
@pytest.mark.parametrize("flag", ["--vm-type", "--region", "--zone", "--credentials", "--gpu-type", "--disk-size"])
def test_what_chooses_a_vm_is_refused_beside_a_cluster_or_pool_naming_both(
    cli: Any, api: Any, target: str, flag: str
) -> None:
    run = cli("job", "img", target, "x", flag, "y")
    assert (run.code, run.out) == (2, "")
    assert f"{target} and {flag} exclude each other" in run.err
    assert f"{target} and --spot exclude each other" in cli("job", "img", target, "x", "--spot").err
    assert api.requests == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["img"], "Missing --node-pool or --cluster."),
        (["img", "--vm-type", "t3.large"], "--vm-type asks for a VM for one Job, which this API doesn't buy"),
        (["img", "--deployment", "d", "--node-pool", "p"], "An image and --deployment exclude each other"),
        (["img", "--timeout", "5", "--node-pool", "p"], "An image and --timeout exclude each other"),
        (["--deployment", "d", "--node-pool", "p"], "--deployment and --node-pool exclude each other"),
        (["--deployment", "d", "--gpus", "1"], "--deployment and --gpus exclude each other"),
        (["--node-pool", "p"], "Give an image, or --deployment."),
        (["img", "--node-pool", "p", "-e", "=x"], "without a key"),
    ],
)
def test_what_does_not_go_together_is_refused_before_any_request(
    cli: Any, api: Any, words: list[str], said: str
) -> None:
    run = cli("job", *words)
    assert (run.code, run.out) == (2, "")
    assert said in run.err
    assert api.requests == []


def test_a_lost_answer_is_asked_for_again_under_the_same_id(cli: Any, api: Any) -> None:
    api.refuse("POST", "/workloads", 503, "WORKLOAD_ADMISSION_UNAVAILABLE", "Job is just being taken in; ask again.")
    cli.clock.on_sleep = lambda: api.on("POST", "/workloads", {"id": "job-1"}, status=202)
    assert cli("job", "img", "--node-pool", "p").code == 0
    first, second = api.requests
    assert first.body == second.body


@pytest.mark.req("WK-003", "WK-010")
def test_status_shows_pool_image_and_command_and_what_the_job_waits_for(cli: Any, api: Any, things: Any) -> None:
    own = {"deploymentId": None, "nodePoolName": "training", "image": "img", "command": ["sh", "-c", "a b"]}
    why = things.event(2, "downloading", reason="observed", message="ErrImagePull: no such image")
    api.on("GET", "/workloads/job-1", things.status(events=[why], state="downloading", **own))
    lines = cli("status", "job-1").out.splitlines()
    assert lines[1] == "⚡  downloading"
    assert "   Node pool:  training" in lines
    assert "   Command:    sh -c 'a b'" in lines
    assert "   Reason:     ErrImagePull: no such image" in lines
    plain = things.event(3, "running", reason="observed")
    api.on("GET", "/workloads/job-2", things.status(events=[plain], state="running", **own))
    assert "Reason" not in cli("status", "job-2").out


# Output


def lines(*texts: str) -> bytes:
    return "".join(json.dumps({"text": text, "podName": "p", "previous": False}) + "\n" for text in texts).encode()


@pytest.fixture
def no_deployment(api: Any) -> Any:
    api.refuse("GET", "/deployments/job-1/logs", 404, "DEPLOYMENT_NOT_FOUND", "No Deployment job-1.")
    return api


@pytest.mark.req("WK-011")
def test_logs_print_what_a_jobs_container_wrote(cli: Any, no_deployment: Any, things: Any) -> None:
    no_deployment.on("GET", "/workloads/job-1", things.status(deploymentId=None, state="completed"))
    no_deployment.on("GET", "/workloads/job-1/logs", lines("hello", "  x"))
    assert cli("logs", "job-1", "--tail", "5") == (0, "hello\n  x\n", "")
    assert no_deployment.requests[-1].query == {"tail": "5"}
    assert cli("logs", "job-1", "--previous").err == "Job job-1 runs once: there is no previous run.\n"


def test_following_before_the_container_runs_says_so_on_stderr(cli: Any, no_deployment: Any, things: Any) -> None:
    no_deployment.on("GET", "/workloads/job-1", things.status(deploymentId=None, state="queued"))
    no_deployment.on("GET", "/workloads/job-1/logs", lines("hello"))
    said = "Workload is queued; its container is not running yet. Waiting...\n"
    assert cli("logs", "job-1", "--follow") == (0, "hello\n", said)


@pytest.mark.req("JB-014")
@pytest.mark.parametrize("words", [["exec", "job-1", "ls"], ["ssh", "job-1"]])
def test_there_is_no_way_into_a_container_and_the_refusal_says_why(
    cli: Any, api: Any, things: Any, words: list[str]
) -> None:
    api.on("GET", "/workloads/job-1", things.status(), things.status(deploymentId=None, nodePoolName="training"))
    run = cli(*words)
    assert (run.code, run.out) == (1, "")
    assert run.err.startswith(f"`{words[0]}` isn't available for Job job-1: it runs inside Deployment dep-voice")
    assert run.err.endswith("Next: `anycloud logs dep-voice`.\n")
    assert "in a container of its own on node pool training" in cli(*words).err
