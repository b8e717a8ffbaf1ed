"""The sandbox's node agent, unchanged, as the kubelet of a real control plane: machines join, Pods live and end.

The tests of Pods are those of `tests/unit/sandbox`, which run against the sandbox's own API there.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from anycloud_control_plane.programs import HELM, SERVERS
from kubernetes.aio import client

from tests.kube.assets.location import cache_directory, how_to_get, missing
from tests.support.sandbox import Management, Sandbox
from tests.unit.sandbox.conftest import JOIN, api_client, furnish
from tests.unit.sandbox.pods import Json, pod, ready
from tests.unit.sandbox.test_pods import (
    logged,
    shell,
    test_a_container_sees_its_environment_files_and_rewritten_paths,
    test_a_crashing_container_backs_off_and_keeps_the_log_of_its_last_run,
    test_a_deleted_pod_ends_by_sigterm_and_then_by_force,
    test_a_log_can_be_followed_to_its_end,
    test_a_pod_runs_its_image_and_its_log_can_be_read,
    test_an_init_container_that_fails_for_good_fails_its_pod,
    test_an_unknown_image_backs_off_until_it_is_pushed,
    test_init_containers_come_first_and_the_others_run_side_by_side,
    test_readiness_follows_an_exec_probe,
    test_references_are_replaced_as_a_kubelet_does,
)

__all__ = [
    "shell",
    "test_a_container_sees_its_environment_files_and_rewritten_paths",
    "test_a_crashing_container_backs_off_and_keeps_the_log_of_its_last_run",
    "test_a_deleted_pod_ends_by_sigterm_and_then_by_force",
    "test_a_log_can_be_followed_to_its_end",
    "test_a_pod_runs_its_image_and_its_log_can_be_read",
    "test_an_init_container_that_fails_for_good_fails_its_pod",
    "test_an_unknown_image_backs_off_until_it_is_pushed",
    "test_init_containers_come_first_and_the_others_run_side_by_side",
    "test_readiness_follows_an_exec_probe",
    "test_references_are_replaced_as_a_kubelet_does",
]

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """The world whose machines run the real API server, by whose name these tests are counted."""
    if absent := missing(["kine", *SERVERS, *HELM]):
        pytest.skip(how_to_get(absent))
    running = Sandbox(tmp_path_factory.mktemp("agent"), kube_assets=[cache_directory()], lease_seconds=20)
    running.start_world()
    running.start_agent()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def sandbox(kubernetes: Sandbox) -> Sandbox:
    return kubernetes


@pytest.fixture(scope="module")
def management(sandbox: Sandbox) -> Management:
    return asyncio.run(furnish(sandbox))


@pytest.fixture
async def kube(management: Management) -> AsyncIterator[Any]:
    async with api_client(management) as api:
        yield api


@pytest.fixture
async def core(kube: Any) -> Any:
    return client.CoreV1Api(kube)


@pytest.fixture
async def namespace(core: Any, sandbox: Sandbox, request: pytest.FixtureRequest) -> AsyncIterator[str]:
    """A namespace of the test's own, with its account: a Pod without one is refused."""
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name.lower())[5:60].strip("-")
    await core.create_namespace({"metadata": {"name": name}})

    async def account() -> bool:
        return bool((await core.list_namespaced_service_account(name)).items)

    await sandbox.until(account)
    yield name
    await core.delete_namespace(name)


async def test_only_the_server_calls_its_node_one_of_the_control_plane(core: Any, sandbox: Sandbox) -> None:
    """A kubelet that claims that label is refused; the taint comes with the Node."""
    label = "node-role.kubernetes.io/control-plane"
    await core.patch_node("mgmt", {"metadata": {"labels": {label: None}}}, _content_type="application/merge-patch+json")

    async def labelled() -> bool:
        return label in (await core.read_node("mgmt")).metadata.labels

    await sandbox.until(labelled)
    node = await core.read_node("mgmt")
    assert node.metadata.labels["node-role.kubernetes.io/control-plane"] == "true"
    assert [taint.key for taint in node.spec.taints] == ["node-role.kubernetes.io/control-plane"]
    assert {address.type for address in node.status.addresses} == {"InternalIP", "ExternalIP", "Hostname"}


