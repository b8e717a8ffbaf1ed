"""The client against the sandbox's Kubernetes API: TLS, tokens, cut watches, and the same rules as elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from anycloud_common.kube import Foreign, Kube, KubeError, Object, Permission, Reflector, check_connection, cluster_uid
from anycloud_common.kube.names import ANNOTATION_INTENT, WORKLOAD_TOKEN_AUDIENCE
from anycloud_common.kube.transport import Request
from anycloud_common.settings import Settings

from tests.support.sandbox import Management, Sandbox

OWNER = {"anycloud.sh/deployment": "dep-1"}
_numbers = itertools.count(1)


class World:
    """One sandbox with one cluster, shared by the tests of this module."""

    def __init__(self, directory: Path) -> None:
        self.sandbox = Sandbox(directory, agent=False)
        self.sandbox.start_world()
        self.management: Management = asyncio.run(self.sandbox.management())

    def kube(self, ca_pem: str | None = None, token: str | None = None) -> Kube:
        at = self.management
        return Kube.from_token(at.endpoint, ca_pem or at.ca, token or at.token)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = World(tmp_path_factory.mktemp("world"))
    yield world
    world.sandbox.stop()


@pytest.fixture
async def real(world: World) -> AsyncIterator[Kube]:
    kube = world.kube()
    yield kube
    await kube.close()


@pytest.fixture
async def ns(real: Kube) -> str:
    name = f"ns-{next(_numbers)}"
    await real.create("Namespace", {"metadata": {"name": name}})
    return name


def config(ns: str, **data: str) -> Object:
    metadata = {"name": "c", "namespace": ns, "labels": dict(OWNER), "annotations": {ANNOTATION_INTENT: "i1"}}
    return {"metadata": metadata, "data": data}


async def test_another_authority_is_not_trusted(world: World) -> None:
    from anycloud_control_plane.certificates import Authority

    kube = world.kube(ca_pem=Authority("somebody else").pem)
    with pytest.raises(KubeError, match=r"(?i)certificate") as caught:
        await kube.version()
    assert caught.value.reason == "unreachable"
    await kube.close()


async def test_a_wrong_token_is_auth(world: World) -> None:
    kube = world.kube(token="wrong")
    with pytest.raises(KubeError) as caught:
        await kube.list("Pod")
    assert caught.value.reason == "auth"
    await kube.close()


async def test_create_apply_and_delete_keep_to_our_object(real: Kube, ns: str) -> None:
    made = await real.ensure("ConfigMap", config(ns, a="1"), OWNER)
    uid = made["metadata"]["uid"]
    assert (await real.ensure("ConfigMap", config(ns, a="1"), OWNER))["metadata"]["uid"] == uid
    body = config(ns, a="2")
    body["metadata"]["uid"] = uid
    assert (await real.apply("ConfigMap", body))["data"] == {"a": "2"}
    await real.delete("ConfigMap", "c", ns, uid)
    assert await real.get("ConfigMap", "c", ns) is None
    with pytest.raises(KubeError) as caught:
        await real.apply("ConfigMap", body)
    assert caught.value.reason == "conflict"
    assert await real.delete("ConfigMap", "c", ns, uid) is True


async def test_a_strangers_object_stays(real: Kube, ns: str) -> None:
    theirs = await real.create("ConfigMap", {"metadata": {"name": "c", "namespace": ns}, "data": {"their": "s"}})
    with pytest.raises(Foreign):
        await real.ensure("ConfigMap", config(ns), OWNER)
    body = config(ns)
    body["metadata"]["uid"] = "another"
    with pytest.raises(KubeError) as caught:
        await real.apply("ConfigMap", body)
    assert caught.value.reason == "conflict"
    with pytest.raises(KubeError):
        await real.patch("ConfigMap", "c", ns, "another", {"data": {"mine": "1"}})
    assert await real.delete("ConfigMap", "c", ns, "another") is True
    assert await real.get("ConfigMap", "c", ns) == theirs


async def test_a_namespace_that_is_going_takes_nothing_new(real: Kube, ns: str) -> None:
    stuck = {"metadata": {"name": "stuck", "namespace": ns, "finalizers": ["test/hold"]}}
    made = await real.create("ConfigMap", stuck)
    namespace = await real.get("Namespace", ns)
    assert namespace is not None
    assert await real.delete("Namespace", ns, None, namespace["metadata"]["uid"]) is False
    with pytest.raises(KubeError) as caught:
        await real.ensure("ConfigMap", config(ns), OWNER)
    assert caught.value.reason == "conflict"
    await real.patch("ConfigMap", "stuck", ns, made["metadata"]["uid"], {"metadata": {"finalizers": None}})
    assert await real.get("Namespace", ns) is None


async def test_a_pods_token_is_reviewed(real: Kube, ns: str) -> None:
    account = await real.create("ServiceAccount", {"metadata": {"name": "workload", "namespace": ns}})
    spec = {"serviceAccountName": "workload", "containers": [{"name": "main", "image": "x"}]}
    pod = await real.create("Pod", {"metadata": {"name": "p", "namespace": ns}, "spec": spec})
    bound = {"kind": "Pod", "name": "p", "uid": pod["metadata"]["uid"]}
    body = {"spec": {"audiences": [WORKLOAD_TOKEN_AUDIENCE], "boundObjectRef": bound}}
    path = f"/api/v1/namespaces/{ns}/serviceaccounts/workload/token"
    asked = Request("create", "serviceaccounts/token", "POST", path, body=body)
    token = (await real._transport.call(asked))["status"]["token"]
    identity = await real.token_review(token, [WORKLOAD_TOKEN_AUDIENCE])
    assert identity is not None
    assert (identity.namespace, identity.service_account) == (ns, "workload")
    assert identity.service_account_uid == account["metadata"]["uid"]
    assert (identity.pod_name, identity.pod_uid) == ("p", pod["metadata"]["uid"])
    assert await real.token_review(token, ["another-audience"]) is None
    assert await real.token_review("rubbish", [WORKLOAD_TOKEN_AUDIENCE]) is None


async def test_a_connection_is_checked(world: World, real: Kube) -> None:
    uid = await cluster_uid(real)
    needed = [Permission(verb, "pods") for verb in ("get", "list", "watch")] + [Permission("patch", "jobs", "batch")]
    assert (await check_connection(real, uid, needed)).ok
    world.sandbox.fault("denied", times=1, area="access", resource="jobs")
    report = await check_connection(real, uid, needed)
    assert report.missing == (Permission("patch", "jobs", "batch"),)


async def test_a_service_account_of_a_pod_connects(world: World, tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text(world.management.ca)
    (tmp_path / "token").write_text(world.management.token + "\n")
    settings = Settings(
        mode="hosted",
        data_dir=tmp_path,
        runtime_dir=tmp_path,
        public_url="http://127.0.0.2:1",
        serviceaccount_dir=tmp_path,
        kubernetes_host=str(world.management.machine["address"]),
        kubernetes_port=6443,
    )
    kube = Kube.in_cluster(settings)
    assert (await kube.version()).minor == 36
    await kube.close()


async def test_a_reflector_survives_cuts_and_forgotten_history(world: World, real: Kube, ns: str) -> None:
    told: list[tuple[str, str]] = []
    news = asyncio.Event()

    def listen(event: str, old: Object | None, new: Object | None) -> None:
        told.append((event, (new or old or {})["metadata"]["name"]))
        news.set()

    async def until(wanted: tuple[str, str]) -> None:
        async with asyncio.timeout(15):
            while wanted not in told:
                news.clear()
                await news.wait()

    reflector = Reflector(real, "ConfigMap", ns, None, listen)
    task = asyncio.create_task(reflector.run())
    first = await real.create("ConfigMap", _named(ns, "first"))
    await until(("ADDED", "first"))
    world.sandbox.fault("cut", area="kube", resource="configmaps")
    await real.create("ConfigMap", _named(ns, "second"))
    await until(("ADDED", "second"))
    world.sandbox.fault("cut", area="kube", resource="configmaps")
    await real.delete("ConfigMap", "first", ns, first["metadata"]["uid"])
    world.sandbox.fault("compact", area="kube")
    await until(("DELETED", "first"))
    assert told.count(("ADDED", "first")) == told.count(("ADDED", "second")) == 1
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_an_api_that_is_down_is_unreachable_and_comes_back(world: World, real: Kube) -> None:
    fault = world.sandbox.fault("down", area="kube")
    with pytest.raises(KubeError) as caught:
        await real.list("Node")
    assert caught.value.reason == "unreachable"
    world.sandbox.call("DELETE", f"/faults/{fault}")
    assert await real.list("Node")


def _named(ns: str, name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": ns}}
