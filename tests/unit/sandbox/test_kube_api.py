"""The sandbox's Kubernetes API, through the official client and by plain HTTP."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from kubernetes.aio import client, watch

from tests.support.sandbox import Management, Sandbox
from tests.unit.sandbox.conftest import api_client, the

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"app": name}}, "data": data}


async def test_a_stale_replace_is_a_conflict(core: Any, namespace: str) -> None:
    first = await core.create_namespaced_config_map(namespace, config_map("one", a="1"))
    second = await core.replace_namespaced_config_map("one", namespace, {**config_map("one", a="2")})
    assert int(second.metadata.resource_version) > int(first.metadata.resource_version)
    with pytest.raises(client.ApiException) as refused:
        await core.replace_namespaced_config_map("one", namespace, first)
    assert refused.value.status == 409
    assert json.loads(str(refused.value.body))["reason"] == "Conflict"


async def test_a_second_create_of_a_name_already_exists(core: Any, namespace: str) -> None:
    await core.create_namespaced_config_map(namespace, config_map("one"))
    with pytest.raises(client.ApiException) as refused:
        await core.create_namespaced_config_map(namespace, config_map("one"))
    assert json.loads(str(refused.value.body))["reason"] == "AlreadyExists"


async def test_a_delete_keeps_to_its_uid_precondition(core: Any, namespace: str) -> None:
    made = await core.create_namespaced_config_map(namespace, config_map("one"))
    with pytest.raises(client.ApiException) as refused:
        await core.delete_namespaced_config_map("one", namespace, body={"preconditions": {"uid": "other"}})
    assert refused.value.status == 409
    await core.delete_namespaced_config_map("one", namespace, body={"preconditions": {"uid": made.metadata.uid}})
    with pytest.raises(client.ApiException) as gone:
        await core.read_namespaced_config_map("one", namespace)
    assert gone.value.status == 404


async def test_apply_replaces_only_the_fields_of_its_manager(core: Any, namespace: str) -> None:
    async def apply(body: dict[str, Any]) -> Any:
        return await core.patch_namespaced_config_map(
            "one", namespace, body, field_manager="us", force=True, _content_type=APPLY
        )

    made = await apply(config_map("one", a="1", b="2"))
    await core.patch_namespaced_config_map("one", namespace, {"data": {"theirs": "3"}}, _content_type=MERGE)
    changed = await apply({**config_map("one", a="4"), "metadata": {"name": "one", "uid": made.metadata.uid}})
    assert changed.data == {"a": "4", "theirs": "3"}
    assert not changed.metadata.labels
    with pytest.raises(client.ApiException) as refused:
        await apply({"metadata": {"name": "one", "uid": "other"}, "data": {}})
    assert refused.value.status == 409


async def test_an_equal_apply_writes_nothing(core: Any, namespace: str) -> None:
    versions = set()
    for _ in range(2):
        made = await core.patch_namespaced_config_map(
            "one", namespace, config_map("one", a="1"), field_manager="us", force=True, _content_type=APPLY
        )
        versions.add(made.metadata.resource_version)
    assert len(versions) == 1


async def test_status_and_spec_are_written_apart(kube: Any, namespace: str) -> None:
    core: Any = client.CoreV1Api(kube)
    body = {
        "metadata": {"name": "svc"},
        "spec": {"ports": [{"port": 80}]},
        "status": {"loadBalancer": {"ingress": [{"ip": "9.9.9.9"}]}},
    }
    made = await core.create_namespaced_service(namespace, body)
    assert made.metadata.generation == 1
    assert not made.status.load_balancer
    status = {"status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}, "spec": {"ports": [{"port": 1}]}}
    changed = await core.patch_namespaced_service_status("svc", namespace, status, _content_type=MERGE)
    assert changed.spec.ports[0].port == 80
    assert changed.status.load_balancer.ingress[0].ip == "1.2.3.4"
    assert changed.metadata.generation == 1
    port = {"spec": {"ports": [{"port": 81}]}}
    again = await core.patch_namespaced_service("svc", namespace, port, _content_type=MERGE)
    assert again.metadata.generation == 2
    assert again.status.load_balancer.ingress


async def test_selectors_choose_by_label_and_field(core: Any, namespace: str) -> None:
    for name in ("one", "two", "three"):
        await core.create_namespaced_config_map(namespace, config_map(name))

    async def names(**selector: str) -> set[str]:
        found = await core.list_namespaced_config_map(namespace, **selector)
        return {item.metadata.name for item in found.items}

    assert await names(label_selector="app in (one,two)") == {"one", "two"}
    assert await names(label_selector="app,app!=one") == {"two", "three"}
    assert "kube-root-ca.crt" in await names(label_selector="!app")
    assert await names(field_selector="metadata.name=two") == {"two"}


async def test_what_an_owner_owned_goes_with_it(core: Any, namespace: str, sandbox: Sandbox) -> None:
    owner = await core.create_namespaced_config_map(namespace, config_map("owner"))
    ref = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.metadata.uid}
    for name, uid in (("child", owner.metadata.uid), ("orphan", "nobody")):
        body = {"metadata": {"name": name, "ownerReferences": [{**ref, "uid": uid}]}}
        await core.create_namespaced_config_map(namespace, body)

    async def left() -> set[str]:
        found = await core.list_namespaced_config_map(namespace)
        return {item.metadata.name for item in found.items} - {"kube-root-ca.crt"}

    async def orphan_gone() -> bool:
        return await left() == {"owner", "child"}

    await sandbox.until(orphan_gone)
    await core.delete_namespaced_config_map("owner", namespace)
    assert await left() == set()


async def test_a_namespace_ends_with_its_content(core: Any, sandbox: Sandbox) -> None:
    await core.create_namespace({"metadata": {"name": "ending"}})
    body = {"metadata": {"name": "held", "finalizers": ["test/hold"]}}
    await core.create_namespaced_config_map("ending", body)
    await core.delete_namespace("ending")
    with pytest.raises(client.ApiException) as refused:
        await core.create_namespaced_config_map("ending", config_map("late"))
    assert refused.value.status == 403
    assert json.loads(str(refused.value.body))["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    release = {"metadata": {"finalizers": None}}
    await core.patch_namespaced_config_map("held", "ending", release, _content_type=MERGE)
    with pytest.raises(client.ApiException) as gone:
        await core.read_namespace("ending")
    assert gone.value.status == 404


async def test_a_watch_goes_on_from_a_version(core: Any, namespace: str) -> None:
    start = (await core.list_namespaced_config_map(namespace)).metadata.resource_version
    await core.create_namespaced_config_map(namespace, config_map("one"))
    await core.patch_namespaced_config_map("one", namespace, {"data": {"a": "1"}}, _content_type=MERGE)
    await core.delete_namespaced_config_map("one", namespace)
    seen = []
    async with (
        the(watch)
        .Watch()
        .stream(core.list_namespaced_config_map, namespace, resource_version=start, timeout_seconds=1) as stream
    ):
        async for event in stream:
            seen.append(event["type"])
            if len(seen) == 3:
                break
    assert seen == ["ADDED", "MODIFIED", "DELETED"]


async def _raw_watch(kube: Any, path: str) -> list[dict[str, Any]]:
    answer = await kube.call_api("GET", kube.configuration.host + path, {"Authorization": _bearer(kube)})
    return [json.loads(line) for line in (await answer.read()).splitlines()]


def _bearer(kube: Any) -> str:
    return str(kube.configuration.api_key["BearerToken"])


async def test_a_watch_ends_with_a_bookmark_when_asked_for_one(kube: Any, namespace: str) -> None:
    version = (await the(client.CoreV1Api(kube)).list_namespaced_secret(namespace)).metadata.resource_version
    query = f"watch=true&resourceVersion={version}&timeoutSeconds=1&allowWatchBookmarks=true"
    events = await _raw_watch(kube, f"/api/v1/namespaces/{namespace}/secrets?{query}")
    assert events[-1]["type"] == "BOOKMARK"
    assert int(events[-1]["object"]["metadata"]["resourceVersion"]) >= int(version)


async def test_a_version_before_the_compaction_is_gone(kube: Any, namespace: str, sandbox: Sandbox) -> None:
    core: Any = client.CoreV1Api(kube)
    old = (await core.create_namespaced_config_map(namespace, config_map("one"))).metadata.resource_version
    await core.create_namespaced_config_map(namespace, config_map("two"))
    sandbox.fault("compact")
    events = await _raw_watch(kube, f"/api/v1/configmaps?watch=true&timeoutSeconds=1&resourceVersion={old}")
    assert [event["object"]["code"] for event in events] == [410]


async def test_a_cut_breaks_live_watches(kube: Any, sandbox: Sandbox) -> None:
    version = (await the(client.CoreV1Api(kube)).list_secret_for_all_namespaces()).metadata.resource_version
    path = f"/api/v1/secrets?watch=true&timeoutSeconds=10&resourceVersion={version}"
    running = asyncio.create_task(_raw_watch(kube, path))
    await asyncio.sleep(0.2)
    sandbox.fault("cut", resource="secrets")
    with pytest.raises(Exception, match=r"(?i)disconnect|closed|payload|reset"):
        await asyncio.wait_for(running, 5)


async def test_errors_are_status_objects_of_exactly_one_content_type(kube: Any, management: Management) -> None:
    url = management.endpoint + "/api/v1/namespaces/none"
    answer = await kube.call_api("GET", url, {"Authorization": _bearer(kube)})
    assert answer.getheader("Content-Type") == "application/json"
    assert json.loads(await answer.read())["kind"] == "Status"


async def test_an_unknown_token_is_unauthorized(management: Management) -> None:
    async with api_client(management, token="nobody") as stranger:
        with pytest.raises(client.ApiException) as refused:
            await client.CoreV1Api(stranger).list_namespace()
    assert refused.value.status == 401


async def test_the_version_is_that_of_the_installed_k3s(kube: Any) -> None:
    assert (await client.VersionApi(kube).get_code()).git_version == "v1.36.5+k3s1"


async def test_a_service_account_secret_is_filled_and_signs_in(
    core: Any, management: Management, sandbox: Sandbox, namespace: str
) -> None:
    about = {"name": "key", "annotations": {"kubernetes.io/service-account.name": "robot"}}
    body = {"metadata": about, "type": "kubernetes.io/service-account-token"}
    await core.create_namespaced_secret(namespace, body)
    await core.create_namespaced_service_account(namespace, {"metadata": {"name": "robot"}})

    async def filled() -> Any:
        secret = await core.read_namespaced_secret("key", namespace)
        return secret if (secret.data or {}).get("token") else None

    secret = await sandbox.until(filled)
    import base64

    token = base64.b64decode(secret.data["token"]).decode()
    assert base64.b64decode(secret.data["ca.crt"]).decode() == management.ca
    async with api_client(management, token) as robot:
        await client.CoreV1Api(robot).list_namespace()
        await core.delete_namespaced_secret("key", namespace)
        with pytest.raises(client.ApiException):
            await client.CoreV1Api(robot).list_namespace()


async def test_a_token_review_needs_audience_account_and_pod(kube: Any, management: Management, namespace: str) -> None:
    core: Any = client.CoreV1Api(kube)
    reviews: Any = client.AuthenticationV1Api(kube)
    pod = {"metadata": {"name": "bound"}, "spec": {"nodeSelector": {"no": "where"}, "containers": [{"name": "c"}]}}
    made = await core.create_namespaced_pod(namespace, pod)
    bound = {"kind": "Pod", "apiVersion": "v1", "name": "bound", "uid": made.metadata.uid}
    spec = {"audiences": ["test/audience"], "expirationSeconds": 600, "boundObjectRef": bound}
    asked = await core.create_namespaced_service_account_token("default", namespace, {"spec": spec})
    token = asked.status.token

    async def review(*audiences: str) -> Any:
        body = {"spec": {"token": token, "audiences": list(audiences)}}
        return (await reviews.create_token_review(body)).status

    good = await review("test/audience", "other")
    assert (good.authenticated, good.audiences) == (True, ["test/audience"])
    assert good.user.extra["authentication.kubernetes.io/pod-uid"] == [made.metadata.uid]
    assert not (await review("other")).authenticated
    async with api_client(management, token) as stranger:
        with pytest.raises(client.ApiException) as refused:
            await client.CoreV1Api(stranger).list_namespace()
        assert refused.value.status == 401
    await core.delete_namespaced_pod("bound", namespace)
    assert not (await review("test/audience")).authenticated
    with pytest.raises(client.ApiException) as late:
        await core.create_namespaced_service_account_token("default", namespace, {"spec": spec})
    assert late.value.status == 404


async def test_an_access_review_says_yes_unless_a_fault_denies(kube: Any, sandbox: Sandbox) -> None:
    access: Any = client.AuthorizationV1Api(kube)
    body = {"spec": {"resourceAttributes": {"verb": "create", "resource": "pods"}}}
    assert (await access.create_self_subject_access_review(body)).status.allowed
    sandbox.fault("denied", times=1, verb="create", resource="pods")
    assert not (await access.create_self_subject_access_review(body)).status.allowed
    assert (await access.create_self_subject_access_review(body)).status.allowed


async def test_a_faulty_api_answers_as_told_and_recovers(core: Any, sandbox: Sandbox, namespace: str) -> None:
    sandbox.fault("throttled", times=1, area="kube", resource="configmaps", namespace=namespace)
    with pytest.raises(client.ApiException) as refused:
        await core.list_namespaced_config_map(namespace)
    assert (refused.value.status, the(refused.value).headers["Retry-After"]) == (429, "1")
    sandbox.fault("lost", times=1, area="kube", action="POST", resource="configmaps", namespace=namespace)
    with pytest.raises(Exception, match=r"(?i)disconnect|closed|reset"):
        await core.create_namespaced_config_map(namespace, config_map("lost"))
    assert await core.read_namespaced_config_map("lost", namespace)
