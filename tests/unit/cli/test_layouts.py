"""What people read, character by character."""

from __future__ import annotations

from typing import Any

import pytest
from anycloud_cli.durations import age, parse

LIST = """\
NAME     ID           NODE POOL  REVISION  JOBS  AGE  STATE
whisper  dep-whisper  np-gpu     1         2/2   3h
voice    dep-voice    np-gpu     3         1/2   3h
rerank   dep-rerank   np-gpu     3         1/2   3h   terminated · releasing
old      dep-old      np-gpu     1         0/2   3h   terminated
"""

STATUS = """
⚡  running

   Name             voice
   ID               dep-voice
   Node pool        np-gpu
   Image            ghcr.io/acme/model:v3
   Revision         3
   Jobs             1/2 · 1 queued
   Readiness probe  exec: ["/app/check-ready"] (periodSeconds=2)
   Age              3h
   Waiting on       job-7f3a (running)

   Upgrade 2 · ghcr.io/acme/model:v3
   ◌ pod  starting: Waiting for Jobs on the previous revision to finish and be cleaned up; new Jobs wait.
"""

WAITING = "Waiting for Jobs on the previous revision to finish and be cleaned up; new Jobs wait."


@pytest.fixture
def upgrading(things: Any) -> dict[str, Any]:
    """The Deployment of the specification's sample."""
    blocking = {"jobs": [{"id": "job-7f3a", "state": "running", "executionId": "e", "generation": 2}], "total": 1}
    seen = things.seen(
        ready=False,
        appliedGeneration=2,
        podGeneration=2,
        reason=WAITING,
        blockingJobs=blocking,
        upgrade={"number": 2, "state": "starting"},
    )
    return dict(
        things.deployment(
            jobs={"queued": 1, "retrying": 0, "running": 1, "terminal": 0, "unreleased": 1},
            readinessProbe={"exec": {"command": ["/app/check-ready"]}, "periodSeconds": 2},
            status=seen,
        )
    )


@pytest.mark.req("DP-073", "DP-074", "DP-076", "CLI-010", "CLI-013")
def test_the_list_of_deployments_is_the_specifications(cli: Any, api: Any, things: Any) -> None:
    jobs = {"queued": 0, "retrying": 0, "running": 2, "terminal": 0, "unreleased": 2}
    none = {**jobs, "unreleased": 0}
    api.on(
        "GET",
        "/deployments",
        {
            "deployments": [
                things.deployment(name="whisper", id="dep-whisper", generation=1, jobs=jobs),
                things.deployment(),
                things.deployment(name="rerank", id="dep-rerank", deletionRequestedAt=1),
                things.deployment(
                    name="old", id="dep-old", generation=1, jobs=none, deletionRequestedAt=1, deletedAt=2
                ),
            ]
        },
    )
    assert cli("deployment", "list") == (0, LIST, "")


@pytest.mark.req("DP-074")
def test_slots_are_those_of_all_replicas(cli: Any, api: Any, things: Any) -> None:
    api.on("GET", "/deployments", {"deployments": [things.deployment(replicas=3)]})
    assert " 1/6 " in cli("deployment", "list").out


@pytest.mark.req("DP-091", "DP-092", "DP-093", "DP-094", "DP-079", "CLI-012")
def test_the_status_of_a_deployment_is_the_specifications(cli: Any, api: Any, upgrading: dict[str, Any]) -> None:
    api.on("GET", "/deployments/voice", {"deployment": upgrading})
    assert cli("deployment", "status", "voice") == (0, STATUS, "")


@pytest.mark.req("DP-099", "DP-100", "DP-101")
def test_verbose_splits_the_revision_and_shows_the_pod(cli: Any, api: Any, upgrading: dict[str, Any]) -> None:
    api.on("GET", "/deployments/voice", {"deployment": upgrading})
    lines = cli("deployment", "status", "voice", "--verbose").out.splitlines()
    assert "   Revision         3 requested · 2 applied · 2 in Pod" in lines
    assert "   Pod              dep-voice-1" in lines
    assert "   Pod UID          aa-bb" in lines
    assert "   Container ID     containerd://c1" in lines
    assert "   Waiting on       job-7f3a (running, revision 2)" in lines
    assert len(api.requests) == 1


