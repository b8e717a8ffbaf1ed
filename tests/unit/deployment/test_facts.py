"""What Kubernetes' objects say."""

from __future__ import annotations

from typing import Any

import pytest
from anycloud_deployment.domain import facts

LABELS = {
    "app.kubernetes.io/managed-by": "anycloud",
    "anycloud.sh/deployment": "dep-1",
    "anycloud.sh/revision": "3",
}


def pod(phase: str = "Running", *, statuses: Any = None, **status: Any) -> dict[str, Any]:
    containers = [{"name": "app", "readinessProbe": {"exec": {"command": ["x"]}}}]
    return {
        "metadata": {
            "name": "dep-1-x",
            "namespace": "ns",
            "uid": "u",
            "labels": LABELS,
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"nodeName": "node-1", "containers": containers},
        "status": {"phase": phase, "containerStatuses": statuses or [], **status},
    }


def app(state: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
    return [{"name": "app", "state": state, **more}]


def test_a_running_container_is_read() -> None:
    found = facts.pod(pod(statuses=app({"running": {}}, ready=True, restartCount=2, containerID="c://1")), 9)
    assert (found.ready, found.running, found.restarts, found.restarts_seen_at) == (True, True, 2, 9)
    assert (found.container_id, found.generation, found.deployment_id, found.node) == ("c://1", 3, "dep-1", "node-1")
    assert (found.probed, found.ended, found.deleting) == (True, False, False)


def test_a_pod_without_status_is_read() -> None:
    found = facts.pod({"metadata": {"name": "x", "namespace": "ns", "uid": "u", "labels": LABELS}})
    assert (found.ready, found.running, found.restarts, found.node) == (False, False, 0, None)


@pytest.mark.parametrize(
    ("phase", "statuses", "ended"),
    [
        ("Succeeded", app({"terminated": {"exitCode": 0}}), True),
        ("Failed", app({"terminated": {"exitCode": 1}}), True),
        ("Failed", app({"running": {}}), False),
        ("Failed", [], False),
        ("Running", app({"terminated": {"exitCode": 1}}), False),
    ],
)
def test_only_a_kubelet_says_that_a_pod_is_over(phase: str, statuses: Any, ended: bool) -> None:
    """The garbage collector of Pods writes the phase of Pods on unseen Nodes, and no container's state."""
    assert facts.pod(pod(phase, statuses=statuses)).ended is ended


def test_a_ready_container_of_a_pod_that_is_over_is_not_ready() -> None:
    assert facts.pod(pod("Failed", statuses=app({"running": {}}, ready=True))).ready is False


def test_a_crash_is_told_with_its_last_words() -> None:
    ended = {"exitCode": 3, "reason": "Error", "message": "no model"}
    found = facts.pod(pod(statuses=app({"terminated": ended}, restartCount=1)))
    assert found.crashed == "the container ended with exit code 3 (Error): no model"


def test_an_unschedulable_pod_says_why() -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
    assert facts.pod(pod("Pending", conditions=[condition])).unschedulable == "0/1 nodes"


def test_a_replica_set_tells_availability_and_failure() -> None:
    condition = {"type": "ReplicaFailure", "status": "True", "message": "forbidden: privileged"}
    obj = {
        "metadata": {"labels": LABELS},
        "spec": {"replicas": 2},
        "status": {"availableReplicas": 1, "conditions": [condition]},
    }
    found = facts.replica_set(obj)
    assert (found.generation, found.wanted, found.available, found.failure) == (3, 2, 1, "forbidden: privileged")


def test_an_object_is_ours_by_labels_and_intent_only() -> None:
    metadata = {"uid": "u", "labels": LABELS, "annotations": {"anycloud.sh/intent": "dep-1/Secret"}}
    assert facts.native({"metadata": metadata}, "dep-1", "Secret").ours
    assert not facts.native({"metadata": metadata}, "dep-1", "Deployment").ours
    assert not facts.native({"metadata": {**metadata, "annotations": {}}}, "dep-1", "Secret").ours
    assert not facts.native({"metadata": {**metadata, "labels": {}}}, "dep-1", "Secret").ours
