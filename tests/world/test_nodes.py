"""Real Nodes: how VMs join, what the real controllers do with them, and what becomes of work when one fails."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from anycloud_common.kube.names import pool_node_labels, pool_taint

from tests.world.surroundings import AGENT
from tests.world.test_pods import IDLE, container, running_pod, shell
from tests.world.vm import until
from tests.world.world import Json, World

Deploy = Callable[..., Json]

UNREACHABLE = "node.kubernetes.io/unreachable"

# Takes a Job and keeps it until somebody lets it go.
_HOLD = """
import pathlib, time
from anycloud_workflows import current_deployment
with current_deployment() as deployment:
    while True:
        job = deployment.next_job(timeout=5)
        if job is not None:
            print("took", job.id, job.selected.execution_id, flush=True)
            while not pathlib.Path("/tmp/go").exists():
                time.sleep(0.1)
            job.complete()
            job.cleanup()
"""
# A shell hears of the container's end from its first moment on; Python would as process 1 be deaf while it starts.
HOLDER = {"command": ["/bin/sh", "-c", "trap 'kill -9 $!; exit 0' TERM; python3.11 -c \"$0\" & wait $!", _HOLD]}


def condition(node: Json, kind: str = "Ready") -> str:
    return next((str(item["status"]) for item in node["status"]["conditions"] if item["type"] == kind), "")


def taints(node: Json) -> set[tuple[str, str]]:
    return {(item["key"], item["effect"]) for item in node["spec"].get("taints", ())}


def let_go(world: World, deployment: Json) -> None:
    """Lets the Job end that the Deployment's container holds, or will hold."""

    def touched() -> bool:
        pod = running_pod(world, deployment)
        try:
            return bool(pod and world.run_in(pod, "sh", "-c", "touch /tmp/go && echo done"))
        except RuntimeError:  # it is being replaced
            return False

    until(touched, "a container", 0.5)


@contextmanager
def tainted(world: World, node: Json, taint: str) -> Iterator[None]:
    name = node["metadata"]["name"]
    world.kubectl("taint", "node", name, taint)
    try:
        yield
    finally:
        world.kubectl("taint", "node", name, f"{taint}-")


# Joining


@pytest.mark.req("NP-025")
def test_a_vm_joins_by_its_user_data_alone_and_its_token_is_gone_then(world: World, steady: Json) -> None:
    node = world.node(steady)
    labels = node["metadata"]["labels"]
    wanted = pool_node_labels("cl-abcdefghijkl", steady["id"], "AWS", labels["anycloud.sh/attempt"], nvidia=False)
    assert wanted.items() <= labels.items()
    assert pool_taint(steady["id"]) in node["spec"]["taints"]
    assert node["status"]["nodeInfo"]["kubeletVersion"].startswith("v1.35.")
    path = f"/api/v1/namespaces/kube-system/secrets?labelSelector=anycloud.sh/node-pool%3D{steady['id']}"
    until(lambda: not world.plane.call("GET", path)["items"], "the end of the token")


def test_a_vm_holds_no_credential_of_a_cloud_and_may_write_no_node_but_its_own(
    world: World, steady: Json, fragile: Json
) -> None:
    mine, other = world.node(steady), world.node(fragile)
    vm = world.vm(mine)
    searched = ["/etc", "/var/lib/cloud", "/var/lib/rancher/k3s/agent/bootstrap.kubeconfig"]
    assert vm.run("grep", "-rlE", "111122223333|secretAccessKey", *searched, check=False).strip() == ""
    certificate = f"{AGENT}/kubelet/kubelet-client-current.pem"
    for node, code in ((mine, "200"), (other, "403")):
        url = f"{world.plane.endpoint}/api/v1/nodes/{node['metadata']['name']}"
        ask = ["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", "--cacert", f"{AGENT}/server-ca.crt"]
        ask += [
            "--cert",
            certificate,
            "--key",
            certificate,
            "-X",
            "PATCH",
            "-d",
            '{"metadata":{"annotations":{"a":"b"}}}',
        ]
        assert vm.run(*ask, "-H", "content-type: application/merge-patch+json", url) == code


# Eviction


def test_a_taint_that_ends_pods_ends_them_gracefully_and_others_wait_until_it_is_gone(
    world: World, fragile: Json, deploy: Deploy
) -> None:
    made = deploy(fragile, **shell("trap 'echo told; exit 0' TERM; echo up; while :; do sleep 0.1; done"))
    pod = world.pod(made)
    with world.following(pod) as lines:
        until(lambda: "up" in lines, "the first line")
        with tainted(world, world.node(fragile), "test/leave=now:NoExecute"):
            until(lambda: world.find_pod(pod) is None, "the end of the Pod")
            assert "told" in lines
            waiting = until(lambda: world.pods(made), "the next Pod")[-1]
            assert waiting["status"]["phase"] == "Pending"
            assert not world.deployment(made["id"])["status"]["ready"]
    world.wait_for_deployment(made["id"])


