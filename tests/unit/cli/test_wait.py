"""`anycloud wait` and every `--wait`: targets, exit codes, lines and records."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.req("OPEN-053", "CLI-011")
def test_a_job_is_waited_for_until_it_is_completed(cli: Any, api: Any, things: Any) -> None:
    queued, running = things.status(more={"jobsAhead": 1}), things.status(state="running")
    api.on("GET", "/workloads/job-1", queued, queued, running, things.status(state="completed"))
    run = cli("wait", "job-1")
    assert run == (0, "job-1  queued · 1 Job ahead\njob-1  running\njob-1  completed\n", "")
    assert {request.method for request in api.requests} == {"GET"}


@pytest.mark.req("OPEN-053")
@pytest.mark.parametrize("state", ["errored", "failed", "invalid", "terminated"])
def test_a_job_that_ends_otherwise_gives_one(cli: Any, api: Any, things: Any, state: str) -> None:
    events = [things.event(1, "queued"), things.event(2, state, reason="claim-deadline-expired")]
    api.on("GET", "/workloads/job-1", things.status(state=state, events=events))
    assert cli("wait", "job-1") == (1, f"job-1  {state}: claim-deadline-expired\n", "")


@pytest.mark.parametrize("kind", ["service", "vm"])
def test_a_service_and_a_vm_are_waited_for_until_they_run(cli: Any, api: Any, things: Any, kind: str) -> None:
    api.on("GET", "/workloads/x", things.status(state="running", workloadType=kind))
    assert cli("wait", "x").code == 0


@pytest.mark.req("OPEN-053")
@pytest.mark.parametrize(("state", "code"), [("running", 0), ("failed", 1), ("terminated", 1)])
def test_pools_and_clusters_are_waited_for_until_they_run(
    cli: Any, api: Any, things: Any, state: str, code: int
) -> None:
    api.on(
        "GET", "/node-pools/p", {"nodePool": things.pool(state="provisioning")}, {"nodePool": things.pool(state=state)}
    )
    api.on(
        "GET", "/clusters/c", {"cluster": things.cluster(state="starting")}, {"cluster": things.cluster(state=state)}
    )
    assert cli("wait", "node-pool/p").code == code
    assert cli("wait", "cluster/c").code == code


def _deployment(things: Any, **seen: Any) -> dict[str, Any]:
    return {"deployment": things.deployment(status=things.seen(**seen))}


@pytest.mark.req("DP-006", "OPEN-053")
def test_a_deployment_is_waited_for_until_the_pod_of_its_latest_revision_is_ready(
    cli: Any, api: Any, things: Any
) -> None:
    upgrade = {"number": 2, "state": "starting"}
    api.on(
        "GET",
        "/deployments/voice",
        _deployment(things, podGeneration=2, ready=True, reason="Draining.", upgrade=upgrade),
        _deployment(things, podGeneration=3, ready=False, reason="Starting.", upgrade=upgrade),
        _deployment(things),
    )
    run = cli("wait", "deployment/voice")
    told = ["running: Draining.", "running: Starting.", "running"]
    assert run == (0, "".join(f"deployment/voice  {line}\n" for line in told), "")


@pytest.mark.req("DP-006")
@pytest.mark.parametrize(
    ("seen", "code"),
    [({}, 0), ({"state": "failed", "ready": False}, 1), ({"state": "terminated", "ready": False}, 1)],
)
def test_create_with_wait_has_the_exit_codes_of_wait(
    cli: Any, api: Any, things: Any, seen: dict[str, Any], code: int
) -> None:
    api.on("POST", "/deployments", {"deployment": things.deployment(generation=1)}, status=202)
    api.on("GET", "/deployments/dep-voice", _deployment(things, requestedGeneration=1, podGeneration=1, **seen))
    assert cli("deployment", "create", "voice", "i", "--node-pool", "p", "--wait").code == code


def test_a_create_that_is_refused_gives_one_also_with_wait(cli: Any, api: Any) -> None:
    api.refuse("POST", "/deployments", 409, "DEPLOYMENT_CONFLICT", "voice exists.")
    assert cli("deployment", "create", "voice", "i", "--node-pool", "p", "--wait") == (1, "", "voice exists.\n")


@pytest.mark.req("DP-129")
@pytest.mark.parametrize(("in_pod", "code"), [(3, 0), (4, 0)])
def test_upgrade_with_wait_ends_at_its_revision_or_a_later_one(
    cli: Any, api: Any, things: Any, in_pod: int, code: int
) -> None:
    api.on("PATCH", "/deployments/voice", {"deployment": things.deployment()}, status=202)
    former = _deployment(things, podGeneration=2, upgrade={"number": 2, "state": "starting"})
    api.on("GET", "/deployments/dep-voice", former, _deployment(things, podGeneration=in_pod, requestedGeneration=4))
    assert cli("deployment", "upgrade", "voice", "--cpus", "1", "--wait").code == code
    assert len(api.asked("GET", "/deployments/dep-voice")) == 2


@pytest.mark.req("DP-130")
def test_a_failed_rollout_ends_upgrade_with_wait_at_once(cli: Any, api: Any, things: Any) -> None:
    api.on("PATCH", "/deployments/voice", {"deployment": things.deployment()}, status=202)
    failed = {"number": 2, "state": "failed"}
    crash = _deployment(things, state="failed", ready=False, reason="CrashLoopBackOff", upgrade=failed)
    api.on("GET", "/deployments/dep-voice", crash)
    run = cli("deployment", "upgrade", "voice", "--cpus", "1", "--wait")
    assert (run.code, run.out) == (1, "deployment/dep-voice  failed: CrashLoopBackOff\n")
    assert cli.clock.sleeps == []


@pytest.mark.req("DP-130")
def test_the_failure_of_an_earlier_revision_does_not_end_the_wait_for_its_remedy(
    cli: Any, api: Any, things: Any
) -> None:
    api.on("PATCH", "/deployments/voice", {"deployment": things.deployment()}, status=202)
    before = {"number": 1, "state": "failed"}
    still = _deployment(things, state="failed", ready=False, podGeneration=2, upgrade=before)
    api.on("GET", "/deployments/dep-voice", still, _deployment(things))
    assert cli("deployment", "upgrade", "voice", "--image", "better", "--wait").code == 0


@pytest.mark.req("DP-131", "OPEN-054")
@pytest.mark.parametrize(
    ("method", "words"),
    [("POST", ["create", "voice", "i", "--node-pool", "p"]), ("PATCH", ["upgrade", "voice", "--cpus", "1"])],
)
def test_with_json_the_deployment_comes_first_and_then_wait_records(
    cli: Any, api: Any, things: Any, method: str, words: list[str]
) -> None:
    made = things.deployment()
    api.on(method, "/deployments" if method == "POST" else "/deployments/voice", {"deployment": made}, status=202)
    api.on("GET", "/deployments/dep-voice", _deployment(things, state="starting", ready=False), _deployment(things))
    run = cli("deployment", *words, "--wait", "--json")
    assert run.code == 0
    assert run.records[0] == {"deployment": made}
    told = [(record["type"], record["ref"], record["state"]) for record in run.records[1:]]
    ref = "deployment/dep-voice"
    assert told == [("state", ref, "starting"), ("state", ref, "running"), ("result", ref, "running")]


@pytest.mark.parametrize("words", [["job", "--deployment", "voice", "-i", "job-1"], ["resubmit", "job-1"]])
def test_jobs_have_wait_too(cli: Any, api: Any, things: Any, words: list[str]) -> None:
    api.on("POST", "/workloads", {"id": "job-1"}, status=202)
    api.on("POST", "/workloads/job-1/resubmissions", {"message": "Again."}, status=202)
    api.on("GET", "/workloads/job-1", things.status(), things.status(state="completed"))
    run = cli(*words, "--wait")
    assert (run.code, run.out.splitlines()[-1]) == (0, "job-1  completed")


def test_node_pools_have_wait_too(cli: Any, api: Any, things: Any) -> None:
    api.on("POST", "/node-pools", {"nodePool": things.pool(state="provisioning")}, status=202)
    api.on("GET", "/node-pools/np-gpu", {"nodePool": things.pool()})
    flags = ["--credentials", "a", "--region", "r", "--vm-type", "t", "--min-vms", "1", "--max-vms", "1"]
    run = cli("node-pool", "create", "training", *flags, "--wait", "--json")
    assert run.code == 0
    assert [record.get("type", "pool") for record in run.records] == ["pool", "state", "result"]


@pytest.mark.req("OPEN-053")
@pytest.mark.parametrize("references", [["job/x"], ["deployment/"], ["service/x"], []])
def test_a_reference_that_names_nothing_is_a_bad_argument(cli: Any, api: Any, references: list[str]) -> None:
    run = cli("wait", *references)
    assert (run.code, run.out) == (2, "")
    assert api.requests == []


@pytest.mark.req("OPEN-053")
def test_what_cannot_be_observed_gives_two(cli: Any, api: Any, things: Any) -> None:
    api.on("GET", "/workloads/job-1", things.status())
    api.refuse("GET", "/workloads/typo", 404, "WORKLOAD_MANAGEMENT_NOT_FOUND", "No workload typo.")
    run = cli("wait", "job-1", "typo")
    assert (run.code, run.err) == (2, "No workload typo.\n")
    api.refuse("GET", "/workloads/job-1", 401, "UNAUTHORIZED", "The token is unknown.")
    assert cli("wait", "job-1").code == 2


@pytest.mark.req("OPEN-053")
def test_an_api_that_is_not_there_gives_two(cli: Any, api: Any) -> None:
    api.close()
    run = cli("wait", "job-1")
    assert run.code == 2
    assert "`anycloud api start`" in run.err


@pytest.mark.req("OPEN-053")
def test_the_timeout_gives_four_and_what_is_waited_for_goes_on(cli: Any, api: Any, things: Any) -> None:
    api.on("GET", "/workloads/job-1", things.status(state="running"))
    run = cli("wait", "job-1", "--timeout", "10s")
    said = "The time given is over; what wasn't reached goes on: job-1 (running).\n"
    assert run == (4, "job-1  running\n", said)
    assert cli.clock.elapsed == 10
    assert {request.method for request in api.requests} == {"GET"}


@pytest.mark.req("OPEN-053")
def test_an_interrupt_gives_130(cli: Any, api: Any, things: Any) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    cli.clock.on_sleep = interrupt
    api.on("GET", "/workloads/job-1", things.status())
    assert cli("wait", "job-1") == (130, "job-1  queued\n", "Interrupted.\n")


def test_all_are_waited_for_also_when_one_ended_otherwise(cli: Any, api: Any, things: Any) -> None:
    api.on("GET", "/workloads/job-1", things.status(state="errored"))
    api.on("GET", "/workloads/job-2", things.status(), things.status(state="completed"))
    run = cli("wait", "job-1", "job-2")
    assert (run.code, run.out.splitlines()[-1]) == (1, "job-2  completed")


def test_records_tell_the_retry_the_reason_and_the_outcome(cli: Any, api: Any, things: Any) -> None:
    retry = {"attempt": 2, "earliestAt": 1, "latestAt": 2}
    events = [things.event(1, "terminated", reason="claim-deadline-expired")]
    api.on(
        "GET",
        "/workloads/job-1",
        things.status(more={"jobsAhead": 3}),
        things.status(state="retrying", more={"retry": retry}),
        things.status(state="terminated", events=events),
    )
    records = cli("wait", "job-1", "--json").records
    times = [record.pop("at") for record in records]
    assert times == sorted(times)
    assert records == [
        {"type": "state", "ref": "job-1", "state": "queued", "jobsAhead": 3},
        {"type": "state", "ref": "job-1", "state": "retrying", "retry": retry},
        {"type": "state", "ref": "job-1", "state": "terminated", "reason": "claim-deadline-expired"},
        {
            "type": "result",
            "ref": "job-1",
            "state": "terminated",
            "outcome": "ended",
            "reason": "claim-deadline-expired",
        },
    ]


def test_after_half_an_hour_of_silence_there_is_a_heartbeat(cli: Any, api: Any, things: Any) -> None:
    def end() -> None:
        if cli.clock.elapsed > 3700:
            api.on("GET", "/workloads/job-1", things.status(state="completed"))

    cli.clock.on_sleep = end
    api.on("GET", "/workloads/job-1", things.status(state="running"))
    records = cli("wait", "job-1", "--json").records
    beats = [(record["at"] - records[0]["at"]) // 1000 for record in records if record["type"] == "heartbeat"]
    assert len(beats) == 2
    assert all(1800 * number <= beat <= 1800 * number + 4 for number, beat in enumerate(beats, start=1))


def test_a_restarting_api_is_borne_with_and_told_once(cli: Any, api: Any, things: Any) -> None:
    api.on("GET", "/workloads/job-1", things.status())

    def step() -> None:
        if cli.clock.elapsed < 60:
            api.refuse("GET", "/workloads/job-1", 503, "API_RESTARTING", "Restarting.")
        else:
            api.on("GET", "/workloads/job-1", things.status(state="completed"))

    cli.clock.on_sleep = step
    records = cli("wait", "job-1", "--json").records
    assert [record["type"] for record in records] == ["state", "observer", "state", "result"]


def test_an_api_that_stays_away_ends_the_wait_with_two(cli: Any, api: Any, things: Any) -> None:
    api.on("GET", "/workloads/job-1", things.status())
    cli.clock.on_sleep = lambda: api.refuse("GET", "/workloads/job-1", 503, "API_RESTARTING", "Restarting.")
    assert cli("wait", "job-1").code == 2
    assert 110 < cli.clock.elapsed < 130
