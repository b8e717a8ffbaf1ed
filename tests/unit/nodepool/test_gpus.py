"""GPU pools: device counts, and the objects that a cluster needs for them."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from anycloud_common.kube import names
from anycloud_nodepool.domain import addons, pins
from anycloud_nodepool.domain.addons import Installation, Verdict
from anycloud_nodepool.domain.model import ResourceState

from tests.unit.nodepool.fakes import CLUSTER, agent_config, forbidden
from tests.unit.nodepool.rig import Rig

MINUTE = 60.0
GPU: dict[str, Any] = {"vm_types": ["g4dn.12xlarge"]}  # 4 devices
INSTALLATION = Installation(CLUSTER.id, CLUSTER.identity)
RUNTIME_CLASS, DAEMON_SET = addons.nvidia(INSTALLATION)
PLUGIN = ("DaemonSet", "kube-system", "anycloud-nvidia-device-plugin")
CLASS = ("RuntimeClass", "", "nvidia")


async def gpu_pool(rig: Rig, devices: int = 4, count: int = 1) -> str:
    rig.world.gpus = devices
    pool_id = (await rig.create("gpu", count, **GPU)).id
    await rig.run(pool_id)
    return pool_id


async def state(rig: Rig, pool_id: str) -> tuple[str, str]:
    pool = await rig.pool(pool_id)
    return pool.state, pool.last_error or ""


@pytest.mark.req("AD-028", "AD-025", "AD-027", "NP-041")
async def test_a_gpu_pool_runs_when_each_node_shows_the_catalogs_count_and_joins_with_the_label(rig: Rig) -> None:
    pool_id = await gpu_pool(rig)
    assert await state(rig, pool_id) == ("running", "")
    [order] = rig.world.orders.values()
    assert order.image == "cuda"
    assert "anycloud.sh/accelerator=nvidia" in agent_config(order)["node-label"]


@pytest.mark.req("NP-041", "AD-015")
async def test_a_cpu_pool_has_no_accelerator_label_and_touches_none_of_the_objects(rig: Rig) -> None:
    await rig.running()
    [order] = rig.world.orders.values()
    assert order.image == "default"
    assert "accelerator" not in order.user_data.decode()
    assert not [call for call in rig.world.calls if "RuntimeClass" in call or "DaemonSet" in call]


@pytest.mark.req("AD-030", "AD-031", "AD-032", "AD-033")
async def test_a_ready_node_without_devices_has_ten_minutes_from_its_vms_creation(rig: Rig) -> None:
    pool_id = await gpu_pool(rig, devices=0)
    assert (await rig.pool(pool_id)).counts.starting == 1
    await rig.wait(pool_id, 10 * MINUTE - 1)
    assert (await state(rig, pool_id))[0] == "creating"
    await rig.wait(pool_id, 2)
    found, error = await state(rig, pool_id)
    assert found == "failed"
    assert "RuntimeClass nvidia present" in error
    assert "DaemonSet kube-system/anycloud-nvidia-device-plugin 0/0 ready" in error
    rig.world.set_node(next(iter(rig.world.node_facts)), gpus=4)
    await rig.run(pool_id)
    assert await state(rig, pool_id) == ("running", "")


@pytest.mark.req("AD-031")
async def test_the_ten_minutes_of_a_new_vm_begin_at_its_creation_not_when_its_node_turned_ready(rig: Rig) -> None:
    rig.world.ready = False
    pool_id = await gpu_pool(rig, devices=0)
    await rig.wait(pool_id, 6 * MINUTE)
    rig.world.set_node(next(iter(rig.world.node_facts)), ready=True)
    await rig.run(pool_id)
    await rig.wait(pool_id, 4 * MINUTE - 1)
    assert (await state(rig, pool_id))[0] == "creating"
    await rig.wait(pool_id, 2)
    assert (await state(rig, pool_id))[0] == "failed"


@pytest.mark.req("AD-031")
async def test_a_node_that_loses_its_devices_later_has_ten_minutes_from_the_pass_that_saw_it(rig: Rig) -> None:
    pool_id = await gpu_pool(rig)
    await rig.wait(pool_id, 30 * MINUTE, step=300)
    rig.world.set_node(next(iter(rig.world.node_facts)), gpus=0)
    await rig.run(pool_id)
    await rig.wait(pool_id, 10 * MINUTE - 1)
    assert (await state(rig, pool_id))[0] == "running"
    assert (await rig.pool(pool_id)).counts.starting == 1
    await rig.wait(pool_id, 2)
    assert (await state(rig, pool_id))[0] == "failed"


@pytest.mark.req("AD-034", "AD-035", "AD-036")
@pytest.mark.parametrize("devices", [1, 8])
async def test_another_count_fails_the_pool_at_once_and_names_both_remedies(rig: Rig, devices: int) -> None:
    pool_id = await gpu_pool(rig, devices)
    found, error = await state(rig, pool_id)
    assert found == "failed"
    assert f"advertises {devices} nvidia.com/gpu" in error
    assert "Refresh the catalog" in error
    assert "choose a VM type" in error
    counts = (await rig.pool(pool_id)).counts
    assert (counts.ready, counts.starting) == (0, 0)


@pytest.mark.req("AD-026")
async def test_a_gpu_node_that_joined_without_its_label_gets_it(rig: Rig) -> None:
    pool_id = await gpu_pool(rig)
    [(name, node)] = rig.world.node_facts.items()
    rig.world.set_node(name, labels={k: v for k, v in node.labels.items() if k != names.LABEL_ACCELERATOR})
    await rig.run(pool_id)
    assert rig.world.node_facts[name].labels[names.LABEL_ACCELERATOR] == "nvidia"


@pytest.mark.req("AD-001", "AD-002", "AD-003", "AD-004")
async def test_the_objects_are_there_before_the_first_vm_and_once_for_all_pools(rig: Rig) -> None:
    await gpu_pool(rig)
    rig.world.gpus = 4
    second = (await rig.create("gpu2", **GPU)).id
    await rig.run(second)
    made = [call for call in rig.world.calls if call.startswith(("create RuntimeClass", "create DaemonSet", "machine"))]
    assert [call.split()[0] for call in made] == ["create", "create", "machine", "machine"]
    assert "@sha256:" in pins.DEVICE_PLUGIN_IMAGE


@pytest.mark.req("AD-006")
async def test_objects_that_are_as_they_should_be_are_only_read(rig: Rig) -> None:
    pool_id = await gpu_pool(rig)
    calls = len(rig.world.calls)
    rig.world.objects[PLUGIN]["spec"]["revisionHistoryLimit"] = 10  # as the API server adds
    await rig.step(pool_id)
    touched = [call for call in rig.world.calls[calls:] if "RuntimeClass" in call or "DaemonSet" in call]
    assert [call.split()[0] for call in touched] == ["get", "get"]


@pytest.mark.req("AD-007")
async def test_an_edited_object_is_rewritten(rig: Rig) -> None:
    pool_id = await gpu_pool(rig)
    uid = rig.world.objects[PLUGIN]["metadata"]["uid"]
    edited = copy.deepcopy(rig.world.objects[PLUGIN])
    edited["spec"]["template"]["spec"]["containers"][0]["image"] = "evil"
    rig.world.objects[PLUGIN] = edited
    await rig.run(pool_id)
    assert rig.world.objects[PLUGIN]["spec"] == DAEMON_SET.body["spec"]
    assert rig.world.objects[PLUGIN]["metadata"]["uid"] == uid


@pytest.mark.req("AD-008")
@pytest.mark.parametrize("key", [CLASS, PLUGIN])
async def test_an_immutable_difference_makes_the_object_anew(rig: Rig, key: tuple[str, str, str]) -> None:
    pool_id = await gpu_pool(rig)
    edited = copy.deepcopy(rig.world.objects[key])
    uid = edited["metadata"]["uid"]
    if key == CLASS:
        edited["handler"] = "other"
    else:
        edited["spec"]["selector"] = {"matchLabels": {"a": "b"}}
    rig.world.objects[key] = edited
    await rig.run(pool_id)
    made = rig.world.objects[key]
    assert made["metadata"]["uid"] != uid
    assert addons.judge(RUNTIME_CLASS if key == CLASS else DAEMON_SET, made, INSTALLATION) is Verdict.LEAVE


@pytest.mark.req("AD-009")
async def test_k3s_own_runtime_class_is_used_unchanged(rig: Rig) -> None:
    own = {"metadata": {"name": "nvidia", "uid": "k3s", "annotations": dict([addons._K3S_OWNER])}, "handler": "nvidia"}
    rig.world.objects[CLASS] = own
    pool_id = await gpu_pool(rig)
    assert await state(rig, pool_id) == ("running", "")
    assert rig.world.objects[CLASS] == own


@pytest.mark.req("AD-010", "AD-011", "AD-012")
@pytest.mark.parametrize(
    ("key", "command"),
    [
        (CLASS, "kubectl delete runtimeclasses.node.k8s.io nvidia"),
        (PLUGIN, "kubectl -n kube-system delete daemonsets.apps anycloud-nvidia-device-plugin"),
    ],
)
async def test_a_foreign_object_fails_the_pool_names_the_remedy_and_is_left_alone(
    rig: Rig, key: tuple[str, str, str], command: str
) -> None:
    foreign = {"metadata": {"name": key[2], "uid": "theirs"}, "handler": "nvidia", "spec": {}}
    rig.world.objects[key] = foreign
    pool_id = await gpu_pool(rig)
    found, error = await state(rig, pool_id)
    assert found == "failed"
    assert command in error
    assert not rig.world.orders
    assert rig.world.objects[key] == foreign
    del rig.world.objects[key]
    await rig.wait(pool_id, 31)
    assert (await state(rig, pool_id))[0] == "running"


@pytest.mark.req("AD-005", "AD-013")
async def test_a_failing_add_on_neither_keeps_vms_from_being_released_nor_from_being_replaced(rig: Rig) -> None:
    pool_id = await gpu_pool(rig, count=2)
    rig.world.objects[CLASS] = {"metadata": {"name": "nvidia", "uid": "theirs"}, "handler": "x"}
    first = (await rig.attempts(pool_id))[0]
    rig.world.turn(first.id, ResourceState.LOST)
    await rig.run(pool_id)
    assert (await state(rig, pool_id))[0] == "failed"
    assert rig.world.resource_facts[first.id].state is ResourceState.RELEASED
    assert len(rig.world.machines(ResourceState.RUNNING)) == 2


@pytest.mark.req("AD-014")
async def test_a_denied_write_fails_the_pool_and_names_verb_and_resource(rig: Rig) -> None:
    rig.world.refuse("create DaemonSet", forbidden("create", "DaemonSet"))
    pool_id = await gpu_pool(rig)
    found, error = await state(rig, pool_id)
    assert found == "failed"
    assert "create daemonsets.apps" in error
    assert not rig.world.orders


@pytest.mark.req("AD-016", "AD-017")
async def test_nothing_uninstalls_the_objects_and_nothing_makes_them_again_without_a_gpu_pool(rig: Rig) -> None:
    pool_id = await gpu_pool(rig)
    await rig.delete("gpu")
    await rig.run(pool_id)
    assert {CLASS, PLUGIN} <= rig.world.objects.keys()
    del rig.world.objects[CLASS], rig.world.objects[PLUGIN]
    cpu = await rig.running()
    await rig.wait(cpu, 2 * 3600, step=600)
    assert not {CLASS, PLUGIN} & rig.world.objects.keys()


@pytest.mark.req("AD-019", "AD-020")
def test_objects_of_a_destroyed_cluster_on_the_same_control_plane_are_relabelled_and_others_stay_foreign() -> None:
    for addon, old in zip(
        addons.nvidia(INSTALLATION), addons.nvidia(Installation("cl-old", CLUSTER.identity)), strict=True
    ):
        assert addons.judge(addon, old.body, INSTALLATION) is Verdict.REWRITE
    for addon, other in zip(
        addons.nvidia(INSTALLATION), addons.nvidia(Installation(CLUSTER.id, "another-uid")), strict=True
    ):
        assert addons.judge(addon, other.body, INSTALLATION) is Verdict.FOREIGN


@pytest.mark.req("AD-018", "AD-022", "AD-023", "AU-028")
def test_the_plugin_selects_this_clusters_nvidia_nodes_and_tolerates_pool_taints_only() -> None:
    pod: dict[str, Any] = DAEMON_SET.body["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"anycloud.sh/cluster": "cl-1", "anycloud.sh/accelerator": "nvidia"}
    assert [(t["key"], t["effect"]) for t in pod["tolerations"]] == [("anycloud.sh/node-pool", "NoSchedule")]


@pytest.mark.parametrize(
    ("edit", "verdict"),
    [
        ({"handler": "nvidia", "overhead": {"podFixed": {"cpu": "1"}}}, Verdict.FOREIGN),
        ({"handler": "nvidia", "scheduling": {"nodeSelector": {"a": "b"}}}, Verdict.FOREIGN),
        ({"handler": "runc"}, Verdict.FOREIGN),
    ],
)
@pytest.mark.req("AD-009", "AD-010")
def test_k3s_runtime_class_with_overrides_is_foreign(edit: dict[str, Any], verdict: Verdict) -> None:
    own = {"metadata": {"name": "nvidia", "annotations": dict([addons._K3S_OWNER])}, **edit}
    assert addons.judge(RUNTIME_CLASS, own, INSTALLATION) is verdict
