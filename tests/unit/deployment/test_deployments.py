"""Deployments as their users see them: create, update, list, status, delete."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from anycloud_common.errors import ApiError
from anycloud_common.kube import KubeError
from anycloud_deployment.domain.model import Pool
from anycloudapi.common.v1 import types_pb2
from anycloudapi.deployment.v1 import deployments_pb2 as pb

from tests.unit.deployment.fakes import GPU_POOL, POOL
from tests.unit.deployment.rig import Rig, execution, revision_of

Docker = types_pb2.DockerOptions
Status = pb.Deployment.Status


async def refused(awaited: Any, code: str) -> str:
    with pytest.raises(ApiError) as error:
        await awaited
    assert error.value.code == code, error.value.message
    return error.value.message


def words(*values: str) -> types_pb2.StringList:
    return types_pb2.StringList(values=values)


def put(rig: Rig, pool: Pool) -> None:
    rig.pools.pools[pool.id] = pool


@pytest.mark.req("DP-002", "DP-007", "DP-062", "DP-095", "DP-104", "DP-105", "DP-109", "OPEN-060")
async def test_a_created_deployment_is_summed_up_from_what_is_stored(rig: Rig) -> None:
    probe = pb.ReadinessProbe(exec=pb.ReadinessProbe.Exec(command=["/check"]), period_seconds=2)
    made = await rig.create(node_pool="training", env={"B": "marker-value", "A": "1"}, readiness_probe=probe)
    assert made.id.startswith("dep-")
    assert (made.name, made.image, made.node_pool_id, made.generation) == ("voice", "acme/model:v1", "np-1", 1)
    assert (made.target.kind, made.target.node_pool_id) == (pb.Deployment.Target.KIND_NODE_POOL, "np-1")
    assert (made.replicas, made.max_concurrent_jobs_per_replica, made.gpu_count) == (1, 1, 0)
    assert list(made.env_keys) == ["A", "B"]
    assert made.readiness_probe == probe
    assert not made.HasField("status")
    assert not made.HasField("workload")
    assert not made.HasField("command")
    assert "marker-value" not in str(made)
    assert await rig.listed() == [made]


@pytest.mark.req("DP-105")
async def test_lists_and_changes_have_no_status_and_a_single_look_has(rig: Rig) -> None:
    deployment_id, _ = await rig.running()
    assert not (await rig.listed())[0].HasField("status")
    assert not (await rig.update("voice", image="acme/model:v2")).HasField("status")
    assert (await rig.get(deployment_id)).HasField("status")
    assert not (await rig.delete("voice")).HasField("status")


@pytest.mark.req("DP-027", "DP-028", "DP-029", "DP-033")
@pytest.mark.parametrize(
    ("facts", "text"),
    [
        ({"state": "creating"}, "is creating"),
        ({"state": "failed"}, "is failed"),
        ({"state": "deleting"}, "is deleting"),
        ({"ready_nodes": 0}, "none of its Nodes is ready"),
    ],
)
async def test_a_pool_that_is_not_running_with_a_ready_node_admits_nothing(
    rig: Rig, facts: dict[str, Any], text: str
) -> None:
    put(rig, replace(POOL, **facts))
    message = await refused(rig.create(), "DEPLOYMENT_CONFLICT")
    assert text in message
    assert "training" in message
    assert await rig.listed() == []


async def test_a_pool_that_does_not_exist_is_named(rig: Rig) -> None:
    assert "nosuch" in await refused(rig.create(node_pool="nosuch"), "DEPLOYMENT_NOT_FOUND")
    await refused(rig.create(node_pool=""), "DEPLOYMENT_INVALID")


@pytest.mark.req("DP-030", "DP-125", "DP-033")
async def test_devices_fit_beside_the_reservations_of_others_or_conflict(rig: Rig) -> None:
    first = await rig.create("one", node_pool="gpu", docker_options=Docker(gpus="5"))
    assert first.gpu_count == 5
    message = await refused(rig.create("two", node_pool="gpu", docker_options=Docker(gpus="4")), "DEPLOYMENT_CONFLICT")
    assert "3 free devices" in message
    await rig.create("two", node_pool="gpu", docker_options=Docker(gpus="3"))
    await refused(rig.update("one", docker_options=pb.DockerOptionsUpdate(gpus="6")), "DEPLOYMENT_CONFLICT")
    assert (await rig.get("one")).generation == 1
    assert len(rig.holds.held) == 2


@pytest.mark.req("OPEN-060")
async def test_all_replicas_reserve_their_devices(rig: Rig) -> None:
    await refused(rig.create(node_pool="gpu", replicas=2), "DEPLOYMENT_CONFLICT")
    await rig.create(node_pool="gpu", replicas=2, docker_options=Docker(gpus="4"))
    assert [admission.devices for admission in rig.holds.held.values()] == [8]


@pytest.mark.req("DP-049", "DP-042")
async def test_an_image_for_other_accelerators_is_refused_before_anything_is_stored(rig: Rig) -> None:
    rig.images.made_for["acme/rocm"] = "rocm"
    assert "ROCm" in await refused(rig.create(node_pool="gpu", image="acme/rocm"), "DEPLOYMENT_INVALID")
    assert await rig.listed() == []
    assert rig.holds.held == {}
    await rig.create(image="acme/rocm")


@pytest.mark.req("DP-136", "OPEN-016")
@pytest.mark.parametrize("name", ["", "1a", "a_b", "a" * 65, "ä"])
async def test_names_have_a_shape(rig: Rig, name: str) -> None:
    assert "Deployment name" in await refused(rig.create(name), "DEPLOYMENT_INVALID")


@pytest.mark.req("DP-136", "DP-137", "DP-138", "OPEN-016")
async def test_active_names_are_unique_whatever_their_case_and_free_after_deletion(rig: Rig) -> None:
    first, _ = await rig.running("Voice")
    await refused(rig.create("voice"), "DEPLOYMENT_CONFLICT")
    await refused(rig.create(first.upper()), "DEPLOYMENT_CONFLICT")
    await rig.delete("VOICE")
    await refused(rig.create("voice"), "DEPLOYMENT_CONFLICT")
    await rig.reconcile(first)
    second = await rig.create("voice")
    assert (await rig.get("voice")).id == second.id
    gone = await rig.get(first)
    assert (gone.name, gone.status.state, gone.status.releasing) == ("Voice", Status.STATE_TERMINATED, False)
    assert {one.id for one in await rig.listed()} == {second.id, first}


async def test_what_does_not_exist_is_not_found(rig: Rig) -> None:
    for awaited in (rig.get("x"), rig.update("x", image="a"), rig.delete("x")):
        await refused(awaited, "DEPLOYMENT_NOT_FOUND")


@pytest.mark.req("DP-044")
@pytest.mark.parametrize("options", [Docker(ipc="host"), Docker(network="host"), Docker(ulimits=words("a"))])
async def test_options_of_vm_jobs_are_refused(rig: Rig, options: types_pb2.DockerOptions) -> None:
    assert "isn't supported" in await refused(rig.create(docker_options=options), "DEPLOYMENT_INVALID")


@pytest.mark.req("DP-070", "DP-071", "DP-072", "DP-075", "OPEN-065")
async def test_lists_can_be_of_one_pool_by_id_or_name(rig: Rig) -> None:
    await rig.create("one")
    await rig.create("two", node_pool="gpu")
    rig.cluster.error = KubeError("unreachable", "down")
    assert {found.name for found in await rig.listed()} == {"one", "two"}
    assert [found.name for found in await rig.listed(node_pool="np-1")] == ["one"]
    assert [found.name for found in await rig.listed(node_pool="gpu")] == ["two"]
    message = await refused(rig.listed(node_pool="nosuch"), "DEPLOYMENT_INVALID")
    assert message == "Node pool nosuch doesn't exist, or you have no access to it."
    rig.pools.away = True
    assert [found.name for found in await rig.listed(node_pool="np-1")] == ["one"]


@pytest.mark.req("DP-114", "DP-139", "DP-140")
async def test_an_update_changes_what_its_mask_names(rig: Rig) -> None:
    await rig.create(
        docker_options=Docker(cpus="1", memory="1g", privileged=True, binds=words("/a")), command=words("x")
    )
    change = pb.DockerOptionsUpdate(cpus="6", privileged=False)
    paths = ["docker_options.cpus", "docker_options.memory", "docker_options.privileged"]
    changed = await rig.update("voice", paths, docker_options=change)
    assert changed.generation == 2
    revision = await revision_of(rig, changed.id, 2)
    options = revision.spec.options
    assert (options.cpus, options.memory, options.privileged, options.binds) == ("6", None, False, ("/a",))
    assert list(changed.command.values) == ["x"]
    assert revision.resources.cpu_millis == 6000


@pytest.mark.req("DP-139")
async def test_without_a_mask_the_set_fields_change(rig: Rig) -> None:
    await rig.create(docker_options=Docker(cpus="1", memory="1g"))
    changed = await rig.update("voice", image="acme/model:v2", docker_options=pb.DockerOptionsUpdate(cpus="2"))
    options = (await revision_of(rig, changed.id, 2)).spec.options
    assert (changed.image, options.cpus, options.memory) == ("acme/model:v2", "2", "1g")


@pytest.mark.req("DP-120", "DP-143", "SC-016")
async def test_null_clears(rig: Rig) -> None:
    probe = pb.ReadinessProbe(exec=pb.ReadinessProbe.Exec(command=["/check"]))
    await rig.create(command=words("x"), env={"A": "1"}, readiness_probe=probe, docker_options=Docker(cpus="1"))
    changed = await rig.update("voice", ["command", "env", "readiness_probe", "docker_options", "secrets"])
    assert not changed.HasField("command")
    assert not changed.HasField("readiness_probe")
    assert list(changed.env_keys) == []
    assert (await revision_of(rig, changed.id, 2)).spec.options.cpus is None


@pytest.mark.req("DP-144", "DP-126")
@pytest.mark.parametrize(
    ("paths", "change", "rule"),
    [
        ([], {}, "empty"),
        ([], {"docker_options": pb.DockerOptionsUpdate()}, "empty object"),
        (["image"], {"image": "a:2", "docker_options": pb.DockerOptionsUpdate()}, "empty object"),
        (["image"], {}, "image can't be null"),
        (["name"], {}, "update_mask names name"),
        (["docker_options.ipc"], {}, "docker_options.ipc"),
        (["readiness_probe.exec"], {}, "deeper"),
        (
            ["image", "docker_options.cpus"],
            {"image": "a:2", "docker_options": pb.DockerOptionsUpdate(cpus="x")},
            "cpus",
        ),
        (["docker_options.runtime"], {"docker_options": pb.DockerOptionsUpdate(runtime="nvidia")}, "no NVIDIA GPUs"),
    ],
)
async def test_a_bad_update_changes_nothing(rig: Rig, paths: list[str], change: dict[str, Any], rule: str) -> None:
    made = await rig.create()
    assert rule in await refused(rig.update("voice", paths, **change), "DEPLOYMENT_INVALID")
    assert await rig.listed() == [made]


@pytest.mark.req("DP-122", "DP-123", "DP-124", "DP-142")
async def test_the_gpu_count_changes_only_when_it_is_named(rig: Rig) -> None:
    await rig.create(node_pool="gpu", docker_options=Docker(gpus="1"))
    assert (await rig.update("voice", image="acme/model:v2")).gpu_count == 1
    assert (await rig.update("voice", ["docker_options.gpus"])).gpu_count == 8
    assert (await rig.update("voice", docker_options=pb.DockerOptionsUpdate(gpus="2"))).gpu_count == 2
    assert (await rig.update("voice", ["docker_options"])).gpu_count == 8
    put(rig, replace(GPU_POOL, vm_type="t3.large"))
    message = await refused(rig.update("voice", image="acme/model:v3"), "DEPLOYMENT_INVALID")
    assert "8 GPUs are wanted" in message


@pytest.mark.req("DP-127", "DP-145")
async def test_of_two_updates_from_one_revision_one_wins_and_the_other_may_try_again(rig: Rig) -> None:
    await rig.create()
    nested: list[pb.Deployment] = []
    original = rig.pools.find

    async def find(id_or_name: str) -> Pool | None:
        rig.pools.find = original  # type: ignore[method-assign]
        nested.append(await rig.update("voice", image="acme/model:other"))
        return await original(id_or_name)

    rig.pools.find = find  # type: ignore[method-assign]
    message = await refused(rig.update("voice", max_concurrent_jobs_per_replica=3), "DEPLOYMENT_CONFLICT")
    assert "run the command again" in message
    assert len(nested) == 1
    again = await rig.update("voice", max_concurrent_jobs_per_replica=3)
    assert (again.generation, again.image, again.max_concurrent_jobs_per_replica) == (3, "acme/model:other", 3)


@pytest.mark.req("DP-003")
def test_no_update_can_name_a_pool() -> None:
    assert "node_pool" not in pb.DeploymentUpdate.DESCRIPTOR.fields_by_name


@pytest.mark.req("DP-133", "DP-076")
async def test_deleting_is_asked_for_once_and_refuses_changes(rig: Rig) -> None:
    made = await rig.create()
    await rig.clock.advance(1)
    first = await rig.delete("voice")
    await rig.clock.advance(1)
    assert await rig.delete(made.id) == first
    assert first.deletion_requested_at == rig.clock.now_ms() - 1000
    assert not first.HasField("deleted_at")
    assert "being deleted" in await refused(rig.update(made.id, image="a:2"), "DEPLOYMENT_CONFLICT")


@pytest.mark.req("DP-078", "DP-101", "DP-106", "DP-109")
async def test_a_look_shows_the_pod_and_the_revisions(rig: Rig) -> None:
    _, pod = await rig.running()
    found = await rig.get("voice")
    status = found.status
    assert (status.state, status.ready, status.observation) == (Status.STATE_RUNNING, True, Status.OBSERVATION_OBSERVED)
    assert (status.requested_generation, status.applied_generation, status.pod_generation) == (1, 1, 1)
    assert (status.pod_name, status.pod_uid, status.container_id) == (pod.name, pod.uid, pod.container_id)
    assert (status.ready_replicas, status.observed_at) == (1, rig.clock.now_ms())
    assert not status.HasField("upgrade")
    assert found.workload == pb.Deployment.Workload(
        container_id=pod.container_id,
        container_ready=True,
        observed_generation=1,
        pod_name=pod.name,
        pod_uid=pod.uid,
    )


@pytest.mark.req("DP-082", "DP-088")
@pytest.mark.parametrize("slow", [True, False])
async def test_kubernetes_is_asked_for_one_second_at_most(rig: Rig, slow: bool) -> None:
    await rig.running()
    if slow:
        rig.cluster.before_read = lambda: rig.clock.sleep(1.1)
    else:
        rig.cluster.error = KubeError("unreachable", "list pods: no route")
    looking = asyncio.create_task(rig.get("voice"))
    if slow:
        await rig.clock.sleeping(3)
        await rig.clock.advance(1)
    status = (await looking).status
    assert (status.state, status.observation) == (Status.STATE_UNKNOWN, Status.OBSERVATION_UNAVAILABLE)
    assert status.observation_error == status.reason
    assert ("one second" in status.reason) == slow
    assert not status.HasField("observed_at")


@pytest.mark.req("DP-090", "DP-100", "DP-102", "DP-103")
async def test_jobs_that_hold_up_an_upgrade_are_named_ten_at_most_with_their_revisions(rig: Rig) -> None:
    deployment_id, pod = await rig.running(max_concurrent_jobs_per_replica=20)
    for number in range(12):
        await rig.submit("voice", f"job-{number:02}")
        await rig.pick_up(deployment_id, pod, execution(number))
    assert (await rig.get("voice")).status.blocking_jobs.total == 0
    await rig.report(deployment_id, pod, "job-00", execution(0))
    await rig.update("voice", image="acme/model:v2")
    blocking = (await rig.get("voice")).status.blocking_jobs
    assert (blocking.total, len(blocking.jobs)) == (12, 10)
    first = blocking.jobs[0]
    assert (first.id, first.execution_id, first.generation) == ("job-00", execution(0), 1)
    assert first.state == 11, "a finished Job that isn't cleaned up"
    before = await rig.stored(deployment_id)
    await rig.get("voice")
    assert await rig.stored(deployment_id) == before
