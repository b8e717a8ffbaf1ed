"""What each command sends, accepts and refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.conftest import Reply

CREATE = ["--credentials", "aws", "--region", "us-east-1", "--vm-type", "t3.large"]
POOL = [*CREATE, "--min-vms", "2", "--max-vms", "2"]


# Names and aliases


@pytest.mark.req("CLI-006", "OPEN-043", "DP-069", "DP-087")
@pytest.mark.parametrize(
    ("group", "alias", "meant"),
    [
        *[(group, alias, "list") for group in ("cluster", "node-pool", "deployment") for alias in ("ls", "get")],
        *[(group, "describe", "status") for group in ("cluster", "node-pool", "deployment")],
        *[
            (group, alias, "delete")
            for group in ("cluster", "node-pool", "deployment")
            for alias in ("terminate", "rm")
        ],
        ("deployment", "update", "upgrade"),
        ("job", "ls", "list"),
        ("secrets", "ls", "list"),
        ("credentials", "ls", "list"),
    ],
)
def test_aliases_are_the_command_itself(cli: Any, group: str, alias: str, meant: str) -> None:
    asked, same = cli(group, alias, "--help").out, cli(group, meant, "--help").out
    assert asked.replace(f" {alias} ", f" {meant} ", 1) == same
    assert asked != ""


@pytest.mark.req("CLI-005", "NP-059", "CL-096")
@pytest.mark.parametrize("reference", ["prod", "cl-abc"])
def test_ids_and_names_are_both_sent_as_given(cli: Any, api: Any, things: Any, reference: str) -> None:
    api.on("GET", f"/clusters/{reference}", {"cluster": things.cluster()})
    api.on("GET", f"/node-pools/{reference}", {"nodePool": things.pool()})
    api.on("GET", f"/deployments/{reference}", {"deployment": things.deployment(status=things.seen())})
    for group in ("cluster", "node-pool", "deployment"):
        assert cli(group, "status", reference).code == 0


def test_a_name_is_percent_encoded_in_a_path(cli: Any, api: Any, things: Any) -> None:
    api.on("GET", "/clusters/a%2Fb%20c", {"cluster": things.cluster()})
    assert cli("cluster", "status", "a/b c").code == 0


def test_an_unknown_command_is_a_usage_error(cli: Any) -> None:
    assert cli("cluster", "fly") == (2, "", "No such command 'fly'. See `anycloud cluster --help`.\n")


# Clusters


@pytest.mark.req("CL-004", "CL-056", "OPEN-002")
def test_cluster_create_sends_what_was_given_and_returns_at_once(cli: Any, api: Any, things: Any) -> None:
    api.on("POST", "/clusters", {"cluster": things.cluster(state="provisioning")}, status=202)
    run = cli("cluster", "create", "prod", *CREATE, "--zone", "us-east-1a", "--checkpoint-bucket", "mine")
    assert api.requests[0].body == {
        "name": "prod",
        "credentialName": "aws",
        "region": "us-east-1",
        "zone": "us-east-1a",
        "vmType": "t3.large",
        "checkpointBucket": "mine",
    }
    said = "Creating cluster prod (cl-abc). Follow it with `anycloud cluster status prod --watch`.\n"
    assert run == (0, said, "")


@pytest.mark.req("CL-008", "CL-009")
@pytest.mark.parametrize("extra", [[], ["--json"]])
def test_without_a_terminal_cluster_create_names_every_missing_flag(cli: Any, api: Any, extra: list[str]) -> None:
    said = "Missing --credentials, --vm-type and --region. See `anycloud cluster create --help`.\n"
    assert cli("cluster", "create", "prod", *extra) == (2, "", said)
    assert api.requests == []


@pytest.mark.req("CL-007")
def test_a_zone_without_a_region_is_refused_before_anything_is_asked(cli: Any, api: Any) -> None:
    run = cli("cluster", "create", "prod", "--credentials", "aws", "--vm-type", "t3.large", "--zone", "us-east-1a")
    assert run == (2, "", "--zone needs --region. See `anycloud cluster create --help`.\n")
    assert api.requests == []


@pytest.mark.req("CL-109")
def test_cluster_delete_waits_for_terminated(cli: Any, api: Any, things: Any) -> None:
    ending = things.cluster(state="terminated", releasing=True)
    api.on("DELETE", "/clusters/prod", {"cluster": ending}, status=202)
    gone = things.cluster(state="terminated")
    api.on("GET", "/clusters/cl-abc", {"cluster": ending}, {"cluster": ending}, {"cluster": gone})
    run = cli("cluster", "delete", "prod")
    assert run == (0, "terminated · releasing VM (still billing)\nterminated\n", "")
    assert len(api.asked("GET", "/clusters/cl-abc")) == 3


@pytest.mark.req("CL-110")
def test_the_wait_of_a_delete_says_that_the_vm_still_costs(cli: Any, api: Any, things: Any) -> None:
    ending = things.cluster(state="terminated", releasing=True)
    api.on("DELETE", "/clusters/prod", {"cluster": ending}, status=202)
    api.on("GET", "/clusters/cl-abc", {"cluster": things.cluster(state="terminated")})
    assert cli("cluster", "delete", "prod").out.splitlines()[0] == "terminated · releasing VM (still billing)"


@pytest.mark.req("CL-109")
def test_a_failed_delete_ends_with_its_reason_and_the_command_to_go_on(cli: Any, api: Any, things: Any) -> None:
    ending = things.cluster(state="terminated", releasing=True)
    api.on("DELETE", "/clusters/prod", {"cluster": ending}, status=202)
    failed = things.cluster(state="failed", lastError="Delete failed: the VM is locked.")
    api.on("GET", "/clusters/cl-abc", {"cluster": failed})
    run = cli("cluster", "delete", "prod")
    assert run.code == 1
    assert run.err == "Delete failed: the VM is locked. Next: `anycloud cluster delete prod`.\n"


@pytest.mark.req("CL-111")
def test_no_wait_returns_with_the_record(cli: Any, api: Any, things: Any) -> None:
    ending = things.cluster(state="terminated", releasing=True)
    api.on("DELETE", "/clusters/prod", {"cluster": ending}, status=202)
    run = cli("cluster", "delete", "prod", "--no-wait")
    follow = "Follow it with `anycloud cluster status cl-abc --watch`."
    assert run == (0, f"Deleting cluster prod. {follow}\n", "")
    assert len(api.requests) == 1


@pytest.mark.req("CL-113", "OPEN-009")
def test_the_timeout_of_a_delete_ends_the_wait_and_not_the_deletion(cli: Any, api: Any, things: Any) -> None:
    ending = things.cluster(state="terminated", releasing=True)
    api.on("DELETE", "/clusters/prod", {"cluster": ending}, status=202)
    api.on("GET", "/clusters/cl-abc", {"cluster": ending})
    run = cli("cluster", "delete", "prod", "--timeout", "30")
    assert run.code == 4
    assert "the deletion continues" in run.err
    assert cli.clock.elapsed == 30
    assert len(api.asked("DELETE", "/clusters/prod")) == 1


def test_the_wait_of_a_delete_bears_with_a_restarting_api(cli: Any, api: Any, things: Any) -> None:
    ending = things.cluster(state="terminated", releasing=True)
    api.on("DELETE", "/clusters/prod", {"cluster": ending}, status=202)
    api.refuse("GET", "/clusters/cl-abc", 503, "API_RESTARTING", "The API is restarting.")
    gone = {"cluster": things.cluster(state="terminated")}
    cli.clock.on_sleep = lambda: api.on("GET", "/clusters/cl-abc", gone) if cli.clock.elapsed > 20 else None
    run = cli("cluster", "delete", "prod")
    assert (run.code, run.err) == (0, "The API is restarting. Trying again.\n")


@pytest.mark.req("CL-096", "CL-118", "CL-123")
def test_forget_lists_what_is_left(cli: Any, api: Any) -> None:
    answer = {"id": "cl-abc", "name": "prod", "leftovers": ["network net-1", "bucket cl-abc, kept on purpose"]}
    api.on("POST", "/clusters/prod/forget", answer)
    assert cli("cluster", "forget", "prod").out == (
        "Forgot cluster prod (cl-abc).\nLeft in the cloud:\n  network net-1\n  bucket cl-abc, kept on purpose\n"
    )
    assert api.requests[0].body is None
    assert cli("cluster", "forget", "prod", "--json").json == answer


@pytest.mark.req("CLI-003")
def test_a_hosted_api_that_creates_no_clusters_names_the_way_back(cli: Any, hosted: Any) -> None:
    cli.write("api-url", hosted.url)
    cli.write("api-tokens.json", json.dumps({hosted.url: "acapi_x"}))
    hosted.refuse("POST", "/clusters", 503, "CLUSTER_UNAVAILABLE", "A hosted API creates no clusters.")
    run = cli("cluster", "create", "prod", *CREATE)
    assert run == (1, "", "A hosted API creates no clusters. Next: `anycloud api use local`.\n")


# Node pools


@pytest.mark.req("NP-005", "CLI-016")
def test_node_pool_create_sends_what_was_given(cli: Any, api: Any, things: Any) -> None:
    api.on("POST", "/node-pools", {"nodePool": things.pool(state="provisioning")}, status=202)
    run = cli("node-pool", "create", "training", *POOL, "--zone", "us-east-1a", "--cluster", "prod")
    assert api.requests[0].body == {
        "name": "training",
        "cluster": "prod",
        "credentialName": "aws",
        "region": "us-east-1",
        "zone": "us-east-1a",
        "vmTypes": ["t3.large"],
        "minVmCount": 2,
        "maxVmCount": 2,
    }
    said = "Creating node pool training (np-gpu). Follow it with `anycloud node-pool status training`.\n"
    assert run == (0, said, "")


@pytest.mark.req("NP-005")
@pytest.mark.parametrize("flag", ["--credentials", "--region", "--vm-type", "--min-vms", "--max-vms"])
def test_node_pool_create_needs_each_flag(cli: Any, api: Any, flag: str) -> None:
    at = POOL.index(flag)
    run = cli("node-pool", "create", "training", *POOL[:at], *POOL[at + 2 :])
    assert run == (2, "", f"Missing {flag}. See `anycloud node-pool create --help`.\n")
    assert api.requests == []


@pytest.mark.req("NP-058")
def test_node_pools_are_listed_of_one_cluster_or_all(cli: Any, api: Any) -> None:
    api.on("GET", "/node-pools", {"nodePools": []})
    cli("node-pool", "list")
    cli("node-pool", "list", "--cluster", "prod")
    assert [request.query for request in api.requests] == [{}, {"cluster": "prod"}]
    api.refuse("GET", "/node-pools", 404, "CLUSTER_NOT_FOUND", "Cluster other is unknown.")
    assert cli("node-pool", "list", "--cluster", "other") == (1, "", "Cluster other is unknown.\n")


def test_node_pool_delete_returns_with_the_record(cli: Any, api: Any, things: Any) -> None:
    pool = things.pool(state="terminated", releasing=True)
    api.on("DELETE", "/node-pools/training", {"nodePool": pool}, status=202)
    assert cli("node-pool", "rm", "training").out.startswith("Deleting node pool training (np-gpu).")
    assert cli("node-pool", "delete", "training", "--json").json == {"nodePool": pool}


# Deployments


@pytest.mark.req("DP-004", "DP-005", "CLI-007")
def test_deployment_create_sends_every_option(cli: Any, api: Any, things: Any, tmp_path: Path) -> None:
    api.on("POST", "/deployments", {"deployment": things.deployment(generation=1)}, status=202)
    (tmp_path / "env").write_text("# comment\n\nA=file\nB=file\n")
    words = ["--node-pool", "gpu", "--gpus", "1", "--runtime", "nvidia", "--shm-size", "1g", "--memory", "2g"]
    words += ["--cpus", "3", "--privileged", "--bind", "/a", "--bind", "/b", "--secret", "s1", "--secret", "s2"]
    words += ["--max-concurrent-jobs-per-replica", "4", "--env-file", str(tmp_path / "env"), "--env", "A=flag"]
    words += ["--readiness-probe", '{"exec":{"command":["/ok"]},"periodSeconds":2}']
    run = cli("deployment", "create", "voice", "ghcr.io/a/b", *words, "--", "python", "x.py", "--json", "--cpus", "9")
    assert run.code == 0
    assert api.requests[0].body == {
        "name": "voice",
        "image": "ghcr.io/a/b",
        "nodePool": "gpu",
        "dockerOptions": {
            "gpus": "1",
            "runtime": "nvidia",
            "shmSize": "1g",
            "memory": "2g",
            "cpus": "3",
            "binds": ["/a", "/b"],
            "privileged": True,
        },
        "secrets": ["s1", "s2"],
        "maxConcurrentJobsPerReplica": 4,
        "env": {"A": "flag", "B": "file"},
        "readinessProbe": {"exec": {"command": ["/ok"]}, "periodSeconds": 2},
        "command": ["python", "x.py", "--json", "--cpus", "9"],
    }
    assert run.out == "Creating Deployment voice (dep-voice). Follow it with `anycloud deployment status voice`.\n"


@pytest.mark.req("DP-005")
def test_a_minimal_create_sends_nothing_else(cli: Any, api: Any, things: Any) -> None:
    api.on("POST", "/deployments", {"deployment": things.deployment(generation=1)}, status=202)
    cli("deployment", "create", "voice", "ghcr.io/a/b", "--node-pool", "gpu")
    assert api.requests[0].body == {"name": "voice", "image": "ghcr.io/a/b", "nodePool": "gpu"}


@pytest.mark.req("OPEN-055")
def test_a_later_env_flag_wins_and_a_bare_key_comes_from_the_environment(
    cli: Any, api: Any, things: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FROM_HERE", "x=y")
    api.on("POST", "/deployments", {"deployment": things.deployment()}, status=202)
    cli("deployment", "create", "v", "i", "--node-pool", "gpu", "-e", "A=1", "-e", "A=2", "-e", "FROM_HERE")
    assert api.requests[0].body["env"] == {"A": "2", "FROM_HERE": "x=y"}


@pytest.mark.req("DP-002")
def test_a_deployment_needs_a_node_pool(cli: Any, api: Any) -> None:
    run = cli("deployment", "create", "voice", "ghcr.io/a/b")
    assert run == (2, "", "Missing --node-pool. See `anycloud deployment create --help`.\n")


@pytest.mark.req("DP-017")
def test_help_warns_of_privileged_deployments(cli: Any) -> None:
    text = " ".join(cli("deployment", "create", "--help").out.split())
    assert "can harm its Node and its neighbours: for trusted code on capacity of its own" in text


@pytest.mark.req("DP-113", "DP-003", "OPEN-069", "DP-117")
def test_upgrade_offers_its_options_and_no_other(cli: Any) -> None:
    out = cli("deployment", "upgrade", "--help").out
    offered = {word for line in out.splitlines() for word in line.split()[:4] if word.startswith("--")}
    offered = {word.rstrip(",") for word in offered} - {"--"}
    assert offered == {
        "--image", "--gpus", "--runtime", "--shm-size", "--memory", "--cpus", "--privileged", "--no-privileged",
        "--bind", "--secret", "--no-secret", "--max-concurrent-jobs-per-replica", "--readiness-probe", "--wait",
        "--json", "--help",
    }  # fmt: skip


@pytest.mark.req("DP-114", "DP-115", "DP-116", "DP-118", "DP-119", "DP-120", "SC-016")
@pytest.mark.parametrize(
    ("words", "body"),
    [
        (["--cpus", "6"], {"dockerOptions": {"cpus": "6"}}),
        (["--privileged"], {"dockerOptions": {"privileged": True}}),
        (["--no-privileged"], {"dockerOptions": {"privileged": False}}),
        (["--bind", "/a"], {"dockerOptions": {"binds": ["/a"]}}),
        (["--image", "new"], {"image": "new"}),
        (["--secret", "a", "--secret", "b"], {"secrets": ["a", "b"]}),
        (["--no-secret"], {"secrets": []}),
        (["--readiness-probe", "null"], {"readinessProbe": None}),
        (["--readiness-probe", '{"exec":{"command":["/x"]}}'], {"readinessProbe": {"exec": {"command": ["/x"]}}}),
        (["--max-concurrent-jobs-per-replica", "2"], {"maxConcurrentJobsPerReplica": 2}),
        (["--", "python", "x.py", "--cpus", "3"], {"command": ["python", "x.py", "--cpus", "3"]}),
    ],
)
def test_upgrade_sends_only_what_was_given(
    cli: Any, api: Any, things: Any, words: list[str], body: dict[str, Any]
) -> None:
    api.on("PATCH", "/deployments/voice", {"deployment": things.deployment()}, status=202)
    run = cli("deployment", "upgrade", "voice", *words)
    assert api.requests[0].body == body
    assert run.out == "Upgrade 2 of voice started. Follow it with `anycloud deployment status voice`.\n"


def test_an_empty_upgrade_is_refused(cli: Any, api: Any) -> None:
    run = cli("deployment", "upgrade", "voice")
    assert (run.code, run.out) == (2, "")
    assert run.err.startswith("Nothing to change: give at least one option or a command.")
    assert api.requests == []


@pytest.mark.req("SC-016")
def test_secret_and_no_secret_exclude_each_other(cli: Any, api: Any) -> None:
    run = cli("deployment", "upgrade", "voice", "--secret", "a", "--no-secret")
    assert run.code == 2
    assert api.requests == []


@pytest.mark.parametrize("text", ["[1]", "{", "1", '"x"', ""])
def test_a_probe_that_is_no_json_object_is_refused(cli: Any, api: Any, text: str) -> None:
    run = cli("deployment", "upgrade", "voice", "--readiness-probe", text)
    assert run.code == 2
    assert run.err.startswith("--readiness-probe takes a JSON object such as")
    assert api.requests == []


@pytest.mark.req("DP-044")
def test_empty_option_values_reach_the_api_which_refuses_them(cli: Any, api: Any) -> None:
    api.refuse("PATCH", "/deployments/voice", 400, "DEPLOYMENT_INVALID", "runtime is empty.")
    assert cli("deployment", "upgrade", "voice", "--runtime", "") == (1, "", "runtime is empty.\n")
    assert api.requests[0].body == {"dockerOptions": {"runtime": ""}}


@pytest.mark.req("DP-071")
def test_deployments_are_listed_of_one_pool_or_all(cli: Any, api: Any) -> None:
    api.on("GET", "/deployments", {"deployments": []})
    cli("deployment", "list")
    cli("deployment", "ls", "--node-pool", "np-1")
    assert [request.query for request in api.requests] == [{}, {"nodePool": "np-1"}]


@pytest.mark.req("DP-132")
def test_deployment_delete_returns_with_the_record(cli: Any, api: Any, things: Any) -> None:
    going = things.deployment(deletionRequestedAt=1)
    api.on("DELETE", "/deployments/voice", {"deployment": going}, status=202)
    said = "Deleting Deployment voice (dep-voice). Follow it with `anycloud deployment status dep-voice`.\n"
    assert cli("deployment", "terminate", "voice") == (0, said, "")
    assert cli("deployment", "rm", "voice", "--json").json == {"deployment": going}


# Jobs


@pytest.mark.req("JB-001")
def test_a_job_is_submitted_under_an_id_of_its_own(cli: Any, api: Any) -> None:
    receipt = {"id": "job-1", "submissionRevision": 0, "claimDeadlineAt": None}
    api.on("POST", "/workloads", receipt, status=202)
    assert cli("job", "--deployment", "voice") == (0, "job-1\n", "")
    body = api.requests[0].body
    assert (body["deployment"], body["workloadType"]) == ("voice", "job")
    assert body["id"].startswith("job-")
    assert len(body["id"]) == 28
    assert cli("job", "--deployment", "voice", "-i", "mine", "--timeout", "2m", "--json").json == receipt
    assert api.requests[1].body == {"deployment": "voice", "id": "mine", "workloadType": "job", "timeout": 120}


@pytest.mark.parametrize(
    "words", [[], ["ghcr.io/a/b"], ["--cluster", "prod"], ["ghcr.io/a/b", "--", "python"], ["--wait"]]
)
def test_what_is_not_offered_yet_is_a_usage_error(cli: Any, api: Any, words: list[str]) -> None:
    run = cli("job", *words)
    assert (run.code, run.out) == (2, "")
    assert api.requests == []


def test_a_lost_answer_is_asked_for_again_and_makes_no_second_job(cli: Any, api: Any) -> None:
    api.refuse("POST", "/workloads", 503, "API_RESTARTING", "Restarting.")
    cli.clock.on_sleep = lambda: api.refuse("POST", "/workloads", 409, "WORKLOAD_ID_CONFLICT", "Taken.")
    run = cli("job", "--deployment", "voice")
    first, second = api.requests
    assert first.body == second.body
    assert run == (0, first.body["id"] + "\n", "")


def test_a_chosen_id_that_is_taken_is_refused(cli: Any, api: Any) -> None:
    api.refuse("POST", "/workloads", 409, "WORKLOAD_ID_CONFLICT", "Job mine exists.")
    assert cli("job", "--deployment", "voice", "-i", "mine") == (1, "", "Job mine exists.\n")


def test_an_answer_that_stays_lost_is_told_as_uncertain(cli: Any, api: Any) -> None:
    api.refuse("POST", "/workloads", 503, "API_RESTARTING", "Restarting.")
    run = cli("job", "--deployment", "voice", "-i", "mine")
    said = "No certain answer (Restarting); Job mine may have been submitted. Next: `anycloud status mine`.\n"
    assert run == (1, "", said)
    assert {request.body["id"] for request in api.requests} == {"mine"}


@pytest.mark.req("JB-017")
def test_jobs_of_a_deployment_are_listed_up_to_a_count(cli: Any, api: Any, things: Any) -> None:
    done = things.workload(id="job-2", state="completed", completedAt=cli.clock.now_ms() - 3_600_000)
    api.on("GET", "/workloads", [things.workload(), done])
    run = cli("job", "list", "--deployment", "dep-voice", "-n", "400", "--status", "queued", "--filter", "x")
    assert run.out == (
        "ID     DEPLOYMENT  NODE POOL  AGE  TOOK  STATE\n"
        "job-1  dep-voice   -          3h   -     queued\n"
        "job-2  dep-voice   -          3h   2h    completed\n"
    )
    assert api.requests[0].query == {
        "workloadType": "job",
        "deploymentId": "dep-voice",
        "limit": "400",
        "status": "queued",
        "filter": "x",
    }
    assert run.err == ""
    assert cli("job", "list", "-n", "0").code == 2
    assert cli("job", "list", "-n", "1001").code == 2


@pytest.mark.parametrize(("count", "way"), [("200", " `-n` shows up to 1,000."), ("1000", "")])
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_list_that_is_not_all_says_so_on_stderr(
    cli: Any, api: Any, things: Any, count: str, way: str, form: list[str]
) -> None:
    more = {"Link": '</v1/workloads?limit=1&cursor=x>; rel="next"', "AnyCloud-Total-Count": "1234"}
    api.on("GET", "/workloads", Reply(200, [things.workload()], more))
    run = cli("job", "list", "-n", count, *form)
    assert run.err == f"These are the newest 1 of 1,234.{way}\n"
    assert "job-1" in run.out


@pytest.mark.parametrize(
    ("group", "at", "key"),
    [
        ("cluster", "/clusters", "clusters"),
        ("node-pool", "/node-pools", "nodePools"),
        ("deployment", "/deployments", "deployments"),
    ],
)
def test_every_list_tells_whether_there_is_more(cli: Any, api: Any, group: str, at: str, key: str) -> None:
    api.on("GET", at, Reply(200, {key: []}, {"AnyCloud-Total-Count": "0"}))
    assert cli(group, "list").err == ""
    api.on("GET", at, Reply(200, {key: []}, {"AnyCloud-Total-Count": "7", "Link": '</v1/x?cursor=x>; rel="next"'}))
    assert cli(group, "list").err == "These are the newest 0 of 7.\n"


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--deployment", "d", "--json"],
        ["--deployment", "d", "--status", "x"],
        ["--deployment", "d", "--filter", "x"],
    ],
)
def test_watching_jobs_needs_one_deployment_and_no_filters(cli: Any, api: Any, words: list[str]) -> None:
    assert cli("job", "list", "--watch", *words).code == 2
    assert api.requests == []


@pytest.mark.req("JB-013")
def test_jobs_are_terminated_and_resubmitted(cli: Any, api: Any) -> None:
    api.on("DELETE", "/workloads/job-1", {"message": "Termination of job-1 is requested."}, status=202)
    again = {"message": "job-1 is queued again.", "submissionRevision": 1}
    api.on("POST", "/workloads/job-1/resubmissions", again, status=202)
    assert cli("terminate", "job-1") == (0, "Termination of job-1 is requested.\n", "")
    assert cli("resubmit", "job-1") == (0, "job-1 is queued again.\n", "")
    assert cli("resubmit", "job-1", "--timeout", "5", "--json").json == again
    assert [request.body for request in api.requests] == [None, {}, {"timeout": 5.0}]


# Logs


def _lines(*entries: tuple[str, bool]) -> bytes:
    objects = [{"text": text, "podName": "voice-1", "previous": previous} for text, previous in entries]
    return "".join(json.dumps(entry) + "\n" for entry in objects).encode()


@pytest.mark.req("JB-018", "JB-019")
def test_logs_print_the_previous_run_and_then_the_current_one(cli: Any, api: Any) -> None:
    api.on("GET", "/deployments/voice/logs", _lines(("last words", True), ("hello\n", False), ("  x", False)))
    run = cli("logs", "voice", "--follow", "--tail", "5")
    assert run == (0, "last words\nhello\n  x\n", "Previous run of voice-1:\nCurrent run of voice-1:\n")
    assert api.requests[0].query == {"follow": "true", "tail": "5"}
    assert cli("logs", "voice", "--json").records[0] == {"text": "last words", "podName": "voice-1", "previous": True}


@pytest.mark.req("JB-014")
def test_logs_of_a_job_are_refused_with_the_command_for_its_deployment(cli: Any, api: Any, things: Any) -> None:
    api.refuse("GET", "/deployments/job-1/logs", 404, "DEPLOYMENT_NOT_FOUND", "No Deployment job-1.")
    api.on("GET", "/workloads/job-1", things.status())
    run = cli("logs", "job-1")
    assert (run.code, run.out) == (1, "")
    assert run.err.endswith("a Job has no logs of its own. Next: `anycloud logs dep-voice`.\n")


def test_logs_of_something_unknown_tell_so(cli: Any, api: Any) -> None:
    api.refuse("GET", "/deployments/x/logs", 404, "DEPLOYMENT_NOT_FOUND", "No Deployment x.")
    assert cli("logs", "x") == (1, "", "No Deployment x.\n")


# Secrets and credentials


@pytest.mark.req("SC-002", "SC-006")
def test_a_secret_is_saved_and_its_values_are_never_printed(
    cli: Any, api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FROM_ENV", "marker-2")
    api.on("PUT", "/secrets/model-db", None, status=204)
    run = cli("secrets", "new", "model-db", "URL=marker-1=x", "FROM_ENV")
    assert api.requests[0].body == {"values": {"URL": "marker-1=x", "FROM_ENV": "marker-2"}}
    assert run == (0, "Saved Secret model-db with URL, FROM_ENV.\n", "")
    assert "marker" not in cli("secrets", "new", "model-db", "URL=marker-1", "--json").out


@pytest.mark.parametrize("words", [[], ["=x"], ["NOT_IN_THE_ENVIRONMENT"]])
def test_a_secret_needs_keys_with_values(cli: Any, api: Any, words: list[str]) -> None:
    run = cli("secrets", "new", "s", *words)
    assert (run.code, run.out) == (2, "")
    assert api.requests == []


def test_errors_about_assignments_name_no_value(cli: Any) -> None:
    assert "marker" not in cli("secrets", "new", "s", "=marker").err


def test_secrets_are_listed_and_deleted(cli: Any, api: Any) -> None:
    now = cli.clock.now_ms()
    saved = [{"name": "model-db", "createdAt": now - 7_200_000, "updatedAt": now - 60_000}]
    api.on("GET", "/secrets", saved)
    api.on("DELETE", "/secrets/model-db", None, status=204)
    assert cli("secrets", "list").out == "NAME      AGE  UPDATED\nmodel-db  2h   1m\n"
    assert cli("secrets", "list", "--json").json == saved
    assert cli("secrets", "delete", "model-db", "--force").out == "Deleted Secret model-db.\n"
    assert api.requests[-1].query == {"force": "true"}


@pytest.mark.parametrize(
    ("provider", "variables", "body"),
    [
        (
            "aws",
            {"AWS_ACCESS_KEY_ID": "AKIA", "AWS_SECRET_ACCESS_KEY": "marker"},
            {"cloudProvider": "AWS", "accessKeyId": "AKIA", "secretAccessKey": "marker"},
        ),
        (
            "azure",
            {
                "AZURE_CLIENT_ID": "c",
                "AZURE_TENANT_ID": "t",
                "AZURE_CLIENT_SECRET": "marker",
                "AZURE_SUBSCRIPTION_ID": "s",
            },
            {
                "cloudProvider": "Azure",
                "applicationId": "c",
                "directoryId": "t",
                "secret": "marker",
                "subscriptionId": "s",
            },
        ),
        ("lambda", {"LAMBDA_API_KEY": "marker"}, {"cloudProvider": "Lambda", "apiKey": "marker"}),
        (
            "cloudflare",
            {"CLOUDFLARE_ACCOUNT_ID": "a", "CLOUDFLARE_API_TOKEN": "marker"},
            {"cloudProvider": "Cloudflare", "accountId": "a", "apiToken": "marker"},
        ),
    ],
)
def test_key_material_comes_from_the_clouds_variables_and_is_never_printed(
    cli: Any,
    api: Any,
    monkeypatch: pytest.MonkeyPatch,
    provider: str,
    variables: dict[str, str],
    body: dict[str, str],
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    api.on("PUT", "/credentials/mine", None, status=204)
    run = cli("credentials", "new", "mine", "--provider", provider)
    assert api.requests[0].body == body
    assert (run.code, run.err) == (0, "")
    assert "marker" not in run.out + cli("credentials", "new", "mine", "--provider", provider, "--json").out


@pytest.fixture
def service_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "key.json"
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
    return path


def test_a_service_accounts_key_file_is_read(cli: Any, api: Any, service_account: Path) -> None:
    key = {"type": "service_account", "project_id": "p", "client_email": "e", "private_key": "marker", "x": 1}
    service_account.write_text(json.dumps(key))
    api.on("PUT", "/credentials/mine", None, status=204)
    assert cli("credentials", "new", "mine", "--provider", "gcp", "--overwrite").code == 0
    sent = {"cloudProvider": "GCP", "projectId": "p", "clientEmail": "e", "privateKey": "marker"}
    assert (api.requests[0].body, api.requests[0].query) == (sent, {"overwrite": "true"})


@pytest.mark.parametrize(
    "text", [None, "{", "[]", '{"type":"authorized_user"}', '{"type":"service_account","private_key":"marker"}']
)
def test_what_is_no_service_accounts_key_is_refused(
    cli: Any, api: Any, service_account: Path, text: str | None
) -> None:
    if text is not None:
        service_account.write_text(text)
    run = cli("credentials", "new", "mine", "--provider", "gcp")
    assert (run.code, run.out) == (2, "")
    assert "marker" not in run.err
    assert api.requests == []


def test_without_a_terminal_missing_key_material_is_named(cli: Any, api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    run = cli("credentials", "new", "mine", "--provider", "aws")
    assert run == (2, "", "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment.\n")
    assert api.requests == []


def test_keys_of_a_session_are_refused(cli: Any, api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, "x")
    assert cli("credentials", "new", "mine", "--provider", "aws").code == 2
    assert api.requests == []


def test_credentials_are_listed_and_deleted(cli: Any, api: Any) -> None:
    saved = [
        {"name": "aws", "cloudProvider": "AWS", "accessKeyId": "AKIA"},
        {"name": "gcp", "cloudProvider": "GCP", "clientEmail": "e@p", "authFailedAt": 1},
    ]
    api.on("GET", "/credentials", saved)
    api.on("DELETE", "/credentials/aws", None, status=204)
    assert cli("credentials", "list").out == (
        "NAME  PROVIDER  IDENTITY  STATE\naws   AWS       AKIA\ngcp   GCP       e@p       refused\n"
    )
    assert cli("credentials", "list", "--json").json == saved
    assert cli("credentials", "delete", "aws").out == "Deleted credential aws.\n"
    cli.write("data/world", "sandbox\n")
    assert "AWS (sandbox)" in cli("credentials", "list").out


# Database


def test_a_query_prints_its_rows(cli: Any, api: Any) -> None:
    answer = {"rowCount": 2, "rows": [{"id": "a", "n": None}, {"id": "b", "n": {"x": 1}}], "truncated": True}
    api.on("POST", "/database/queries", answer)
    run = cli("db", "query", "SELECT 1")
    assert run.out == 'id  n\na   NULL\nb   {"x": 1}\n'
    assert run.err == "Only the first 2 rows are shown; narrow the query with WHERE or LIMIT.\n"
    assert api.requests[0].body == {"sql": "SELECT 1"}
    assert cli("db", "query", "SELECT 1", "--json").json == answer


def test_a_schema_prints_tables_with_columns_keys_and_indexes(cli: Any, api: Any) -> None:
    columns = [{"name": "id", "type": "TEXT", "primaryKey": True}, {"name": "n", "type": "INT", "defaultValue": "0"}]
    keys = [{"column": "n", "references": {"table": "u", "column": "id"}}]
    table = {"name": "t", "type": "table", "columns": columns, "foreignKeys": keys}
    answer = {"tables": [{**table, "indexes": [{"name": "t_n", "unique": True}]}]}
    api.on("GET", "/database/schema", answer)
    assert cli("db", "schema", "t").out.splitlines() == [
        "table t",
        "  COLUMN  TYPE",
        "  id      TEXT  primary key",
        "  n       INT   default 0",
        "  n -> u.id",
        "  unique index t_n",
    ]
    assert api.requests[0].query == {"table": "t"}
    assert cli("db", "schema", "--json").json == answer


# JSON


@pytest.mark.req("CLI-008", "CL-095", "NP-062")
def test_every_command_prints_json_only(cli: Any, api: Any, things: Any) -> None:
    cluster, pool, made = things.cluster(), things.pool(), things.deployment(status=things.seen())
    gone = things.cluster(state="terminated")
    api.on("GET", "/clusters", {"clusters": [cluster]})
    api.on("POST", "/clusters", {"cluster": cluster}, status=202)
    api.on("GET", "/clusters/prod", {"cluster": cluster})
    api.on("DELETE", "/clusters/prod", {"cluster": things.cluster(state="terminated", releasing=True)}, status=202)
    api.on("GET", "/clusters/cl-abc", {"cluster": gone})
    api.on("GET", "/node-pools", {"nodePools": [pool]})
    api.on("POST", "/node-pools", {"nodePool": pool}, status=202)
    api.on("GET", "/node-pools/p", {"nodePool": pool})
    api.on("GET", "/deployments", {"deployments": [made]})
    api.on("POST", "/deployments", {"deployment": made}, status=202)
    api.on("PATCH", "/deployments/v", {"deployment": made}, status=202)
    api.on("GET", "/workloads", [things.workload()])
    for words, expected in [
        (["cluster", "list"], {"clusters": [cluster]}),
        (["cluster", "create", "prod", *CREATE], {"cluster": cluster}),
        (["cluster", "status", "prod"], {"cluster": cluster}),
        (["cluster", "delete", "prod"], {"cluster": gone}),
        (["node-pool", "list"], {"nodePools": [pool]}),
        (["node-pool", "create", "p", *POOL], {"nodePool": pool}),
        (["node-pool", "status", "p"], {"nodePool": pool}),
        (["deployment", "list"], {"deployments": [made]}),
        (["deployment", "create", "v", "i", "--node-pool", "p"], {"deployment": made}),
        (["deployment", "upgrade", "v", "--cpus", "1"], {"deployment": made}),
        (["job", "list"], [things.workload()]),
    ]:
        assert cli(*words, "--json").json == expected, words


# Watching


@pytest.mark.req("CL-057", "CL-092", "CL-093")
@pytest.mark.parametrize(
    ("last", "step"),
    [
        ({"state": "running"}, "   Next: anycloud api use https://cl-abc.anycloud.sh"),
        ({"state": "failed", "lastError": "Delete failed: x"}, "   Next: anycloud cluster delete prod"),
        ({"state": "terminated"}, "   Age:        3h"),
    ],
)
def test_watching_a_cluster_ends_when_it_is_at_rest(
    cli: Any, api: Any, things: Any, last: dict[str, Any], step: str
) -> None:
    states: list[dict[str, Any]] = [
        {"state": "provisioning"},
        {"state": "initializing"},
        {"state": "terminated", "releasing": True},
        last,
    ]
    api.on("GET", "/clusters/prod", *({"cluster": things.cluster(**state)} for state in states))
    run = cli("cluster", "status", "prod", "--watch", "--interval", "2")
    assert cli.clock.sleeps == [2, 2, 2]
    heads = [line for line in run.out.splitlines() if line.startswith("⚡")]
    assert heads[:3] == ["⚡  provisioning", "⚡  initializing", "⚡  terminated · releasing"]
    assert run.out.splitlines()[-1] == step


@pytest.mark.req("OPEN-009")
def test_the_interval_is_five_seconds_and_at_least_one(cli: Any, api: Any, things: Any) -> None:
    api.on("GET", "/clusters/prod", {"cluster": things.cluster(state="starting")}, {"cluster": things.cluster()})
    cli("cluster", "status", "prod", "--watch")
    assert cli.clock.sleeps == [5]
    assert cli("cluster", "status", "prod", "--watch", "--interval", "0.5").code == 2


def test_watching_with_json_prints_a_record_for_each_change(cli: Any, api: Any, things: Any) -> None:
    same = {"cluster": things.cluster(state="starting")}
    api.on("GET", "/clusters/prod", same, same, {"cluster": things.cluster()})
    records = cli("cluster", "status", "prod", "--watch", "--json").records
    assert [record["cluster"]["state"] for record in records] == ["starting", "running"]


def test_a_watch_bears_with_a_restarting_api_but_not_with_one_that_never_answered(
    cli: Any, api: Any, things: Any
) -> None:
    away = {"code": "API_RESTARTING", "defined": True, "status": 503, "message": "Restarting."}
    api.refuse("GET", "/clusters/prod", 503, "API_RESTARTING", "Restarting.")
    assert cli("cluster", "status", "prod", "--watch") == (1, "", "Restarting.\n")
    api.on("GET", "/clusters/prod", {"cluster": things.cluster(state="starting")})

    def step() -> None:
        if cli.clock.elapsed < 60:
            api.on("GET", "/clusters/prod", away, status=503)
        else:
            api.on("GET", "/clusters/prod", {"cluster": things.cluster()})

    cli.clock.on_sleep = step
    run = cli("cluster", "status", "prod", "--watch")
    assert (run.code, run.err) == (0, "Restarting. Trying again.\n")
