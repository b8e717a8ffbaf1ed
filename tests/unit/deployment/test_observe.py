"""The status of a Deployment, as a table of what is stored and seen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from anycloud_deployment.domain import observe
from anycloud_deployment.domain.model import Block, Deployment, Natives, PodFact, ReplicaSetFact
from anycloud_deployment.domain.observe import Status, Upgrade, World

LIVE = Deployment(
    id="dep-1",
    name="voice",
    node_pool_id="np-1",
    node_pool_name="pool",
    created_by="user",
    created_at=0,
    updated_at=0,
    generation=1,
    applied=1,
    natives=Natives("ns", "uid"),
)
POD = PodFact(
    uid="pod-1",
    name="dep-1-x",
    namespace="ns",
    deployment_id="dep-1",
    generation=1,
    node="node-1",
    created_at="2026-01-01T00:00:00Z",
    deleting=False,
    ready=False,
    running=True,
    ended=False,
    restarts=0,
    restarts_seen_at=0,
    container_id="c-1",
    probed=False,
)
READY = replace(POD, ready=True)
UNREADABLE = World(error="Kubernetes didn't answer within one second.")


def pod(**facts: Any) -> PodFact:
    return replace(POD, **facts)


def seen(*pods: PodFact, failure: str | None = None) -> World:
    """Pods, and why the ReplicaSet can't make any."""
    return World(pods, [ReplicaSetFact(1, 1, 0, failure)], at=7)


def look(world: World, blocking: int = 0, **stored: Any) -> Status:
    return observe.status(replace(LIVE, **stored), world, blocking)


@pytest.mark.req("DP-077", "DP-089", "DP-031", "DP-018")
@pytest.mark.parametrize(
    ("world", "stored", "reason"),
    [
        (seen(), {"applied": None, "natives": Natives()}, observe.NO_POOL_NAMESPACE),
        (seen(), {"applied": None}, observe.NOT_APPLIED),
        (seen(), {"applied": None, "block": Block("Secret db doesn't exist.")}, "Secret db doesn't exist."),
        (seen(), {}, observe.NO_POD),
        (seen(failure="denied by policy"), {}, "Kubernetes refuses the Pod: denied by policy"),
        (seen(pod(node=None, running=False)), {}, observe.UNSCHEDULED),
        (
            seen(pod(node=None, running=False, unschedulable="0/2 nodes have free GPUs")),
            {},
            "Kubernetes can't place the Pod: 0/2 nodes have free GPUs",
        ),
        (seen(pod(running=False, waiting="ContainerCreating")), {}, observe.CONTAINER_STARTING),
        (seen(pod(running=False, waiting="ErrImagePull", waiting_message="no route")), {}, "ErrImagePull: no route"),
        (seen(pod(probed=True)), {}, observe.PROBE_FAILING),
        (seen(pod()), {}, observe.NOT_READY),
    ],
)
def test_a_first_revision_that_was_never_ready_is_starting_and_says_why(
    world: World, stored: dict[str, Any], reason: str
) -> None:
    status = look(world, **stored)
    assert (status.state, status.ready, status.reason, status.upgrade) == ("starting", False, reason, None)
    assert status.pending_reason == reason


@pytest.mark.req("DP-078", "DP-026")
def test_a_revision_that_has_rolled_out_is_running_and_ready() -> None:
    status = look(seen(READY), rolled_out=1)
    assert (status.state, status.ready, status.reason, status.ready_replicas) == ("running", True, observe.READY, 1)
    assert status.application_ready is None
    assert status.pending_reason is None


@pytest.mark.req("DP-077", "DP-078")
def test_a_first_revision_that_is_ready_is_running_before_its_rollout_is_stored() -> None:
    status = look(seen(READY))
    assert (status.state, status.ready, status.reason) == ("running", True, observe.READY)
    crashed = look(seen(pod(running=False, waiting="CrashLoopBackOff")))
    assert (crashed.state, crashed.ready) == ("failed", False)


@pytest.mark.req("DP-083")
def test_a_ready_pod_alone_is_no_rollout() -> None:
    status = look(seen(pod(generation=2, ready=True)), generation=2, applied=2, rolled_out=1)
    assert (status.ready, status.upgrade) == (True, Upgrade(1, "starting"))


@pytest.mark.req("DP-083")
@pytest.mark.parametrize(
    ("wanted", "available", "found"), [(1, 1, True), (2, 2, True), (2, 1, False), (1, 0, False), (0, 0, False)]
)
def test_a_replica_set_is_available_with_all_its_replicas(wanted: int, available: int, found: bool) -> None:
    assert observe.available([ReplicaSetFact(1, wanted, available, None)], 1) is found
    assert not observe.available([ReplicaSetFact(2, wanted, available, None)], 1)


@pytest.mark.req("DP-080")
@pytest.mark.parametrize(
    "facts",
    [
        {"waiting": "ImagePullBackOff", "waiting_message": "not found"},
        {"waiting": "CrashLoopBackOff"},
        {"waiting": "InvalidImageName"},
        {"crashed": "the container ended with exit code 1 (Error).", "restarts": 2},
    ],
)
def test_a_revision_that_cannot_start_has_failed_and_recovers_by_itself(facts: dict[str, Any]) -> None:
    status = look(seen(pod(running=False, **facts)))
    assert (status.state, status.ready) == ("failed", False)
    assert status.reason.startswith(facts.get("waiting", "CrashLoopBackOff"))
    assert look(seen(READY), rolled_out=1).state == "running"