def _blocking(count: int, state: str = "running") -> dict[str, Any]:
    jobs = [{"id": f"job-{number}", "state": state, "executionId": None, "generation": 2} for number in range(count)]
    return {"jobs": jobs[:10], "total": count}


@pytest.mark.req("DP-090")
def test_three_blocking_jobs_are_named(cli: Any, api: Any, things: Any) -> None:
    seen = things.seen(blockingJobs=_blocking(4))
    api.on("GET", "/deployments/voice", {"deployment": things.deployment(status=seen)})
    line = "   Waiting on       job-0 (running), job-1 (running), job-2 (running) · 1 more"
    assert line in cli("deployment", "status", "voice").out.splitlines()


@pytest.mark.req("DP-100")
def test_verbose_names_ten_blocking_jobs(cli: Any, api: Any, things: Any) -> None:
    seen = things.seen(blockingJobs=_blocking(11))
    api.on("GET", "/deployments/voice", {"deployment": things.deployment(status=seen)})
    out = cli("deployment", "status", "voice", "--verbose").out
    assert out.count("(running, revision 2)") == 10


@pytest.mark.req("DP-102")
def test_a_finished_job_that_blocks_is_cleaning_up(cli: Any, api: Any, things: Any) -> None:
    seen = things.seen(blockingJobs=_blocking(1, "completed"))
    api.on("GET", "/deployments/voice", {"deployment": things.deployment(status=seen)})
    assert "   Waiting on       job-0 (cleaning up)" in cli("deployment", "status", "voice").out.splitlines()


PROBE = "Waiting for the readiness probe to pass; new Jobs wait."


@pytest.mark.req("DP-085", "DP-089")
@pytest.mark.parametrize(
    ("changes", "first", "last"),
    [
        ({"ready": False, "reason": PROBE}, "⚡  running", f"   ✗ ready  {PROBE}"),
        ({}, "⚡  running", "   ✓ ready  The Pod is ready."),
        ({"state": "starting", "reason": "Pulling."}, "⚡  starting", "   ◌ pod  starting: Pulling."),
        ({"state": "failed", "reason": "CrashLoopBackOff"}, "⚡  failed", "   ✗ pod  failed: CrashLoopBackOff"),
        ({"state": "unknown", "reason": "No answer."}, "⚡  unknown", "   ◌ pod  unknown: No answer."),
        (
            {"state": "terminated", "releasing": True, "reason": "Waiting for Jobs."},
            "⚡  terminated · releasing",
            "   ◌ releasing  Waiting for Jobs.",
        ),
        (
            {"state": "terminated", "reason": "Deleted."},
            "⚡  terminated",
            "   ✓ deleted  Deleted.",
        ),
        (
            {"state": "failed", "upgrade": {"number": 2, "state": "failed"}, "reason": "ImagePullBackOff"},
            "⚡  failed",
            "   ✗ pod  failed: ImagePullBackOff",
        ),
        (
            {"upgrade": {"number": 2, "state": "running"}, "ready": False, "reason": PROBE},
            "⚡  running",
            f"   ✗ ready  {PROBE}",
        ),
        ({"upgrade": {"number": 2, "state": "running"}}, "⚡  running", "   ✓ pod  running"),
    ],
)
def test_status_gives_the_reason_of_every_state(
    cli: Any, api: Any, things: Any, changes: dict[str, Any], first: str, last: str
) -> None:
    api.on("GET", "/deployments/voice", {"deployment": things.deployment(status=things.seen(**changes))})
    lines = cli("deployment", "status", "voice").out.splitlines()
    assert (lines[1], lines[-1]) == (first, last)


@pytest.mark.req("SC-004")
def test_status_names_secrets(cli: Any, api: Any, things: Any) -> None:
    found = things.deployment(status=things.seen(), secretNames=["model-db", "keys"])
    api.on("GET", "/deployments/voice", {"deployment": found})
    assert "   Secrets          model-db, keys" in cli("deployment", "status", "voice").out.splitlines()


@pytest.mark.req("DP-110", "SC-005")
def test_json_is_complete_and_wins_over_verbose(cli: Any, api: Any, upgrading: dict[str, Any]) -> None:
    api.on("GET", "/deployments/voice", {"deployment": upgrading})
    assert cli("deployment", "status", "voice", "--verbose", "--json").json == {"deployment": upgrading}


