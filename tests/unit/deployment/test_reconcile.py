"""What the reconciler makes of a Deployment in Kubernetes, and what it leaves alone."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest
from anycloud_common.errors import ApiError
from anycloud_common.kube import KubeError
from anycloud_common.reconcile import Blocked, Done, Requeue
from anycloud_deployment.domain import manifest
from anycloud_deployment.domain.model import ReplicaSetFact
from anycloud_deployment.domain.observe import DRAINING, RELEASING_JOBS, RELEASING_OBJECTS
from anycloud_deployment.store import events
from anycloud_deployment.store.tables import deployments as table
from anycloudapi.common.v1 import types_pb2
from anycloudapi.deployment.v1 import deployments_pb2, secrets_pb2
from sqlalchemy import update

from tests.unit.deployment.fakes import POOL, Killed
from tests.unit.deployment.rig import NO_CONTEXT, Rig, execution

KEY = execution(1)
Status = deployments_pb2.Deployment.Status


async def save_secret(rig: Rig, name: str, **values: str) -> None:
    rig.act_as()
    request = secrets_pb2.SaveSecretRequest(name=name, secret=secrets_pb2.SecretValues(values=values))
    await rig.service.secrets_rpc.SaveSecret(request, NO_CONTEXT)


async def delete_secret(rig: Rig, name: str, *, force: bool = False) -> None:
    rig.act_as()
    request = secrets_pb2.DeleteSecretRequest(name=name, force=force)
    await rig.service.secrets_rpc.DeleteSecret(request, NO_CONTEXT)


def env_secret(rig: Rig, deployment_id: str) -> dict[str, str]:
    data: dict[str, str] = rig.cluster.body("Secret", deployment_id)["data"]
    return data


async def reasons(rig: Rig, deployment_id: str) -> list[str]:
    found, _ = await rig.store.read(lambda conn: events.newest(conn, "deployment", deployment_id, 50))
    return [event.reason for event in reversed(found)]


async def settled(rig: Rig, deployment_id: str) -> None:
    """Passes until one finds nothing to do."""
    for _ in range(10):
        before = len(rig.cluster.writes)
        outcome = await rig.reconcile(deployment_id)
        if isinstance(outcome, Requeue):
            await rig.clock.advance(outcome.after)
        elif outcome == Done() and len(rig.cluster.writes) == before:
            return
    raise AssertionError("the reconciler doesn't come to rest")


@pytest.mark.req("DP-050", "DP-051")
async def test_objects_are_made_in_the_pools_namespace_in_order(rig: Rig) -> None:
    deployment_id, _ = await rig.running()
    assert rig.cluster.writes == [("create", "ServiceAccount"), ("create", "Secret"), ("create", "Deployment")]
    assert {namespace for _, namespace, _ in rig.cluster.objects} == {POOL.namespace}
    assert await reasons(rig, deployment_id) == ["created", "revision-applied", "revision-rolled-out"]
    stored = await rig.stored(deployment_id)
    assert (stored.applied, stored.rolled_out) == (1, 1)


async def test_a_pass_that_finds_nothing_to_do_writes_nothing(rig: Rig) -> None:
    deployment_id, _ = await rig.running()
    rig.cluster.writes.clear()
    assert await rig.reconcile(deployment_id) == Done()
    assert rig.cluster.writes == []


async def test_nothing_is_written_before_nodepool_has_made_the_namespace(rig: Rig) -> None:
    rig.pools.pools["np-1"] = replace(POOL, namespace="", namespace_uid="")
    made = await rig.create()
    assert isinstance(await rig.reconcile(made.id), Blocked)
    assert rig.cluster.objects == {}
    rig.pools.pools["np-1"] = POOL
    await settled(rig, made.id)


@pytest.mark.req("DP-052")
async def test_a_foreign_namespace_fails_the_deployment_closed(rig: Rig) -> None:
    rig.pools.pools["np-1"] = replace(
        POOL, namespace="", namespace_error="Namespace pool-ns exists and does not belong to Anycloud."
    )
    made = await rig.create()
    await rig.reconcile(made.id)
    status = (await rig.get("voice")).status
    assert status.state == Status.STATE_FAILED
    assert status.reason == "Namespace pool-ns exists and does not belong to Anycloud."
    assert rig.cluster.objects == {}


@pytest.mark.parametrize("kind", ["ServiceAccount", "Secret", "Deployment"])
async def test_a_strangers_object_of_our_name_is_left_alone_and_named(rig: Rig, kind: str) -> None:
    made = await rig.create()
    rig.cluster.replace_object(kind, made.id)
    before = rig.cluster.body(kind, made.id)
    await rig.reconcile(made.id)
    status = (await rig.get("voice")).status
    assert status.state == Status.STATE_FAILED
    assert f"{kind} pool-ns/{made.id} exists and does not belong to Anycloud; remove it with `kubectl" in status.reason
    assert rig.cluster.body(kind, made.id) == before


@pytest.mark.req("DP-018")
async def test_what_the_clusters_policy_refuses_is_told(rig: Rig) -> None:
    made = await rig.create(docker_options=types_pb2.DockerOptions(privileged=True))
    rig.cluster.error = KubeError("forbidden", "create deployments.apps: denied by policy no-privileged")
    await rig.reconcile(made.id)
    rig.cluster.error = None
    status = (await rig.get("voice")).status
    assert status.reason == "Kubernetes refuses: create deployments.apps: denied by policy no-privileged"
    await settled(rig, made.id)
    assert (await rig.get("voice")).status.ready


@pytest.mark.parametrize("trouble", ["unsynced", "unreachable", "pools away"])
async def test_what_cannot_be_seen_is_tried_again_and_blames_nobody(rig: Rig, trouble: str) -> None:
    made = await rig.create()
    rig.cluster.synced = trouble != "unsynced"
    rig.cluster.error = KubeError("unreachable", "down") if trouble == "unreachable" else None
    rig.pools.away = trouble == "pools away"
    assert isinstance(await rig.reconcile(made.id), Requeue)
    assert (await rig.stored(made.id)).block is None
    rig.cluster.synced, rig.cluster.error, rig.pools.away = True, None, False
    await settled(rig, made.id)


@pytest.mark.req("DP-083", "DP-130", "OPEN-063")
async def test_a_container_that_ends_at_once_never_rolled_out(rig: Rig) -> None:
    made = await rig.create()
    await rig.reconcile(made.id)
    [pod] = rig.cluster.seen_pods(made.id)
    await rig.clock.advance(2)
    rig.cluster.change_pod(pod.uid, restarts=1)
    assert await rig.reconcile(made.id) == Requeue(3.0)
    await rig.clock.advance(2.9)
    assert isinstance(await rig.reconcile(made.id), Requeue)
    assert (await rig.stored(made.id)).rolled_out is None
    await rig.clock.advance(0.1)
    assert await rig.reconcile(made.id) == Done()
    assert (await rig.stored(made.id)).rolled_out == 1
    assert (await rig.get("voice")).status.state == Status.STATE_RUNNING


@pytest.mark.req("DP-083", "DP-078")
async def test_a_probe_that_has_passed_is_enough(rig: Rig) -> None:
    rig.cluster.controllers = False
    made = await rig.create()
    await rig.reconcile(made.id)
    rig.cluster.add_pod(made.id, probed=True)
    assert await rig.reconcile(made.id) == Done()
    assert (await rig.stored(made.id)).rolled_out is None
    rig.cluster.sets[made.id] = [ReplicaSetFact(1, 1, 1, None)]
    await rig.reconcile(made.id)
    assert (await rig.stored(made.id)).rolled_out == 1


async def test_an_edit_or_a_deletion_by_others_is_repaired(rig: Rig) -> None:
    deployment_id, _ = await rig.running()
    rig.cluster.touch("Deployment", deployment_id)
    await settled(rig, deployment_id)
    assert "edited" not in rig.cluster.body("Deployment", deployment_id)
    for kind in ("Deployment", "Secret"):
        del rig.cluster.objects[kind, POOL.namespace, deployment_id]
        await settled(rig, deployment_id)
        assert (kind, POOL.namespace, deployment_id) in rig.cluster.objects
    assert (await rig.stored(deployment_id)).generation == 1


@pytest.mark.req("DP-128", "DP-121", "DP-098")
async def test_an_upgrade_replaces_the_pod_only_after_its_jobs_are_cleaned_up(rig: Rig) -> None:
    deployment_id, pod = await rig.running()
    await rig.submit("voice", "job-1")
    await rig.pick_up(deployment_id, pod, KEY)
    await rig.update("voice", image="acme/model:v2")
    for _ in range(2):
        await rig.reconcile(deployment_id)
        assert rig.cluster.seen_pods(deployment_id) == [pod]
    status = (await rig.get("voice")).status
    assert (status.state, status.reason) == (Status.STATE_RUNNING, DRAINING)
    assert (status.requested_generation, status.applied_generation, status.pod_generation) == (2, 1, 1)
    await rig.report(deployment_id, pod, "job-1", KEY)
    await rig.reconcile(deployment_id)
    assert rig.cluster.seen_pods(deployment_id) == [pod], "a finished Job holds its slot"
    await rig.clean_up(deployment_id, pod, "job-1", KEY)
    await settled(rig, deployment_id)
    [new] = rig.cluster.seen_pods(deployment_id)
    assert new.generation == 2
    upgrade = (await rig.get("voice")).status.upgrade
    assert (upgrade.number, upgrade.state) == (1, Status.Upgrade.STATE_RUNNING)


async def test_while_an_upgrade_drains_the_applied_revision_is_repaired(rig: Rig) -> None:
    deployment_id, pod = await rig.running()
    await rig.submit("voice", "job-1")
    await rig.pick_up(deployment_id, pod, KEY)
    await rig.update("voice", image="acme/model:v2")
    rig.cluster.touch("Deployment", deployment_id)
    await rig.reconcile(deployment_id)
    spec = rig.cluster.body("Deployment", deployment_id)["spec"]["template"]["spec"]
    assert spec["containers"][0]["image"] == "acme/model:v1"
    assert rig.cluster.seen_pods(deployment_id) == [pod]


async def test_of_two_upgrades_in_a_row_the_latter_is_applied(rig: Rig) -> None:
    deployment_id, pod = await rig.running()
    await rig.submit("voice", "job-1")
    await rig.pick_up(deployment_id, pod, KEY)
    await rig.update("voice", image="acme/model:v2")
    await rig.reconcile(deployment_id)
    await rig.update("voice", image="acme/model:v3")
    await rig.report(deployment_id, pod, "job-1", KEY)
    await rig.clean_up(deployment_id, pod, "job-1", KEY)
    await settled(rig, deployment_id)
    assert [one.generation for one in rig.cluster.seen_pods(deployment_id)] == [3]
    assert await reasons(rig, deployment_id) == [
        "created",
        "revision-applied",
        "revision-rolled-out",
        "updated",
        "updated",
        "revision-applied",
        "revision-rolled-out",
    ]


async def test_earlier_holds_are_released_once_the_old_pods_are_gone(rig: Rig) -> None:
    deployment_id, _ = await rig.running()
    first = set(rig.holds.held)

    async def releasing() -> set[str]:
        of_owner = rig.service.admissions.of_owner
        found = await rig.store.read(lambda conn: of_owner(conn, "deployment", deployment_id))
        return {row.admission.id for row in found if row.state == "cancelling"}

    rig.cluster.controllers = False
    await rig.update("voice", image="acme/model:v2")
    await rig.reconcile(deployment_id)
    assert await releasing() == set(), "the old Pod is still there"
    rig.cluster.all_pods.clear()
    await rig.reconcile(deployment_id)
    assert await releasing() == set(), "its ReplicaSet would make another"
    rig.cluster.sets.clear()
    await rig.reconcile(deployment_id)
    assert await releasing() == first


def run_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    """What another version of the API may do."""
    pod = manifest._pod
    monkeypatch.setattr(manifest, "_pod", lambda *given: {**pod(*given), "priorityClassName": "high"})


@pytest.mark.req("DP-096", "DP-095")
async def test_another_way_to_run_replicas_starts_one_revision_by_itself(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment_id, _ = await rig.running()
    run_otherwise(monkeypatch)
    await rig.restart()
    for _ in range(3):
        await settled(rig, deployment_id)
    assert [pod.generation for pod in rig.cluster.seen_pods(deployment_id)] == [2]
    assert (await rig.stored(deployment_id)).generation == 2
    assert (await reasons(rig, deployment_id)).count("template-changed") == 1
    assert len(rig.holds.held) == 1, "the same admission carries it"


@pytest.mark.req("DP-098")
@pytest.mark.parametrize("upgraded", [False, True])
async def test_another_way_to_run_replicas_waits_for_running_jobs(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, upgraded: bool
) -> None:
    deployment_id, pod = await rig.running()
    await rig.submit("voice", "job-1")
    await rig.pick_up(deployment_id, pod, KEY)
    if upgraded:
        await rig.update("voice", image="acme/model:v2")
    run_otherwise(monkeypatch)
    await rig.restart()
    before = rig.cluster.body("Deployment", deployment_id)
    for _ in range(3):
        await rig.reconcile(deployment_id)
        assert rig.cluster.body("Deployment", deployment_id) == before
    await rig.report(deployment_id, pod, "job-1", KEY)
    await rig.clean_up(deployment_id, pod, "job-1", KEY)
    for _ in range(3):
        await settled(rig, deployment_id)
    assert rig.cluster.body("Deployment", deployment_id)["spec"]["template"]["spec"]["priorityClassName"] == "high"
    assert (await rig.stored(deployment_id)).generation == 2


@pytest.mark.req("DP-097", "DP-098")
@pytest.mark.parametrize("by_whom", ["deleted", "recreated"])
async def test_an_account_made_anew_starts_one_revision_that_drains_first(rig: Rig, by_whom: str) -> None:
    deployment_id, pod = await rig.running()
    await rig.submit("voice", "job-1")
    await rig.pick_up(deployment_id, pod, KEY)
    if by_whom == "deleted":
        del rig.cluster.objects["ServiceAccount", POOL.namespace, deployment_id]
    else:
        rig.cluster.replace_object("ServiceAccount", deployment_id)
    for _ in range(3):
        await rig.reconcile(deployment_id)
    assert (await rig.stored(deployment_id)).generation == 2
    assert rig.cluster.seen_pods(deployment_id) == [pod]
    await rig.report(deployment_id, pod, "job-1", KEY)
    await rig.clean_up(deployment_id, pod, "job-1", KEY)
    for _ in range(3):
        await settled(rig, deployment_id)
    assert [one.generation for one in rig.cluster.seen_pods(deployment_id)] == [2]
    assert (await reasons(rig, deployment_id)).count("service-account-recreated") == 1
    strangers = rig.cluster.objects["ServiceAccount", POOL.namespace, deployment_id].uid
    await rig.delete("voice")
    await rig.reconcile(deployment_id)
    left = rig.cluster.objects.get(("ServiceAccount", POOL.namespace, deployment_id))
    assert (left is not None and left.uid == strangers) == (by_whom == "recreated")


@pytest.mark.req("DP-133", "DP-134", "DP-135", "DP-081")
async def test_a_deletion_drains_then_removes_its_own_objects_only(rig: Rig) -> None:
    deployment_id, pod = await rig.running()
    sibling, _ = await rig.running("sibling")
    await rig.submit("voice", "job-1")
    await rig.pick_up(deployment_id, pod, KEY)
    await rig.delete("voice")
    assert await rig.reconcile(deployment_id) == Blocked(RELEASING_JOBS)
    assert ("Deployment", POOL.namespace, deployment_id) in rig.cluster.objects
    status = (await rig.get("voice")).status
    assert (status.state, status.releasing, status.reason) == (Status.STATE_TERMINATED, True, RELEASING_JOBS)
    await rig.report(deployment_id, pod, "job-1", KEY)
    await rig.clean_up(deployment_id, pod, "job-1", KEY)
    assert await rig.reconcile(deployment_id) == Done()
    assert {name for _, _, name in rig.cluster.objects} == {sibling}
    assert [one.owner.id for one in rig.holds.held.values()] != []
    status = (await rig.get(deployment_id)).status
    assert (status.state, status.releasing) == (Status.STATE_TERMINATED, False)


@pytest.mark.req("DP-134")
async def test_an_object_of_our_name_with_another_uid_is_not_deleted(rig: Rig) -> None:
    deployment_id, _ = await rig.running()
    for kind in ("Deployment", "Secret", "ServiceAccount"):
        rig.cluster.replace_object(kind, deployment_id)
    rig.cluster.all_pods.clear()
    rig.cluster.sets.clear()
    await rig.delete("voice")
    assert await rig.reconcile(deployment_id) == Done()
    assert len(rig.cluster.objects) == 3


@pytest.mark.req("OPEN-066")
async def test_a_deletion_waits_for_an_unreachable_cluster_and_for_the_pods(rig: Rig) -> None:
    deployment_id, _ = await rig.running()
    await rig.delete("voice")
    rig.cluster.error = KubeError("unreachable", "down")
    assert isinstance(await rig.reconcile(deployment_id), Requeue)
    assert len(rig.holds.held) == 1
    rig.cluster.error = None
    rig.cluster.controllers = False
    waiting = await rig.reconcile(deployment_id)
    assert isinstance(waiting, Blocked)
    assert waiting.reason == RELEASING_OBJECTS
    assert waiting.retry, "objects that no watch ever showed may be gone without a word"
    assert (await rig.stored(deployment_id)).deleted_at is None
    rig.cluster.all_pods.clear()
    rig.cluster.sets.clear()
    assert await rig.reconcile(deployment_id) == Done()
    await rig.service.admissions.recover()
    assert (await rig.stored(deployment_id)).deleted_at is not None


async def test_deleting_what_never_got_a_namespace_just_ends(rig: Rig) -> None:
    rig.pools.pools["np-1"] = replace(POOL, namespace="", namespace_uid="")
    made = await rig.create()
    await rig.reconcile(made.id)
    await rig.delete("voice")
    assert await rig.reconcile(made.id) == Done()


@pytest.mark.parametrize("lives", range(1, 8))
async def test_a_killed_reconciler_makes_and_removes_each_object_once(rig: Rig, lives: int) -> None:
    """Killed after its N-th write, and started again: no second object, nothing left behind."""
    made = await rig.create()
    rig.cluster.lives = lives
    deleted = False
    for _ in range(12):
        try:
            await rig.reconcile(made.id)
            if not deleted:
                await rig.delete(made.id)
                deleted = True
        except Killed:
            await rig.restart()
    assert rig.cluster.objects == {}
    assert (await rig.stored(made.id)).deleted_at is not None
    for kind in manifest.KINDS:
        assert rig.cluster.writes.count(("create", kind)) == 1


@pytest.mark.parametrize("lives", [1, 2, 3])
async def test_a_deployment_killed_while_being_made_and_then_deleted_leaves_nothing(rig: Rig, lives: int) -> None:
    made = await rig.create()
    rig.cluster.lives = lives
    with pytest.raises(Killed):
        await rig.reconcile(made.id)
    await rig.restart()
    await rig.delete("voice")
    assert await rig.reconcile(made.id) == Done()
    assert rig.cluster.objects == {}


@pytest.mark.parametrize("kind", ["Secret", "Deployment"])
async def test_an_object_whose_making_anew_was_killed_is_found_by_its_deletion(rig: Rig, kind: str) -> None:
    deployment_id, _ = await rig.running()
    del rig.cluster.objects[kind, POOL.namespace, deployment_id]
    rig.cluster.lives = 1
    with pytest.raises(Killed):
        await rig.reconcile(deployment_id)
    await rig.restart()
    await rig.delete("voice")
    assert await rig.reconcile(deployment_id) == Done()
    assert rig.cluster.objects == {}


async def test_a_lost_lease_drops_the_pass(rig: Rig) -> None:
    made = await rig.create()

    async def stolen() -> None:
        await rig.store.write(lambda tx: tx.conn.execute(update(table).values(lock_token="another")))

    rig.cluster.before_read = stolen
    assert isinstance(await rig.reconcile(made.id), Requeue)
    assert (await rig.stored(made.id)).natives.service_account_uid is None


@pytest.mark.req("SC-001", "SC-007", "SC-010", "SC-005")
async def test_the_deployments_secret_has_the_merged_values_of_all_it_names(rig: Rig) -> None:
    await save_secret(rig, "one", A="1", B="1")
    await save_secret(rig, "two", B="2")
    deployment_id, _ = await rig.running(secrets=["one", "two"])
    assert env_secret(rig, deployment_id) == manifest.encoded({"A": "1", "B": "2"})
    other_id, _ = await rig.running("other", secrets=["two", "one"])
    assert env_secret(rig, other_id) == manifest.encoded({"A": "1", "B": "1"})
    assert list((await rig.get("voice")).secret_names) == ["one", "two"]


@pytest.mark.req("SC-011", "SC-012", "SC-013", "SC-014", "SC-002", "OPEN-067")
async def test_a_saved_secret_reaches_the_deployments_secret_and_no_container_is_restarted(rig: Rig) -> None:
    await save_secret(rig, "db", A="1", B="1")
    deployment_id, pod = await rig.running(secrets=["db"])
    rig.cluster.writes.clear()
    rig.run_reconcilers()
    await save_secret(rig, "db", A="2")
    await rig.until(lambda: env_secret(rig, deployment_id) == manifest.encoded({"A": "2"}))
    assert rig.cluster.writes == [("apply", "Secret")]
    assert rig.cluster.seen_pods(deployment_id) == [pod]


@pytest.mark.req("SC-015")
async def test_an_upgrade_that_names_the_same_secret_moves_every_replica(rig: Rig) -> None:
    await save_secret(rig, "db", A="1")
    deployment_id, _ = await rig.running(secrets=["db"])
    await rig.update("voice", secrets=types_pb2.StringList(values=["db"]))
    await settled(rig, deployment_id)
    assert [pod.generation for pod in rig.cluster.seen_pods(deployment_id)] == [2]


@pytest.mark.req("SC-018")
async def test_a_secret_in_use_is_not_deleted(rig: Rig) -> None:
    await save_secret(rig, "db", A="1")
    deployment_id, pod = await rig.running(secrets=["db"])
    await rig.submit("voice", "job-1")
    await rig.pick_up(deployment_id, pod, KEY)
    await rig.delete("voice")
    await rig.reconcile(deployment_id)
    with pytest.raises(ApiError) as error:
        await delete_secret(rig, "DB")
    assert error.value.code == "SECRET_IN_USE"
    data: Any = error.value.data
    assert (data.name, list(data.workload_ids)) == ("db", [deployment_id])
    await rig.report(deployment_id, pod, "job-1", KEY)
    await rig.clean_up(deployment_id, pod, "job-1", KEY)
    await rig.reconcile(deployment_id)
    await delete_secret(rig, "db")


async def test_a_secret_that_a_draining_revision_names_is_in_use(rig: Rig) -> None:
    await save_secret(rig, "db", A="1")
    deployment_id, pod = await rig.running(secrets=["db"])
    await rig.submit("voice", "job-1")
    await rig.pick_up(deployment_id, pod, KEY)
    await rig.update("voice", secrets=types_pb2.StringList())
    with pytest.raises(ApiError):
        await delete_secret(rig, "db")
    await rig.report(deployment_id, pod, "job-1", KEY)
    await rig.clean_up(deployment_id, pod, "job-1", KEY)
    await settled(rig, deployment_id)
    await delete_secret(rig, "db")
    assert env_secret(rig, deployment_id) == {}


@pytest.mark.req("SC-019", "SC-020", "SC-021", "SC-022")
async def test_a_missing_secret_stops_rollout_and_repair_until_it_is_back(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    await save_secret(rig, "db", A="marker-value")
    deployment_id, pod = await rig.running(secrets=["db"])
    await delete_secret(rig, "db", force=True)
    rig.cluster.touch("Deployment", deployment_id)
    rig.cluster.writes.clear()
    with caplog.at_level(logging.WARNING):
        assert isinstance(await rig.reconcile(deployment_id), Blocked)
    assert [getattr(record, "secret", None) for record in caplog.records] == ["db"]
    assert rig.cluster.writes == []
    assert rig.cluster.seen_pods(deployment_id) == [pod]
    assert (await rig.get("voice")).status.state == Status.STATE_RUNNING
    with pytest.raises(ApiError, match="db"):
        await rig.update("voice", image="acme/model:v2")
    await save_secret(rig, "db", A="2")
    await settled(rig, deployment_id)
    assert "edited" not in rig.cluster.body("Deployment", deployment_id)
    await delete_secret(rig, "db", force=True)
    await rig.reconcile(deployment_id)
    await rig.update("voice", secrets=types_pb2.StringList())
    await settled(rig, deployment_id)
    assert [one.generation for one in rig.cluster.seen_pods(deployment_id)] == [2]


@pytest.mark.req("SC-023")
async def test_a_deployment_with_a_missing_secret_can_be_deleted(rig: Rig) -> None:
    await save_secret(rig, "db", A="1")
    deployment_id, _ = await rig.running(secrets=["db"])
    await delete_secret(rig, "db", force=True)
    await rig.reconcile(deployment_id)
    await rig.delete("voice")
    assert await rig.reconcile(deployment_id) == Done()


@pytest.mark.req("SC-003")
async def test_an_unknown_secret_refuses_create_and_update_before_anything_is_stored(rig: Rig) -> None:
    with pytest.raises(ApiError, match="nosuch") as error:
        await rig.create(secrets=["nosuch"])
    assert error.value.code == "DEPLOYMENT_INVALID"
    assert await rig.listed() == []
    made = await rig.create()
    with pytest.raises(ApiError, match="nosuch"):
        await rig.update("voice", secrets=types_pb2.StringList(values=["nosuch"]))
    assert await rig.listed() == [made]
    assert len(rig.holds.held) == 1


async def test_a_namespace_made_anew_is_filled_anew(rig: Rig) -> None:
    deployment_id, _ = await rig.running()
    rig.cluster.objects.clear()
    rig.cluster.all_pods.clear()
    rig.cluster.sets.clear()
    rig.pools.pools["np-1"] = replace(POOL, namespace_uid="another")
    await settled(rig, deployment_id)
    assert len(rig.cluster.objects) == 3
    assert (await rig.stored(deployment_id)).generation == 1
