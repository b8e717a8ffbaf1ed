"""Pods on the sandbox's Nodes: from nothing to Ready, what they see, how they fail and end."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest
from kubernetes.aio import client

from tests.support.sandbox import Sandbox
from tests.unit.sandbox.pods import SLEEP, Json, condition, deployment, pod, ready, waiting


@pytest.fixture(autouse=True)
def shell(sandbox: Sandbox) -> None:
    sandbox.image("test/shell", SLEEP, env={"FROM_IMAGE": "image", "SHADOWED": "image"})


async def test_a_pod_runs_its_image_and_its_log_can_be_read(core: Any, sandbox: Sandbox, namespace: str) -> None:
    await core.create_namespaced_pod(namespace, pod("one"))
    found = await ready(sandbox, core, namespace, "one")
    status = found.status.container_statuses[0]
    assert (found.status.phase, status.restart_count, found.status.reason) == ("Running", 0, None)
    assert found.spec.node_name != "mgmt", "the management Node's taint is not tolerated"
    assert status.image_id.startswith("test/shell@sha256:")
    assert (await sandbox.until(lambda: logged(core, namespace, "one"))).startswith("started ")
    with pytest.raises(client.ApiException) as refused:
        await core.read_namespaced_pod_log("one", namespace, previous=True)
    assert refused.value.status == 400


async def logged(core: Any, namespace: str, name: str) -> str:
    """A Pod's log, empty while there is none."""
    try:
        return str(await core.read_namespaced_pod_log(name, namespace))
    except client.ApiException:
        return ""


async def test_a_log_can_be_followed_to_its_end(core: Any, sandbox: Sandbox, namespace: str) -> None:
    body = pod("one", "/bin/sh", "-c", "for i in 1 2 3; do echo line $i; sleep 0.2; done")
    body["spec"]["restartPolicy"] = "Never"
    await core.create_namespaced_pod(namespace, body)
    await ready(sandbox, core, namespace, "one")
    assert await core.read_namespaced_pod_log("one", namespace, follow=True) == "line 1\nline 2\nline 3\n"
    assert await core.read_namespaced_pod_log("one", namespace, tail_lines=1) == "line 3\n"

    async def ended() -> bool:
        return bool((await core.read_namespaced_pod("one", namespace)).status.phase == "Succeeded")

    await sandbox.until(ended)