def test_a_drained_node_is_empty_and_takes_work_again_afterwards(world: World, fragile: Json, deploy: Deploy) -> None:
    made = deploy(fragile, **IDLE)
    pod = world.pod(made)
    name = world.node(fragile)["metadata"]["name"]
    world.kubectl("drain", name, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=50s")
    try:
        assert world.find_pod(pod) is None
        assert all(not each["spec"].get("nodeName") for each in world.pods(made))
    finally:
        world.kubectl("uncordon", name)
    world.wait_for_deployment(made["id"])


# Jobs whose container or Node fails


@pytest.mark.req("JB-004")
def test_a_job_whose_container_ended_is_offered_again(world: World, steady: Json, deploy: Deploy) -> None:
    made = deploy(steady, **HOLDER)
    job = world.submit(made)
    world.wait_for_job(job, "running")
    name = container(world.pod(made))["containerID"].removeprefix("containerd://")
    vm = world.vm(world.node(steady))
    tasks = vm.run("ctr", "--address", "/run/k3s/containerd/containerd.sock", "-n", "k8s.io", "tasks", "list")
    vm.run("kill", "-KILL", next(line.split()[1] for line in tasks.splitlines() if line.startswith(name)))
    until(lambda: "retrying" in world.job_states(job), "another try", 0.5)
    let_go(world, made)
    assert world.wait_for_job(job)["state"] == "completed"


@pytest.mark.req("JB-004")
def test_a_job_whose_pod_was_removed_by_force_is_offered_again_once_the_kubelet_was_heard_of(
    world: World, steady: Json, deploy: Deploy
) -> None:
    made = deploy(steady, **HOLDER)
    job = world.submit(made)
    world.wait_for_job(job, "running")
    about = world.pod(made)["metadata"]
    world.kubectl("delete", "pod", "-n", about["namespace"], about["name"], "--force", "--grace-period=0")
    until(lambda: "retrying" in world.job_states(job), "another try", 0.5)
    let_go(world, made)
    assert world.wait_for_job(job)["state"] == "completed"


def test_a_job_on_a_node_without_power_waits_for_it_and_is_offered_again_when_the_container_is(
    world: World, fragile: Json, deploy: Deploy
) -> None:
    made = deploy(fragile, **HOLDER)
    job = world.submit(made)
    world.wait_for_job(job, "running")
    pod, node = world.pod(made), world.node(fragile)
    vm = world.vm(node)
    world.hypervisor.cut(vm)
    try:
        unreachable = {(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")}
        until(lambda: unreachable <= taints(world.node(fragile)), "the controllers' taints", 0.5)
        assert condition(world.node(fragile)) == "Unknown"
        until(lambda: world.pool("fragile")["capacity"]["readyVmCount"] == 0, "what the pool says of it")
        # Silence proves nothing: the container may be running on.
        assert world.job(job)["state"] == "running"
        assert world.job_states(job).count("retrying") == 0
        assert world.find_pod(pod) is not None
    finally:
        world.hypervisor.boot(vm)
    after = world.wait_for_pool("fragile")
    back = world.node(after)
    assert (back["metadata"]["uid"], condition(back)) == (node["metadata"]["uid"], "True")
    until(lambda: not unreachable & taints(world.node(after)), "the end of the taints")
    until(lambda: "retrying" in world.job_states(job), "another try", 0.5)
    let_go(world, made)
    assert world.wait_for_job(job)["state"] == "completed"


# The end of a pool


def test_a_node_goes_after_its_vm_and_nothing_of_the_pool_stays(world: World) -> None:
    world.ask_for_pool("doomed")
    pool = world.wait_for_pool("doomed")
    node = world.node(pool)
    vm = world.vm(node)
    path = f"/api/v1/nodes/{node['metadata']['name']}"
    world.api.ask("DELETE", "/node-pools/doomed")
    until(lambda: world.plane.find(path) is None, "the end of the Node", 0.02)
    assert world.machine_state(vm) == "terminated"
    until(lambda: not vm.directory.exists(), "the end of its disk")
    until(lambda: not _left(world, pool), "the end of the pool's Namespace", 0.5)


def _left(world: World, pool: Json) -> list[str]:
    spaces = world.plane.call("GET", "/api/v1/namespaces")["items"]
    return [json.dumps(item["metadata"]["name"]) for item in spaces if pool["id"] in item["metadata"]["name"]]
