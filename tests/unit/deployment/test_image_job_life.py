"""What the objects of a run say of it, and the transitions that follow: pure functions."""

from __future__ import annotations

from typing import Any

import pytest
from anycloud_common.kube import names
from anycloud_deployment.domain import facts, image_jobs, job_manifest
from anycloud_deployment.domain.image_jobs import NO_POD, REMOVED, STOPPING, UNSCHEDULED, ImageJob, Reason, Seen
from anycloud_deployment.domain.job_manifest import Place
from anycloud_deployment.domain.model import DockerOptions, JobFact, JobPodFact, NodeFact, Resources, Spec

PLACE = Place("job-abcdefghijkl", "nightly.2026", "anycloud-node-pool-np-1-0123456789", "np-1")
SMALL = Resources(0, 100, False, 134_217_728, False)
JOB = JobFact("job-uid")
NODE = NodeFact("node-1", "node-uid", "attempt-1", True)
LOST = NodeFact("node-1", "node-uid", "attempt-1", False)


def pod(**facts: Any) -> JobPodFact:
    return JobPodFact(**{"uid": "p", "name": "p", "namespace": "ns", "node": "node-1", "created_at": "1", **facts})


def job(**values: Any) -> ImageJob:
    return ImageJob(**{"id": "j", "run": "r", "node_pool_id": "np-1", "node_pool_name": "p", **_FRESH, **values})


_FRESH = {"submission_revision": 0, "state": "queued"}


@pytest.mark.req("WK-008", "WK-010")
@pytest.mark.parametrize(
    ("batch", "pods", "node", "seen"),
    [
        (JOB, [], None, Seen("queued", NO_POD)),
        (JOB, [pod(node=None)], None, Seen("queued", UNSCHEDULED)),
        (JOB, [pod(node=None, unschedulable="0/3")], None, Seen("queued", "Kubernetes can't place the Pod: 0/3")),
        (JOB, [pod()], NODE, Seen("starting", image_jobs.CONTAINER_STARTING)),
        (JOB, [pod(waiting="ContainerCreating")], NODE, Seen("starting", image_jobs.CONTAINER_STARTING)),
        (JOB, [pod(waiting="ErrImagePull", waiting_message="no")], NODE, Seen("downloading", "ErrImagePull: no")),
        (JOB, [pod(waiting="ImagePullBackOff")], NODE, Seen("downloading", "ImagePullBackOff.")),
        (JOB, [pod(waiting="RunContainerError", waiting_message="x")], NODE, Seen("starting", "RunContainerError: x")),
        (JOB, [pod(running=True)], NODE, Seen("running")),
        (JOB, [pod(running=True, deleting=True)], NODE, Seen("running", STOPPING)),
        (JOB, [pod(ended=True, exit_code=0)], NODE, Seen("completed", exit_code=0)),
        (JOB, [pod(ended=True, exit_code=3, crashed="it ended with 3.")], NODE, Seen("errored", "It ended with 3.", 3)),
        (JOB, [pod(ended=True, exit_code=137, failed="evicted")], NODE, Seen("failed", "Evicted", 137)),
        (JobFact("u", over="complete"), [], None, Seen("completed")),
        (JobFact("u", over="failed", why="too often"), [], None, Seen("failed", "Too often")),
        (JobFact("u", over="failed", why="x"), [pod(failed="evicted")], None, Seen("failed", "Evicted")),
        (JobFact("u", deleting=True), [], None, Seen("failed", REMOVED)),
        (None, [], None, Seen("failed", REMOVED)),
        (None, [pod(running=True)], NODE, Seen("running")),
        (None, [pod(ended=True, exit_code=0)], NODE, Seen("completed", exit_code=0)),
    ],
)  # fmt: skip
def test_each_state_of_the_objects_has_its_state(
    batch: JobFact | None, pods: list[JobPodFact], node: NodeFact | None, seen: Seen
) -> None:
    assert image_jobs.judge(batch, pods, node) == seen


@pytest.mark.parametrize("node", [None, LOST])
@pytest.mark.parametrize(("running", "state"), [(True, "running"), (False, "starting")])
def test_a_node_that_is_silent_ends_nothing_and_is_told(node: NodeFact | None, running: bool, state: str) -> None:
    seen = image_jobs.judge(JOB, [pod(running=running)], node)
    assert (seen.state, seen.final) == (state, False)
    assert seen.message is not None and "node-1 isn't heard of" in seen.message