@pytest.mark.req("DP-084", "DP-085", "DP-086")
@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"probed": True}, "Waiting for the readiness probe to pass; new Jobs wait."),
        ({"running": False, "waiting": "CrashLoopBackOff"}, "CrashLoopBackOff."),
        ({"running": False, "restarts": 1, "waiting": "ContainerCreating"}, observe.CONTAINER_STARTING),
        ({}, observe.NOT_READY),
    ],
)
def test_a_rolled_out_revision_that_loses_readiness_stays_running(facts: dict[str, Any], reason: str) -> None:
    status = look(seen(pod(**facts)), rolled_out=1)
    assert (status.state, status.ready, status.reason) == ("running", False, reason)


@pytest.mark.req("DP-079", "DP-094", "DP-095", "DP-106")
def test_an_upgrade_that_waits_for_jobs_leaves_it_running_and_is_starting() -> None:
    status = look(seen(READY), 2, generation=2, rolled_out=1)
    assert (status.state, status.ready) == ("running", False)
    assert status.reason == ("Waiting for Jobs on the previous revision to finish and be cleaned up; new Jobs wait.")
    assert status.upgrade == Upgrade(1, "starting")


@pytest.mark.req("DP-079")
@pytest.mark.parametrize(
    ("pods", "reason"),
    [
        ([pod(deleting=True)], observe.POD_STOPPING),
        ([], observe.NO_POD),
        ([pod(generation=2, running=False)], observe.CONTAINER_STARTING),
    ],
)
def test_a_replacement_under_way_is_running_with_a_starting_upgrade(pods: list[PodFact], reason: str) -> None:
    status = look(World(pods), generation=2, applied=2, rolled_out=1)
    assert (status.state, status.ready, status.reason) == ("running", False, reason)
    assert status.upgrade == Upgrade(1, "starting")


@pytest.mark.req("DP-080", "DP-130", "OPEN-063")
def test_an_upgrade_whose_revision_crashes_has_failed_and_so_has_the_deployment() -> None:
    crashing = pod(generation=2, running=False, waiting="CrashLoopBackOff")
    status = look(seen(crashing), generation=2, applied=2, rolled_out=1)
    assert (status.state, status.upgrade) == ("failed", Upgrade(1, "failed"))
    recovered = look(seen(pod(generation=2, ready=True)), generation=2, applied=2, rolled_out=2)
    assert (recovered.state, recovered.upgrade) == ("running", Upgrade(1, "running"))


@pytest.mark.req("OPEN-063")
def test_before_the_old_pod_is_replaced_its_trouble_does_not_fail_the_upgrade() -> None:
    status = look(seen(pod(waiting="CrashLoopBackOff", running=False)), 1, generation=2, rolled_out=1)
    assert (status.state, status.upgrade) == ("running", Upgrade(1, "starting"))


@pytest.mark.req("OPEN-062")
def test_an_upgrade_before_anything_was_ready_is_starting() -> None:
    status = look(seen(pod()), generation=2, applied=2)
    assert (status.state, status.upgrade) == ("starting", Upgrade(1, "starting"))


@pytest.mark.req("DP-081", "OPEN-064")
@pytest.mark.parametrize("world", [seen(READY), UNREADABLE])
def test_deletion_is_shown_from_stored_facts_whatever_kubernetes_says(world: World) -> None:
    waiting = look(world, 1, deletion_requested_at=5)
    assert (waiting.state, waiting.releasing, waiting.reason) == ("terminated", True, observe.RELEASING_JOBS)
    objects = look(world, deletion_requested_at=5)
    assert (objects.releasing, objects.reason) == (True, observe.RELEASING_OBJECTS)
    done = look(world, deletion_requested_at=5, deleted_at=6)
    assert (done.state, done.releasing, done.reason) == ("terminated", False, observe.DELETED)


@pytest.mark.req("DP-082", "OPEN-064")
def test_without_an_answer_in_time_the_state_is_unknown() -> None:
    status = look(UNREADABLE, rolled_out=1)
    assert (status.state, status.ready, status.observed) == ("unknown", False, False)
    assert (status.error, status.reason) == (UNREADABLE.error, UNREADABLE.error)
    assert (status.at, status.ready_replicas, status.pod) == (None, None, None)


@pytest.mark.req("DP-082")
def test_pods_that_no_revision_claims_leave_the_state_unknown() -> None:
    assert look(seen(pod(generation=None))).state == "unknown"


@pytest.mark.req("DP-107", "DP-111")
def test_the_probe_facts_are_those_of_the_observed_pod() -> None:
    assert look(seen(pod(probed=True))).application_ready is False
    assert look(seen(pod(probed=True, ready=True))).application_ready is True
    assert look(seen(READY)).application_ready is None


@pytest.mark.req("DP-052")
def test_a_block_that_nobody_but_a_person_can_lift_fails_a_revision_that_was_never_ready() -> None:
    block = Block("Namespace ns exists and does not belong to Anycloud", fatal=True)
    assert look(seen(), applied=None, natives=Natives(), block=block).state == "failed"
    assert look(seen(READY), block=block, rolled_out=1).state == "running"


def test_the_newest_pod_is_the_one_made_last_that_is_not_being_deleted() -> None:
    old, new = pod(uid="a"), pod(uid="b", created_at="2026-01-02T00:00:00Z")
    assert observe.newest([new, old]) == new
    assert observe.newest([replace(new, deleting=True), old]) == old
    assert observe.newest([]) is None


@pytest.mark.req("OPEN-060")
def test_all_replicas_have_to_be_ready() -> None:
    two = replace(READY, uid="pod-2")
    assert look(seen(READY), replicas=2, rolled_out=1).ready is False
    assert look(seen(READY, two), replicas=2, rolled_out=1).ready is True