CLUSTER = """
⚡  running

   Name:       prod
   ID:         cl-abc
   Cloud:      AWS us-east-1/us-east-1a
   VM:         t3.large
   Address:    127.4.0.1
   Kubernetes: v1.35.2+k3s1
   API:        0.1.70
   URL:        https://cl-abc.anycloud.sh
   Node pools: 0
   Age:        3h

   Next: anycloud api use https://cl-abc.anycloud.sh
"""


@pytest.mark.req("CL-055", "CL-091")
def test_the_status_of_a_running_cluster_ends_with_its_url_and_the_next_step(cli: Any, api: Any, things: Any) -> None:
    api.on("GET", "/clusters/prod", {"cluster": things.cluster(zone="us-east-1a")})
    assert cli("cluster", "status", "prod") == (0, CLUSTER, "")


@pytest.mark.req("CL-094")
def test_a_hosted_apis_own_cluster_is_shown_without_what_only_its_installer_knows(
    cli: Any, api: Any, things: Any
) -> None:
    own = things.cluster(cloudProvider=None, region=None, zone=None, vmType=None)
    api.on("GET", "/clusters/prod", {"cluster": own})
    api.on("GET", "/clusters", {"clusters": [own]})
    out = cli("cluster", "status", "prod").out
    assert "Cloud:" not in out
    assert "VM:" not in out
    assert "   Address:    127.4.0.1\n" in out
    assert cli("cluster", "list").out.splitlines()[1].split() == [
        "prod", "cl-abc", "-", "-", "3h", "127.4.0.1", "0.1.70", "running",
    ]  # fmt: skip


@pytest.mark.req("CL-135")
@pytest.mark.parametrize(
    ("error", "step"),
    [
        ("Delete failed: the VM is locked.", "anycloud cluster delete prod"),
        (
            "K3s didn't start.",
            "anycloud cluster create prod --credentials <name> --region us-east-1 --vm-type t3.large",
        ),
    ],
)
def test_a_failed_cluster_shows_the_error_and_the_way_on(
    cli: Any, api: Any, things: Any, error: str, step: str
) -> None:
    api.on("GET", "/clusters/prod", {"cluster": things.cluster(state="failed", lastError=error)})
    lines = cli("cluster", "status", "prod").out.splitlines()
    assert f"   Last error: {error}" in lines
    assert lines[-1] == f"   Next: {step}"


@pytest.mark.req("CL-090")
def test_the_list_of_clusters_has_location_type_age_address_version_and_state(cli: Any, api: Any, things: Any) -> None:
    ending = things.cluster(name="old", id="cl-old", state="terminated", releasing=True, zone="us-east-1b")
    api.on("GET", "/clusters", {"clusters": [things.cluster(), ending]})
    assert cli("cluster", "list").out == (
        "NAME  ID      LOCATION                  VM TYPE   AGE  ADDRESS    API     STATE\n"
        "prod  cl-abc  AWS us-east-1             t3.large  3h   127.4.0.1  0.1.70  running\n"
        "old   cl-old  AWS us-east-1/us-east-1b  t3.large  3h   127.4.0.1  0.1.70  terminated · releasing\n"
    )


POOL = """
⚡  running

   Name:       training
   ID:         np-gpu
   Cluster:    cl-abc
   Cloud:      AWS us-east-1/us-east-1a
   VM type:    g5.xlarge
   VMs:        1 ready · 1 starting · 2 draining
   Used by:    1 Deployment or Service
   Age:        3h
   Last error: A Node is missing.
"""


@pytest.mark.req("NP-060", "NP-061")
def test_the_status_of_a_pool_has_state_error_and_counts(cli: Any, api: Any, things: Any) -> None:
    counts = {"drainingVmCount": 2, "locations": [], "readyVmCount": 1, "startingVmCount": 1}
    api.on("GET", "/node-pools/training", {"nodePool": things.pool(capacity=counts, lastError="A Node is missing.")})
    assert cli("node-pool", "status", "training") == (0, POOL, "")


RELEASE: dict[str, Any] = {
    "state": "installed",
    "helmJob": {"phase": "Succeeded", "message": None},
    "daemonSet": {"desired": 1, "ready": 1, "entryNodeReady": True},
    "lastEvent": "Started: Started container traefik",
    "routes": 0,
}