def test_what_was_said_last_of_a_container_whose_end_nobody_saw_is_kept() -> None:
    told = image_jobs.judge(JOB, [pod(running=True, failed="PodGC: node no longer exists")], None)
    assert told == Seen("running", "PodGC: node no longer exists")
    running = job(state="running", running_since=1, message=told.message)
    over = image_jobs.observed(running, Seen("failed", "Too often"), now=5)
    assert over is not None and over.job.message == "Too often. Before that: PodGC: node no longer exists"
    assert image_jobs.observed(job(message=NO_POD), Seen("failed", REMOVED), now=5).job.message == REMOVED  # type: ignore[union-attr]


def test_the_pod_that_ran_is_the_one_that_counts() -> None:
    mine, another = pod(uid="a", ended=True, exit_code=0), pod(uid="b", created_at="2", running=True)
    assert image_jobs.newest([another, mine]) == mine


def test_a_container_that_ran_never_waits_again_and_the_first_cause_of_a_pull_stays() -> None:
    ran = image_jobs.observed(job(), Seen("running"), now=5)
    assert ran is not None and (ran.job.state, ran.job.running_since, ran.reason) == ("running", 5, Reason.OBSERVED)
    back = image_jobs.observed(ran.job, Seen("queued", NO_POD), now=9)
    assert back is not None and (back.job.state, back.job.running_since) == ("running", 5)
    assert back.job.message == image_jobs.POD_MISSING
    silent = image_jobs.observed(ran.job, Seen("running", "Node n isn't heard of."), now=9)
    assert silent is not None
    assert image_jobs.observed(silent.job, Seen("queued", NO_POD), now=9) is None, "what was said of it stays"
    first = image_jobs.observed(job(), Seen("downloading", "ErrImagePull: no such image"), now=5)
    assert first is not None
    assert image_jobs.observed(first.job, Seen("downloading", "ImagePullBackOff: back-off"), now=6) is None


def test_a_terminal_state_is_written_once() -> None:
    over = image_jobs.observed(job(), Seen("completed", exit_code=0), now=5)
    assert over is not None and (over.job.completed_at, over.reason) == (5, Reason.ENDED)
    assert image_jobs.observed(over.job, Seen("failed", REMOVED), now=6) is None
    assert image_jobs.terminate(over.job, now=6) is None
    assert image_jobs.cleaned(over.job, now=7).job.state == "completed"


@pytest.mark.req("WK-013")
def test_a_job_that_is_stopped_is_terminated_with_its_objects_and_not_before() -> None:
    asked = image_jobs.terminate(job(state="running", running_since=1), now=5)
    assert asked is not None and (asked.job.state, asked.job.completed_at) == ("finalizing", None)
    assert image_jobs.terminate(asked.job, now=6) is None, "asked already"
    assert image_jobs.observed(asked.job, Seen("running", STOPPING), now=6) is None
    over = image_jobs.cleaned(asked.job, now=7).job
    assert (over.state, over.completed_at, over.cleaned_at) == ("terminated", 7, 7)


def test_a_time_limit_counts_from_the_start_of_the_container() -> None:
    waiting = job(time_limit_s=10)
    assert waiting.overdue_at is None
    running = job(time_limit_s=10, state="running", running_since=1000)
    assert running.overdue_at == 11_000
    assert image_jobs.overdue(running, now=10_999) is None
    asked = image_jobs.overdue(running, now=11_000)
    assert asked is not None and asked.reason == Reason.TIME_LIMIT
    over = image_jobs.cleaned(asked.job, now=12_000).job
    assert (over.state, over.message) == ("failed", "It ran longer than its time limit of 10 s.")