async def test_machines_with_a_wrong_token_never_become_nodes(
    core: Any, sandbox: Sandbox, management: Management
) -> None:
    name, _, word = JOIN.partition(".")
    sandbox.pool_machine(management, "stranger", f"{name}.{word[::-1]}")
    sandbox.pool_machine(management, "friend", JOIN)

    async def joined() -> bool:
        return "friend" in [node.metadata.name for node in (await core.list_node()).items]

    await sandbox.until(joined)
    assert "stranger" not in [node.metadata.name for node in (await core.list_node()).items]


async def test_a_killed_agent_is_followed_by_one_that_adopts_and_renews(
    core: Any, sandbox: Sandbox, namespace: str
) -> None:
    """The container runs on, and its token is written anew by the next agent."""
    token = {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "t", "audience": "x"}}]}}
    body = pod("one", volumeMounts=[{"name": "token", "mountPath": "/token"}])
    body["spec"]["volumes"] = [token]
    found = await core.create_namespaced_pod(namespace, body)
    await ready(sandbox, core, namespace, "one")
    before = await sandbox.until(lambda: logged(core, namespace, "one"))
    (path,) = sandbox.state.glob(f"machines/*/pods/{found.metadata.uid}/volumes/token/t")
    path.unlink()
    sandbox.end_agent(signal.SIGKILL)
    sandbox.start_agent()
    await sandbox.until(path.exists, 30)
    assert await sandbox.until(lambda: logged(core, namespace, "one"), 30) == before
    after = await core.read_namespaced_pod("one", namespace)
    assert (after.status.phase, after.status.container_statuses[0].restart_count) == ("Running", 0)


async def test_a_claim_leads_to_the_directory_of_its_volume(core: Any, sandbox: Sandbox, namespace: str) -> None:
    """A hostPath lies below its machine's directory, and outlives the Pod."""
    size: Json = {"storage": "1Gi"}
    claim = {"name": "claim", "namespace": namespace}
    volume = {"capacity": size, "accessModes": ["ReadWriteOnce"], "claimRef": claim, "storageClassName": ""}
    volume |= {"hostPath": {"path": f"/var/lib/{namespace}"}, "persistentVolumeReclaimPolicy": "Retain"}
    await core.create_persistent_volume({"metadata": {"name": namespace}, "spec": volume})
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": size}, "storageClassName": ""}
    spec |= {"volumeName": namespace}
    await core.create_namespaced_persistent_volume_claim(namespace, {"metadata": {"name": "claim"}, "spec": spec})
    body = pod("one", "/bin/sh", "-c", "echo here > $0; exec sleep 100", "/data/file")
    body["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    body["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "claim"}}]
    await core.create_namespaced_pod(namespace, body)
    await ready(sandbox, core, namespace, "one")

    def written() -> list[Path]:
        return list(sandbox.state.glob(f"machines/*/rootfs/var/lib/{namespace}/file"))

    (file,) = await sandbox.until(written)
    assert file.read_text() == "here\n"
    await core.delete_persistent_volume(namespace)


async def test_a_machine_that_loses_power_becomes_not_ready(
    core: Any, sandbox: Sandbox, management: Management
) -> None:
    machine = sandbox.pool_machine(management, "doomed", JOIN)

    async def state() -> str:
        nodes = {node.metadata.name: node for node in (await core.list_node()).items}
        conditions = nodes["doomed"].status.conditions if "doomed" in nodes else []
        return next((str(item.status) for item in conditions if item.type == "Ready"), "")

    async def is_ready() -> bool:
        return await state() == "True"

    async def is_lost() -> bool:
        return await state() == "Unknown"

    await sandbox.until(is_ready)
    sandbox.cloud("DeleteMachine", {"id": machine["id"]})
    await sandbox.until(is_lost, 60)
    taints = (await core.read_node("doomed")).spec.taints or []
    assert "node.kubernetes.io/unreachable" in [taint.key for taint in taints]
