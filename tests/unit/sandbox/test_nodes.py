"""Machines as Nodes: joining, what they report, and how they are lost."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.aio import client

from tests.support.sandbox import Management, Sandbox, bootstrap_secret
from tests.unit.sandbox.conftest import JOIN, api_client, the
from tests.unit.sandbox.pods import SLEEP, condition, pod, ready

GPUS = {"labels": ["anycloud.sh/accelerator=nvidia", "pool=gpu"], "vmType": "g4dn.12xlarge"}


async def node(sandbox: Sandbox, core: Any, name: str) -> Any:
    async def check() -> Any:
        found = (await core.list_node(field_selector=f"metadata.name={name}")).items
        return found[0] if found and condition(found[0], "Ready") == "True" else None

    return await sandbox.until(check)


async def test_a_node_reports_what_its_configuration_and_type_say(
    sandbox: Sandbox, management: Management, core: Any
) -> None:
    machine = sandbox.pool_machine(management, "gpu-1", JOIN, taints=["pool=gpu:NoSchedule"], **GPUS)
    found = await node(sandbox, core, "gpu-1")
    assert found.metadata.labels["pool"] == "gpu"
    assert [(item.key, item.value, item.effect) for item in found.spec.taints] == [("pool", "gpu", "NoSchedule")]
    addresses = {item.type: item.address for item in found.status.addresses}
    assert addresses == {"InternalIP": machine["address"], "ExternalIP": machine["address"], "Hostname": "gpu-1"}
    assert found.status.allocatable["nvidia.com/gpu"] == "4"
    assert found.status.node_info.kubelet_version.startswith("v1.35.")
    leases: Any = client.CoordinationV1Api(core.api_client)
    lease = await leases.read_namespaced_lease("gpu-1", "kube-node-lease")
    assert lease.metadata.owner_references[0].uid == found.metadata.uid
    certificates = await the(client.CertificatesV1Api(core.api_client)).list_certificate_signing_request()
    assert certificates.items[0].status.conditions[0].type == "Approved"


async def test_gpus_are_given_out_whole(sandbox: Sandbox, management: Management, core: Any, namespace: str) -> None:
    sandbox.image("test/shell", SLEEP)
    sandbox.pool_machine(
        management, "gpu-2", JOIN, **{**GPUS, "labels": ["anycloud.sh/accelerator=nvidia", "pool=two"]}
    )
    await node(sandbox, core, "gpu-2")
    for name, count in (("first", "3"), ("second", "2"), ("third", "1")):
        body = pod(name, resources={"limits": {"nvidia.com/gpu": count}})
        body["spec"]["nodeSelector"] = {"pool": "two"}
        await core.create_namespaced_pod(namespace, body)
    for name in ("first", "third"):
        await ready(sandbox, core, namespace, name)
    assert (await core.read_namespaced_pod("second", namespace)).spec.node_name is None


async def test_a_node_can_lose_its_gpus_and_its_readiness(sandbox: Sandbox, management: Management, core: Any) -> None:
    sandbox.pool_machine(management, "gpu-3", JOIN, **GPUS)
    await node(sandbox, core, "gpu-3")
    faults = [sandbox.fault(effect, name="gpu-3") for effect in ("zero-gpus", "not-ready")]

    async def broken() -> bool:
        found = await core.read_node("gpu-3")
        taints = {item.key for item in found.spec.taints or []}
        gone = found.status.allocatable["nvidia.com/gpu"] == "0" and condition(found, "Ready") == "False"
        return gone and "node.kubernetes.io/not-ready" in taints

    await sandbox.until(broken)
    for fault in faults:
        sandbox.call("DELETE", f"/faults/{fault}")

    async def whole() -> bool:
        found = await core.read_node("gpu-3")
        return found.status.allocatable["nvidia.com/gpu"] == "4" and not found.spec.taints

    await sandbox.until(whole)


@pytest.mark.parametrize("token", ["abcdef.ffffffffffffffff", "expire.0123456789abcdef"])
async def test_a_machine_with_a_wrong_or_expired_token_does_not_join(
    sandbox: Sandbox, management: Management, core: Any, token: str
) -> None:
    late = bootstrap_secret("expire.0123456789abcdef")
    late["stringData"]["expiration"] = "2020-01-01T00:00:00Z"
    if token.startswith("expire"):
        await core.create_namespaced_secret("kube-system", late)
    async with api_client(management, token) as stranger:
        with pytest.raises(client.ApiException) as refused:
            body = {"metadata": {"name": "x"}, "spec": {"request": "eA==", "signerName": "test/test"}}
            await the(client.CertificatesV1Api(stranger)).create_certificate_signing_request(body)
    assert refused.value.status == 401


async def test_a_bootstrap_token_opens_certificate_requests_only(management: Management) -> None:
    async with api_client(management, JOIN) as joining:
        with pytest.raises(client.ApiException) as refused:
            await client.CoreV1Api(joining).list_node()
    assert refused.value.status == 403


async def test_a_machine_that_was_given_another_ca_does_not_join(
    sandbox: Sandbox, management: Management, core: Any
) -> None:
    wrong = Management(**{**vars(management), "ca": management.ca + "\n"})
    sandbox.pool_machine(wrong, "misled", JOIN)
    sandbox.pool_machine(management, "led", JOIN)
    await node(sandbox, core, "led")
    assert "misled" not in [item.metadata.name for item in (await core.list_node()).items]


async def test_a_node_name_belongs_to_the_machine_that_had_it_first(
    sandbox: Sandbox, management: Management, core: Any
) -> None:
    sandbox.pool_machine(management, "taken", JOIN)
    first = await node(sandbox, core, "taken")
    assert await core.read_namespaced_secret("taken.node-password.k3s", "kube-system")
    sandbox.pool_machine(management, "taken", JOIN)
    sandbox.pool_machine(management, "after", JOIN)
    await node(sandbox, core, "after")
    assert (await core.read_node("taken")).status.addresses == first.status.addresses
    await core.delete_node("taken")
    with pytest.raises(client.ApiException) as gone:
        await core.read_namespaced_secret("taken.node-password.k3s", "kube-system")
    assert gone.value.status == 404


async def test_a_machine_deleted_by_the_cloud_ends_its_pods_and_leaves_its_node(
    sandbox: Sandbox, management: Management, core: Any, namespace: str
) -> None:
    sandbox.image("test/shell", SLEEP)
    machine = sandbox.pool_machine(management, "doomed", JOIN, labels=["pool=doomed"])
    await node(sandbox, core, "doomed")
    body = pod("one")
    body["spec"] |= {"nodeSelector": {"pool": "doomed"}, "volumes": [{"name": "m", "emptyDir": {"medium": "Memory"}}]}
    await core.create_namespaced_pod(namespace, body)
    await ready(sandbox, core, namespace, "one")
    (link,) = sandbox.state.glob(f"machines/{machine['id']}/pods/*/volumes/m")
    memory = link.resolve()
    assert memory.is_dir()

    async def printed() -> list[str]:
        return list((await core.read_namespaced_pod_log("one", namespace)).split())

    pid = int((await sandbox.until(printed))[1])
    sandbox.cloud("DeleteMachine", {"id": machine["id"]})
    await sandbox.until(lambda: not Path(f"/proc/{pid}").exists() and not memory.exists())
    assert (await core.read_namespaced_pod("one", namespace)).status.phase == "Running"
    await core.delete_node("doomed")
    with pytest.raises(client.ApiException) as gone:
        await core.read_namespaced_pod("one", namespace)
    assert gone.value.status == 404


def test_the_pinned_hash_is_that_of_the_ca_file(management: Management) -> None:
    path = management.kubeconfig.parents[3] / "var/lib/rancher/k3s/server/tls/server-ca.crt"
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert digest == hashlib.sha256(management.ca.encode()).hexdigest()
    assert yaml.safe_load(management.kubeconfig.read_text())["clusters"][0]["cluster"]["server"] == management.endpoint