@pytest.mark.req("WK-007", "WK-008", "WK-009", "AD-037", "AD-040")
def test_the_batch_job_is_this() -> None:
    labels = {"app.kubernetes.io/managed-by": "anycloud", "anycloud.sh/job": PLACE.run}
    spec = Spec(image="acme/batch:v1", command=("python", "$(A)", "--json"), env={"A": "1"})
    assert job_manifest.job(PLACE, spec, Resources(2, 2000, False, 1 << 30, True)) == {
        "metadata": {
            "name": PLACE.run,
            "namespace": PLACE.namespace,
            "labels": labels,
            "annotations": {"anycloud.sh/intent": f"{PLACE.run}/Job", "anycloud.sh/workload": "nightly.2026"},
        },
        "spec": {
            "completions": 1,
            "parallelism": 1,
            "backoffLimit": 0,
            "podReplacementPolicy": "Failed",
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    **names.pool_placement("np-1"),
                    "automountServiceAccountToken": False,
                    "enableServiceLinks": False,
                    "dnsPolicy": "Default",
                    "restartPolicy": "Never",
                    "runtimeClassName": "nvidia",
                    "volumes": [],
                    "containers": [
                        {
                            "name": "app",
                            "image": "acme/batch:v1",
                            "args": ["python", "$$(A)", "--json"],
                            "env": [{"name": "A", "value": "1"}],
                            "resources": {
                                "requests": {"cpu": "2000m", "memory": "1073741824", "nvidia.com/gpu": "2"},
                                "limits": {"memory": "1073741824", "nvidia.com/gpu": "2"},
                            },
                            "securityContext": {
                                "allowPrivilegeEscalation": False,
                                "seccompProfile": {"type": "RuntimeDefault"},
                            },
                            "volumeMounts": [],
                            "terminationMessagePolicy": "FallbackToLogsOnError",
                        }
                    ],
                },
            },
        },
    }


@pytest.mark.req("WK-007", "SC-008", "OPEN-077")
def test_a_cpu_job_asks_for_no_device_and_reads_its_secrets_by_name() -> None:
    options = DockerOptions(binds=("/data",), shm_size="64m", privileged=True)
    made = job_manifest.job(PLACE, Spec("img", secrets=("db",), options=options), SMALL)["spec"]["template"]["spec"]
    [container] = made["containers"]
    assert "runtimeClassName" not in made
    assert container["resources"] == {"requests": {"cpu": "100m", "memory": "134217728"}}
    assert container["envFrom"] == [{"secretRef": {"name": PLACE.run}}]
    assert container["securityContext"] == {"privileged": True}
    assert [mount["mountPath"] for mount in container["volumeMounts"]] == ["/dev/shm", "/data"]
    assert job_manifest.secret(PLACE, {"URL": "x"})["data"] == {"URL": "eA=="}


def native(**status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "n", "namespace": "ns", "uid": "u"}, "spec": {"nodeName": "node-1"}, "status": status}


def container(**state: Any) -> list[dict[str, Any]]:
    return [{"name": "app", "state": state}]


def test_a_pods_end_is_the_kubelets_word_not_the_garbage_collectors() -> None:
    over = {"exitCode": 3, "reason": "Error", "message": "last words\n"}
    ended = facts.job_pod(native(phase="Failed", containerStatuses=container(terminated=over)))
    assert (ended.ended, ended.exit_code, ended.failed) == (True, 3, None)
    assert ended.crashed == "the container ended with exit code 3 (Error): last words"
    collected = facts.job_pod(
        native(
            phase="Failed",
            containerStatuses=container(running={}),
            conditions=[{"type": "DisruptionTarget", "status": "True", "message": "PodGC: node no longer exists"}],
        )
    )
    assert (collected.ended, collected.failed) == (False, "PodGC: node no longer exists")
    evicted = facts.job_pod(native(phase="Failed", reason="Evicted", message="low on memory"))
    assert evicted.failed == "low on memory"


@pytest.mark.parametrize(
    ("conditions", "over", "why"),
    [
        ([], None, None),
        ([{"type": "FailureTarget", "status": "True", "message": "soon"}], None, None),
        ([{"type": "Complete", "status": "True"}], "complete", None),
        (
            [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "limit"}],
            "failed",
            "limit",
        ),
        ([{"type": "Failed", "status": "False"}], None, None),
    ],
)
def test_a_batch_job_is_over_by_its_conditions(
    conditions: list[dict[str, str]], over: str | None, why: str | None
) -> None:
    read = facts.job(native(conditions=conditions))
    assert (read.over, read.why) == (over, why)