@pytest.mark.req("OPEN-048")
@pytest.mark.parametrize(
    ("changes", "entry", "traefik"),
    [
        (
            {},
            "release installed (helm job Succeeded)",
            "1/1 ready, entry Node Ready — last event: Started: Started container traefik",
        ),
        (
            {"state": "failed", "helmJob": {"phase": "Failed", "message": "exit 1"}, "daemonSet": None},
            "release failed (helm job Failed: exit 1)",
            "0/0 ready, entry Node not Ready — last event: Started: Started container traefik",
        ),
        (
            {"state": "absent", "helmJob": None, "daemonSet": None, "lastEvent": "cluster unavailable: timed out"},
            "release absent",
            "0/0 ready, entry Node not Ready — last event: cluster unavailable: timed out",
        ),
    ],
)
def test_a_pool_with_services_shows_its_ingress_on_two_lines(
    cli: Any, api: Any, things: Any, changes: dict[str, Any], entry: str, traefik: str
) -> None:
    ingress = {"entryIp": "127.5.0.1", "release": {**RELEASE, **changes}}
    api.on("GET", "/node-pools/training", {"nodePool": things.pool(ingress=ingress)})
    assert cli("node-pool", "status", "training").out.splitlines()[-3:] == [
        "",
        f"   Ingress entry: 127.5.0.1 — {entry}",
        f"   Ingress Traefik: {traefik}",
    ]


def test_the_list_of_pools_shows_ready_over_wanted_vms(cli: Any, api: Any, things: Any) -> None:
    api.on("GET", "/node-pools", {"nodePools": [things.pool(state="terminated", releasing=True)]})
    assert cli("node-pool", "list").out == (
        "NAME      ID      LOCATION                  VM TYPE    VMS  AGE  STATE\n"
        "training  np-gpu  AWS us-east-1/us-east-1a  g5.xlarge  2/2  3h   terminated · releasing\n"
    )


JOB = """
⚡  terminated

   ID:         job-1
   Deployment: dep-voice
   Submitted:  3h ago
   Ended:      1h ago
   Reason:     claim-deadline-expired

   TIME (UTC)           STATE       DETAIL
   2026-09-21 13:13:20  queued
   2026-09-21 13:13:20  terminated  reason=claim-deadline-expired
"""


@pytest.mark.req("JB-013")
def test_the_status_of_a_job_shows_why_it_ended_and_its_events(cli: Any, api: Any, things: Any) -> None:
    events = [things.event(2, "terminated", reason="claim-deadline-expired"), things.event(1, "queued")]
    ended = things.status(events=events, state="terminated", completedAt=cli.clock.now_ms() - 3_600_000)
    api.on("GET", "/workloads/job-1", ended)
    assert cli("status", "job-1", "--verbose") == (0, JOB, "")
    assert api.requests[0].query == {"verbose": "true"}
    assert cli("status", "job-1", "--json").json == ended


def test_a_queued_job_shows_its_place(cli: Any, api: Any, things: Any) -> None:
    api.on("GET", "/workloads/job-1", things.status(more={"jobsAhead": 2}), things.status(more={"jobsAhead": 0}))
    assert "   Queue:      2 Jobs ahead" in cli("status", "job-1").out.splitlines()
    assert "   Queue:      next" in cli("status", "job-1").out.splitlines()


def test_text_from_outside_cannot_steer_the_terminal(cli: Any, api: Any, things: Any) -> None:
    api.on("GET", "/clusters/prod", {"cluster": things.cluster(state="failed", lastError="a\x1b[2Jb\nc")})
    out = cli("cluster", "status", "prod").out
    assert "\x1b" not in out
    assert "   Last error: a [2Jb c\n" in out


@pytest.mark.req("CLI-013")
@pytest.mark.parametrize(
    ("milliseconds", "shown"),
    [
        (0, "0s"),
        (59_999, "59s"),
        (60_000, "1m"),
        (3_599_000, "59m"),
        (10_800_000, "3h"),
        (172_800_000, "2d"),
        (-5, "0s"),
    ],
)
def test_ages_are_short(milliseconds: int, shown: str) -> None:
    assert age(1_000_000_000_000, 1_000_000_000_000 + milliseconds) == shown


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("90s", 90), ("1.5m", 90), ("2h", 7200), ("1d", 86400)])
def test_durations_are_seconds_or_have_a_unit(text: str, seconds: float) -> None:
    assert parse(text) == seconds


@pytest.mark.parametrize("text", ["", "h", "-1", "1w", "1h30m", "1e3"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse(text)