async def test_a_container_sees_its_environment_files_and_rewritten_paths(
    core: Any, sandbox: Sandbox, namespace: str
) -> None:
    for name, data in (("first", {"A": "1", "B": "1"}), ("second", {"B": "2", "SHADOWED": "secret"})):
        await core.create_namespaced_secret(namespace, {"metadata": {"name": name}, "stringData": data})
    script = 'env; cat "$FILE"; ls -l "$0"; test -e "$TOKEN" && echo token; exec sleep 100'
    key = {"secretKeyRef": {"name": "first", "key": "A"}}
    body = pod("one", "/bin/sh", "-c", script, "/etc/files/B")
    body["spec"]["containers"][0] |= {
        "envFrom": [{"secretRef": {"name": "first"}}, {"secretRef": {"name": "second"}}],
        "env": [
            {"name": "SHADOWED", "value": "pod"},
            {"name": "FILE", "value": "/etc/files/B"},
            {"name": "TOKEN", "value": "/var/run/secrets/kubernetes.io/serviceaccount/token"},
            {"name": "UID_OF_POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
            {"name": "KEY", "valueFrom": key},
        ],
        "volumeMounts": [{"name": "files", "mountPath": "/etc/files"}],
    }
    body["spec"]["volumes"] = [{"name": "files", "secret": {"secretName": "second"}}]
    made = await core.create_namespaced_pod(namespace, body)
    await ready(sandbox, core, namespace, "one")

    async def written() -> Any:
        text = await core.read_namespaced_pod_log("one", namespace)
        return text if text.endswith("token\n") else None

    lines = (await sandbox.until(written)).splitlines()
    for line in ("A=1", "B=2", "SHADOWED=pod", "FROM_IMAGE=image", "KEY=1", f"UID_OF_POD={made.metadata.uid}"):
        assert line in lines
    assert any(line.startswith("KUBERNETES_SERVICE_HOST=127.") for line in lines)
    assert any(line.startswith("2-rw-------") for line in lines), "file's content, then its mode"


async def test_references_are_replaced_as_a_kubelet_does(core: Any, sandbox: Sandbox, namespace: str) -> None:
    body = pod("one", "/bin/sh", "-c", 'printf "%s|" "$@"; exec sleep 100', "sh")
    body["spec"]["containers"][0] |= {
        "args": ["$(A)", "$(B)", "$$(A)", "$(NONE)", "a$$b", "$HOME"],
        "env": [
            {"name": "A", "value": "1"},
            {"name": "B", "value": "$(A)2 $(LATE) $$(A)"},
            {"name": "LATE", "value": "3"},
        ],
    }
    await core.create_namespaced_pod(namespace, body)
    await ready(sandbox, core, namespace, "one")
    assert await sandbox.until(lambda: logged(core, namespace, "one")) == "1|12 $(LATE) $(A)|$(A)|$(NONE)|a$b|$HOME|"


async def test_init_containers_come_first_and_the_others_run_side_by_side(
    core: Any, sandbox: Sandbox, namespace: str
) -> None:
    """They share volumes, in memory too, under paths of their own, and each has a log of its own."""
    shell: Json = {"image": "test/shell", "command": ["/bin/sh", "-c"]}
    mounts = [{"name": "shared", "mountPath": "/a"}]
    body = pod("one", "/bin/sh", "-c", "echo main $(cat $0); exec sleep 100", "/b/first")
    body["spec"]["containers"][0]["volumeMounts"] = [{"name": "shared", "mountPath": "/b"}]
    body["spec"]["containers"] += [{**shell, "name": "side", "args": ["echo side; exec sleep 100"]}]
    body["spec"]["initContainers"] = [
        {
            **shell,
            "name": "fails-once",
            "args": ['test -e "$0" || { touch $0; exit 1; }', "/a/tried"],
            "volumeMounts": mounts,
        },
        {**shell, "name": "writes", "args": ["sleep 0.3; echo done > $0", "/a/first"], "volumeMounts": mounts},
    ]
    body["spec"]["volumes"] = [{"name": "shared", "emptyDir": {"medium": "Memory"}}]
    await core.create_namespaced_pod(namespace, body)
    found = await ready(sandbox, core, namespace, "one")
    assert [status.restart_count for status in found.status.init_container_statuses] == [1, 0]
    assert all(status.state.terminated.exit_code == 0 for status in found.status.init_container_statuses)
    assert [status.ready for status in found.status.container_statuses] == [True, True]
    for name, text in (("main", "main done\n"), ("side", "side\n")):

        async def read(name: str = name) -> str:
            return str(await core.read_namespaced_pod_log("one", namespace, container=name))

        assert await sandbox.until(read) == text
    held = in_memory(sandbox)
    assert held
    await core.delete_namespaced_pod("one", namespace)
    await sandbox.until(lambda: not any(path.exists() for path in held))


def in_memory(sandbox: Sandbox) -> list[Path]:
    """Where volumes in memory really are."""
    return [path.resolve() for path in sandbox.state.glob("machines/*/pods/*/volumes/*") if path.is_symlink()]


async def test_an_init_container_that_fails_for_good_fails_its_pod(core: Any, sandbox: Sandbox, namespace: str) -> None:
    body = pod("one")
    body["spec"] |= {"restartPolicy": "Never"}
    body["spec"]["initContainers"] = [{"name": "no", "image": "test/shell", "command": ["/bin/false"]}]
    await core.create_namespaced_pod(namespace, body)

    async def failed() -> bool:
        return bool((await core.read_namespaced_pod("one", namespace)).status.phase == "Failed")

    await sandbox.until(failed)
    status = (await core.read_namespaced_pod("one", namespace)).status.container_statuses[0]
    assert status.container_id is None


async def test_a_pod_without_automount_gets_no_token(core: Any, namespace: str) -> None:
    body = pod("one")
    body["spec"]["automountServiceAccountToken"] = False
    made = await core.create_namespaced_pod(namespace, body)
    assert not made.spec.volumes


async def test_a_missing_secret_is_waited_for(core: Any, sandbox: Sandbox, namespace: str) -> None:
    body = pod("one", envFrom=[{"secretRef": {"name": "later"}}])
    await core.create_namespaced_pod(namespace, body)
    status = await waiting(sandbox, core, namespace, "one", "CreateContainerConfigError")
    assert "later" in status.state.waiting.message
    await core.create_namespaced_secret(namespace, {"metadata": {"name": "later"}, "stringData": {}})
    await ready(sandbox, core, namespace, "one")


async def test_readiness_follows_an_exec_probe(core: Any, sandbox: Sandbox, namespace: str) -> None:
    probe = {"exec": {"command": ["/bin/sh", "-c", 'test -e "$0"', "/flags/up"]}, "periodSeconds": 1}
    mounts = [{"name": "flags", "mountPath": "/flags"}]
    body = pod(
        "one",
        "/bin/sh",
        "-c",
        "sleep 1; touch $0; exec sleep 100",
        "/flags/up",
        readinessProbe=probe,
        volumeMounts=mounts,
    )
    body["spec"]["volumes"] = [{"name": "flags", "emptyDir": {}}]
    await core.create_namespaced_pod(namespace, body)

    async def running() -> bool:
        statuses = (await core.read_namespaced_pod("one", namespace)).status.container_statuses or []
        return bool(statuses and statuses[0].state.running)

    await sandbox.until(running)
    assert not (await core.read_namespaced_pod("one", namespace)).status.container_statuses[0].ready
    await ready(sandbox, core, namespace, "one")


async def test_readiness_follows_an_http_probe(core: Any, sandbox: Sandbox, namespace: str) -> None:
    port = int(sandbox.url.rpartition(":")[2])
    for name, path in (("good", "/faults"), ("bad", "/none")):
        get = {"httpGet": {"path": path, "port": port, "host": "127.0.0.1"}, "periodSeconds": 1}
        await core.create_namespaced_pod(namespace, pod(name, readinessProbe=get))
    await ready(sandbox, core, namespace, "good")
    assert condition(await core.read_namespaced_pod("bad", namespace), "Ready") != "True"


async def test_a_crashing_container_backs_off_and_keeps_the_log_of_its_last_run(
    core: Any, sandbox: Sandbox, namespace: str
) -> None:
    await core.create_namespaced_pod(namespace, pod("one", "/bin/sh", "-c", "echo run $$$$; exit 3"))
    status = await waiting(sandbox, core, namespace, "one", "CrashLoopBackOff")
    assert status.last_state.terminated.exit_code == 3

    async def twice() -> bool:
        statuses = (await core.read_namespaced_pod("one", namespace)).status.container_statuses
        return bool(statuses[0].restart_count >= 1)

    await sandbox.until(twice)
    logs = [await core.read_namespaced_pod_log("one", namespace, previous=previous) for previous in (True, False)]
    assert logs[0] != logs[1]


async def test_an_unknown_image_backs_off_until_it_is_pushed(core: Any, sandbox: Sandbox, namespace: str) -> None:
    await core.create_namespaced_pod(namespace, pod("one", image="test/unknown"))
    await core.create_namespaced_pod(namespace, pod("two", image="Not/Valid"))
    await waiting(sandbox, core, namespace, "one", "ImagePullBackOff")
    await waiting(sandbox, core, namespace, "two", "InvalidImageName")
    sandbox.image("test/unknown", SLEEP)
    await ready(sandbox, core, namespace, "one")


async def test_image_faults_break_pulls_and_commands(core: Any, sandbox: Sandbox, namespace: str) -> None:
    sandbox.image("test/faulty", SLEEP)
    sandbox.fault("pull-failure", times=2, reference="test/faulty")
    await core.create_namespaced_pod(namespace, pod("one", image="test/faulty"))
    await waiting(sandbox, core, namespace, "one", "ErrImagePull")
    await ready(sandbox, core, namespace, "one")
    sandbox.fault("crash-loop", times=1, reference="test/faulty")
    await core.create_namespaced_pod(namespace, pod("two", image="test/faulty"))
    await waiting(sandbox, core, namespace, "two", "CrashLoopBackOff")
    await ready(sandbox, core, namespace, "two")


async def test_a_deleted_pod_ends_by_sigterm_and_then_by_force(core: Any, sandbox: Sandbox, namespace: str) -> None:
    """The polite one has thirty seconds and needs none; the stubborn one has one and takes it."""
    stubborn = pod("stubborn", "/bin/sh", "-c", "trap '' TERM; echo started; while true; do sleep 0.1; done")
    stubborn["spec"]["terminationGracePeriodSeconds"] = 1

    async def gone() -> bool:
        return not (await core.list_namespaced_pod(namespace)).items

    for body, least in ((pod("polite"), 0.0), (stubborn, 1.0)):
        await core.create_namespaced_pod(namespace, body)
        await sandbox.until(lambda name=body["metadata"]["name"]: logged(core, namespace, name))
        started = time.monotonic()
        await core.delete_namespaced_pod(body["metadata"]["name"], namespace)
        await sandbox.until(gone)
        assert time.monotonic() - started >= least


async def test_a_pod_deleted_while_it_starts_does_not_wait_for_its_grace(
    core: Any, sandbox: Sandbox, namespace: str
) -> None:
    async def gone() -> bool:
        return not (await core.list_namespaced_pod(namespace)).items

    for pause in (0, 0.02, 0.05, 0.1, 0.2):
        await core.create_namespaced_pod(namespace, pod(f"early-{int(pause * 100)}"))
        await asyncio.sleep(pause)
        await core.delete_collection_namespaced_pod(namespace)
        await sandbox.until(gone, 20)


async def test_a_cordoned_node_takes_no_pods(core: Any, sandbox: Sandbox, namespace: str) -> None:
    merge = "application/merge-patch+json"
    body = pod("one")
    body["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "pool-1"}
    await core.patch_node("pool-1", {"spec": {"unschedulable": True}}, _content_type=merge)
    await core.create_namespaced_pod(namespace, body)
    await asyncio.sleep(0.3)
    assert (await core.read_namespaced_pod("one", namespace)).spec.node_name is None
    assert await core.read_namespaced_pod_log("one", namespace) == ""
    await core.patch_node("pool-1", {"spec": {"unschedulable": None}}, _content_type=merge)
    await ready(sandbox, core, namespace, "one")


async def test_a_pods_whole_process_tree_ends_with_it(core: Any, sandbox: Sandbox, namespace: str) -> None:
    script = "setsid sleep 4711 & setsid sh -c 'sleep 4712 & sleep 4713' & echo $!; exec sleep 4714"
    body = pod("one", "/bin/sh", "-c", script)
    body["spec"]["terminationGracePeriodSeconds"] = 1
    await core.create_namespaced_pod(namespace, body)
    await ready(sandbox, core, namespace, "one")
    await sandbox.until(lambda: len(sleepers()) == 4)
    await core.delete_namespaced_pod("one", namespace)
    await sandbox.until(lambda: not sleepers())


def sleepers() -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = path.read_bytes().decode()
        except OSError:
            continue
        if text.startswith("sleep\x00471"):
            found.append(text)
    return found


async def test_a_pod_that_fits_nowhere_says_why(core: Any, sandbox: Sandbox, namespace: str) -> None:
    body = pod("one", resources={"limits": {"nvidia.com/gpu": "99"}})
    await core.create_namespaced_pod(namespace, body)

    async def unschedulable() -> Any:
        conditions = (await core.read_namespaced_pod("one", namespace)).status.conditions or []
        return next((item for item in conditions if item.reason == "Unschedulable"), None)

    assert "nodes are available" in (await sandbox.until(unschedulable)).message


async def test_recreate_has_no_overlap_and_ends_in_a_new_revision(kube: Any, sandbox: Sandbox, namespace: str) -> None:
    core: Any = client.CoreV1Api(kube)
    apps: Any = client.AppsV1Api(kube)
    body = deployment("web", pod("web"), replicas=1, strategy={"type": "Recreate"})
    await apps.create_namespaced_deployment(namespace, body)
    await rolled_out(sandbox, apps, namespace, 1)
    start = (await core.list_namespaced_pod(namespace)).metadata.resource_version
    image = {"spec": {"template": {"metadata": {"labels": {"revision": "2"}}}}}
    await apps.patch_namespaced_deployment("web", namespace, image, _content_type="application/merge-patch+json")
    await rolled_out(sandbox, apps, namespace, 2)
    assert await largest_overlap(kube, namespace, start) == 1
    found = await apps.read_namespaced_deployment("web", namespace)
    assert found.metadata.annotations["deployment.kubernetes.io/revision"] == "2"
    sets = (await apps.list_namespaced_replica_set(namespace)).items
    assert sorted(item.spec.replicas for item in sets) == [0, 1]
    assert {item.metadata.labels["pod-template-hash"] for item in sets} > {
        item.metadata.labels["pod-template-hash"] for item in (await core.list_namespaced_pod(namespace)).items
    }
    await apps.delete_namespaced_deployment("web", namespace)

    async def all_gone() -> bool:
        return not (await core.list_namespaced_pod(namespace)).items

    await sandbox.until(all_gone)


async def test_a_rolling_update_without_surge_takes_one_at_a_time(kube: Any, sandbox: Sandbox, namespace: str) -> None:
    apps: Any = client.AppsV1Api(kube)
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    await apps.create_namespaced_deployment(namespace, deployment("web", pod("web"), replicas=3, strategy=strategy))
    await rolled_out(sandbox, apps, namespace, 1)
    lowest = [3]

    async def observe() -> None:
        while True:
            found = await apps.read_namespaced_deployment("web", namespace)
            lowest.append(found.status.available_replicas or 0)
            await asyncio.sleep(0.02)

    observer = asyncio.create_task(observe())
    change = {"spec": {"template": {"metadata": {"labels": {"revision": "2"}}}}}
    await apps.patch_namespaced_deployment("web", namespace, change, _content_type="application/merge-patch+json")
    await rolled_out(sandbox, apps, namespace, 2)
    observer.cancel()
    assert min(lowest) == 2


async def rolled_out(sandbox: Sandbox, apps: Any, namespace: str, generation: int) -> None:
    async def check() -> bool:
        found = await apps.read_namespaced_deployment("web", namespace)
        status, wanted = found.status, found.spec.replicas
        counts = (status.updated_replicas, status.available_replicas, status.replicas)
        return status.observed_generation == generation and counts == (wanted, wanted, wanted)

    await sandbox.until(check)


async def largest_overlap(kube: Any, namespace: str, version: str) -> int:
    """How many Pods were there at once since a version, by the watch's history."""
    path = f"/api/v1/namespaces/{namespace}/pods?watch=true&timeoutSeconds=1&resourceVersion={version}"
    bearer = str(kube.configuration.api_key["BearerToken"])
    answer = await kube.call_api("GET", kube.configuration.host + path, {"Authorization": bearer})
    count = largest = 1
    for line in (await answer.read()).splitlines():
        count += {"ADDED": 1, "DELETED": -1}.get(json.loads(line)["type"], 0)
        largest = max(largest, count)
    return largest
