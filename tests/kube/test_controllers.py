"""What controllers and scheduler do with our objects, on every server. Nodes here are objects without kubelets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from anycloud_common.kube import Kube, Object
from anycloud_common.kube.names import pool_node_labels, pool_placement, pool_taint

from tests.kube.objects import OWNER, deployment, metadata, pod_spec
from tests.kube.test_client import default_account, refusal, uid_of
from tests.kube.waiting import until

READY = {"type": "Ready", "status": "True", "reason": "KubeletReady"}


class Pool:
    """Nodes of one pool, as its machines register them."""

    def __init__(self, kube: Kube, pool_id: str) -> None:
        self._kube, self.id = kube, pool_id
        self.nodes: list[Object] = []

    async def node(self, name: str, *, gpus: int = 0, ready: bool = True) -> Object:
        labels = pool_node_labels("cl-1", self.id, "AWS", name, nvidia=gpus > 0)
        capacity = {"cpu": "4", "memory": "8Gi", "pods": "110"} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
        conditions = [READY if ready else {**READY, "status": "False"}]
        body = {
            "metadata": {"name": name, "labels": labels},
            "spec": {"taints": [pool_taint(self.id)]},
            "status": {"capacity": capacity, "allocatable": capacity, "conditions": conditions},
        }
        self.nodes.append(await self._kube.create("Node", body))
        return self.nodes[-1]

    async def remove(self) -> None:
        for node in self.nodes:
            await self._kube.delete("Node", node["metadata"]["name"], None, uid_of(node))


@pytest.fixture
async def pool(kube: Kube, ns: str) -> AsyncIterator[Pool]:
    made = Pool(kube, f"np-{ns}")
    yield made
    await made.remove()


def on_pool(pool: Pool, ns: str, name: str = "d", *, gpus: int = 0, **more: Any) -> Object:
    """A Deployment whose Pods only this pool takes."""
    body = deployment(ns, name, **more)
    spec = body["spec"]["template"]["spec"]
    spec.update(pool_placement(pool.id))
    if gpus:
        spec["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": str(gpus)}}
    return body


async def pods(kube: Kube, ns: str, count: int) -> list[Object]:
    """The Pods of our Deployments, when there are exactly so many."""

    async def complete() -> list[Object] | None:
        found, _ = await kube.list("Pod", ns, OWNER)
        return found if len(found) == count else None

    return await until(complete) if count else []


async def bound(kube: Kube, ns: str, name: str) -> str:
    """The Node of a Pod, once it has one."""

    async def node() -> str:
        found = await kube.get("Pod", name, ns)
        return str((found or {}).get("spec", {}).get("nodeName") or "")

    return await until(node)


async def test_a_deployments_pods_can_be_traced_to_it(kube: Kube, ns: str) -> None:
    made = await kube.create("Deployment", deployment(ns, replicas=2))
    found = await pods(kube, ns, 2)
    (replica_set,), _ = await kube.list("ReplicaSet", ns, OWNER)
    controller = replica_set["metadata"]["ownerReferences"][0]
    assert (controller["kind"], controller["uid"], controller["controller"]) == ("Deployment", uid_of(made), True)
    assert replica_set["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "1"
    for pod in found:
        owner = pod["metadata"]["ownerReferences"][0]
        assert (owner["kind"], owner["uid"], owner["controller"]) == ("ReplicaSet", uid_of(replica_set), True)
        digest = replica_set["metadata"]["labels"]["pod-template-hash"]
        assert pod["metadata"]["labels"]["pod-template-hash"] == digest
        assert pod["status"]["phase"] == "Pending"


async def test_a_deployment_reports_what_it_has_seen(kube: Kube, ns: str) -> None:
    uid = uid_of(await kube.create("Deployment", deployment(ns)))
    await kube.apply("Deployment", deployment(ns, uid=uid, replicas=2))

    async def observed() -> Object | None:
        found = await kube.get("Deployment", "d", ns)
        assert found is not None
        status = found.get("status") or {}
        complete = status.get("observedGeneration") == 2 and status.get("replicas") == 2
        return found if complete else None

    found = await until(observed)
    assert found["metadata"]["generation"] == 2
    assert found["status"]["unavailableReplicas"] == 2
    assert not found["status"].get("readyReplicas")
    conditions = {item["type"]: item["status"] for item in found["status"]["conditions"]}
    assert conditions["Available"] == "False"
    assert conditions["Progressing"] == "True"


async def test_a_new_template_replaces_the_pod_without_surge(kube: Kube, ns: str) -> None:
    uid = uid_of(await kube.create("Deployment", deployment(ns)))
    (first,) = await pods(kube, ns, 1)
    body = deployment(ns, uid=uid)
    body["spec"]["template"]["metadata"]["labels"]["anycloud.sh/revision"] = "2"
    await kube.apply("Deployment", body)

    async def replaced() -> list[Object] | None:
        found, _ = await kube.list("Pod", ns, OWNER)
        assert len(found) <= 1
        return found if found and uid_of(found[0]) != uid_of(first) else None

    (second,) = await until(replaced)
    assert second["metadata"]["labels"]["anycloud.sh/revision"] == "2"
    sets, _ = await kube.list("ReplicaSet", ns, OWNER)
    revisions = {item["metadata"]["annotations"]["deployment.kubernetes.io/revision"] for item in sets}
    assert revisions == {"1", "2"}


async def test_a_deleted_deployment_takes_its_pods_along(kube: Kube, ns: str) -> None:
    uid = uid_of(await kube.create("Deployment", deployment(ns)))
    await pods(kube, ns, 1)
    await kube.delete("Deployment", "d", ns, uid)

    async def empty() -> bool:
        return not (await kube.list("Pod", ns, OWNER))[0] and not (await kube.list("ReplicaSet", ns, OWNER))[0]

    await until(empty)


async def test_a_deleted_pod_is_made_anew_under_another_name(kube: Kube, ns: str) -> None:
    await kube.create("Deployment", deployment(ns))
    (first,) = await pods(kube, ns, 1)
    await kube.delete("Pod", first["metadata"]["name"], ns, uid_of(first))

    async def another() -> Object | None:
        found, _ = await kube.list("Pod", ns, OWNER)
        return found[0] if found and uid_of(found[0]) != uid_of(first) else None

    assert (await until(another))["metadata"]["name"] != first["metadata"]["name"]


async def test_a_pod_that_fits_nowhere_says_why(kube: Kube, ns: str) -> None:
    await kube.create("Deployment", deployment(ns))
    (pod,) = await pods(kube, ns, 1)

    async def reason() -> Object | None:
        found = await kube.get("Pod", pod["metadata"]["name"], ns)
        conditions = (found or {}).get("status", {}).get("conditions") or []
        return next((item for item in conditions if item["type"] == "PodScheduled"), None)

    condition = await until(reason)
    assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
    assert condition["message"]


async def test_pods_go_to_the_ready_node_of_their_pool_alone(kube: Kube, ns: str, pool: Pool) -> None:
    await pool.node(f"{ns}-a", ready=False)
    await pool.node(f"{ns}-b")
    stranger = Pool(kube, f"np-other-{ns}")
    await stranger.node(f"{ns}-c")
    await kube.create("Deployment", on_pool(pool, ns, replicas=2))
    for pod in await pods(kube, ns, 2):
        assert await bound(kube, ns, pod["metadata"]["name"]) == f"{ns}-b"
    await stranger.remove()


async def test_a_pod_without_the_pools_toleration_stays_off_its_nodes(kube: Kube, ns: str, pool: Pool) -> None:
    await pool.node(f"{ns}-a")
    await kube.create("Deployment", on_pool(pool, ns))
    body = on_pool(pool, ns, "other")
    del body["spec"]["template"]["spec"]["tolerations"]
    await kube.create("Deployment", body)
    found = await pods(kube, ns, 2)
    tolerant = next(pod for pod in found if pod["metadata"]["labels"]["app"] == "d")
    other = next(pod for pod in found if pod["metadata"]["labels"]["app"] == "other")
    await bound(kube, ns, tolerant["metadata"]["name"])
    left = await kube.get("Pod", other["metadata"]["name"], ns)
    assert left is not None
    assert "nodeName" not in left["spec"]


async def test_a_cordoned_node_takes_nothing_new(kube: Kube, ns: str, pool: Pool) -> None:
    node = await pool.node(f"{ns}-a")
    change = {"spec": {"unschedulable": True}}
    await kube.patch("Node", f"{ns}-a", None, uid_of(node), change)
    await pool.node(f"{ns}-b")
    await kube.create("Deployment", on_pool(pool, ns))
    (pod,) = await pods(kube, ns, 1)
    assert await bound(kube, ns, pod["metadata"]["name"]) == f"{ns}-b"


async def test_devices_are_given_out_whole(kube: Kube, ns: str, pool: Pool) -> None:
    await pool.node(f"{ns}-a", gpus=2)
    await kube.create("Deployment", on_pool(pool, ns, "one", gpus=1))
    (first,) = await pods(kube, ns, 1)
    await bound(kube, ns, first["metadata"]["name"])
    await kube.create("Deployment", on_pool(pool, ns, "two", gpus=2))
    found = await pods(kube, ns, 2)
    second = next(pod for pod in found if uid_of(pod) != uid_of(first))

    async def condition() -> Object | None:
        left = await kube.get("Pod", second["metadata"]["name"], ns)
        conditions = (left or {}).get("status", {}).get("conditions") or []
        return next((item for item in conditions if item["type"] == "PodScheduled"), None)

    assert "nvidia.com/gpu" in (await until(condition))["message"]


async def test_a_node_keeps_what_its_machine_reports_through_a_patch(kube: Kube, ns: str, pool: Pool) -> None:
    node = await pool.node(f"{ns}-a")
    change = {"metadata": {"labels": {"anycloud.sh/ingress-entry": pool.id}}}
    patched = await kube.patch("Node", f"{ns}-a", None, uid_of(node), change)
    assert patched["metadata"]["labels"]["anycloud.sh/ingress-entry"] == pool.id
    assert patched["status"]["capacity"]["cpu"] == "4"
    assert (await refusal(kube.patch("Node", f"{ns}-a", None, "another", change))).reason == "conflict"


async def test_a_daemon_set_wants_a_pod_on_each_matching_node(kube: Kube, ns: str, pool: Pool) -> None:
    for name in "ab":
        await pool.node(f"{ns}-{name}")
    labels = {"app": "ds"}
    template = {"metadata": {"labels": {**labels, **OWNER}}, "spec": pod_spec(**pool_placement(pool.id))}
    body = {"metadata": metadata("ds", ns), "spec": {"selector": {"matchLabels": labels}, "template": template}}
    uid = uid_of(await kube.ensure("DaemonSet", body, OWNER))

    async def wanted() -> bool:
        found = await kube.get("DaemonSet", "ds", ns)
        return ((found or {}).get("status") or {}).get("desiredNumberScheduled") == 2

    await until(wanted)
    await kube.delete("DaemonSet", "ds", ns, uid)

    async def gone() -> bool:
        return await kube.get("DaemonSet", "ds", ns) is None

    await until(gone)


async def test_a_pod_needs_its_account_and_its_runtime_class(kube: Kube, ns: str) -> None:
    await default_account(kube, ns)

    def body(**spec: Any) -> Object:
        return {"metadata": metadata("p", ns), "spec": pod_spec(**spec)}

    for spec in ({"serviceAccountName": "nobody"}, {"runtimeClassName": "none"}):
        assert (await refusal(kube.create("Pod", body(**spec)))).reason == "forbidden"


async def test_logs_of_a_pod_that_no_node_has_are_empty(kube: Kube, ns: str) -> None:
    await default_account(kube, ns)
    spec = pod_spec(nodeSelector={"test/none": "none"})
    await kube.create("Pod", {"metadata": metadata("p", ns), "spec": spec})
    assert [line async for line in kube.pod_log(ns, "p")] == []
    assert (await refusal(anext(kube.pod_log(ns, "none")))).reason == "not_found"


async def test_every_namespace_gets_its_account_and_authority(kube: Kube, ns: str) -> None:
    await default_account(kube, ns)
    authority = await until(lambda: kube.get("ConfigMap", "kube-root-ca.crt", ns))
    assert "BEGIN CERTIFICATE" in authority["data"]["ca.crt"]
