"""Who calls and what he may do, against every API server: workload tokens, accounts, joining machines, permissions.

The real server keeps believing a token for up to ten seconds after its end.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from anycloud_common.kube import (
    KINDS,
    Kube,
    KubeError,
    Object,
    Permission,
    TokenIdentity,
    check_connection,
    cluster_uid,
)
from anycloud_common.kube.names import WORKLOAD_TOKEN_AUDIENCE
from anycloud_common.kube.transport import Request
from anycloud_control_plane.certificates import Authority, key_pem, new_key, request_pem

from tests.kube.objects import config_map, metadata, pod_spec
from tests.kube.servers import KubernetesServer, Server, connect
from tests.kube.test_client import refusal
from tests.kube.waiting import until

SIGNER = "kubernetes.io/kube-apiserver-client-kubelet"
_CSR = "/apis/certificates.k8s.io/v1/certificatesigningrequests"


async def send(kube: Kube, method: str, path: str, body: Any = None) -> Object:
    return await kube._transport.call(Request(method.lower(), path, method, path, body=body))


async def workload(kube: Kube, ns: str, node: str | None = None) -> Object:
    """A Pod of the ServiceAccount `workload`."""
    await kube.create("ServiceAccount", {"metadata": metadata("workload", ns)})
    where = {"nodeName": node} if node else {"nodeSelector": {"test/none": "none"}}
    body = {"metadata": metadata("p", ns), "spec": pod_spec(serviceAccountName="workload", **where)}
    return await kube.create("Pod", body)


async def token_of(kube: Kube, ns: str, pod: Object, *, audience: str = WORKLOAD_TOKEN_AUDIENCE) -> str:
    """A token as the kubelet asks for it on behalf of a Pod."""
    bound = {"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": pod["metadata"]["uid"]}
    spec = {"audiences": [audience], "expirationSeconds": 3600, "boundObjectRef": bound}
    path = KINDS["ServiceAccount"].path(ns, "workload", "token")
    return str((await send(kube, "POST", path, {"spec": spec}))["status"]["token"])


# Workload tokens


async def test_a_workloads_token_tells_its_pod_and_account(kube: Kube, ns: str) -> None:
    pod = await workload(kube, ns)
    identity = await kube.token_review(await token_of(kube, ns, pod), [WORKLOAD_TOKEN_AUDIENCE])
    account = await kube.get("ServiceAccount", "workload", ns)
    assert account is not None
    assert identity == TokenIdentity(ns, "workload", account["metadata"]["uid"], "p", pod["metadata"]["uid"], None)


async def test_a_token_for_another_audience_is_nobodys(kube: Kube, ns: str) -> None:
    pod = await workload(kube, ns)
    token = await token_of(kube, ns, pod, audience="another")
    assert await kube.token_review(token, [WORKLOAD_TOKEN_AUDIENCE]) is None
    assert await kube.token_review("rubbish", [WORKLOAD_TOKEN_AUDIENCE]) is None


async def test_a_workloads_token_is_no_key_to_the_api(server: Server, kube: Kube, ns: str) -> None:
    stranger = connect(server, await token_of(kube, ns, await workload(kube, ns)))
    assert (await refusal(stranger.list("Pod", ns))).reason == "auth"
    await stranger.close()


async def test_a_token_ends_with_its_pod(kube: Kube, ns: str) -> None:
    pod = await workload(kube, ns)
    token = await token_of(kube, ns, pod)
    await kube.delete("Pod", "p", ns, pod["metadata"]["uid"])
    await until(lambda: nobodys(kube, token))
    error = await refusal(token_of(kube, ns, pod))
    assert error.reason == "not_found"


async def test_a_token_is_worth_nothing_to_the_next_pod_of_that_name(kube: Kube, ns: str) -> None:
    pod = await workload(kube, ns)
    token = await token_of(kube, ns, pod)
    await kube.delete("Pod", "p", ns, pod["metadata"]["uid"])
    spec = pod_spec(serviceAccountName="workload", nodeSelector={"test/none": "none"})
    await kube.create("Pod", {"metadata": metadata("p", ns), "spec": spec})
    await until(lambda: nobodys(kube, token))


async def nobodys(kube: Kube, token: str) -> bool:
    return await kube.token_review(token, [WORKLOAD_TOKEN_AUDIENCE]) is None


async def test_a_token_of_a_pod_that_is_being_deleted_still_counts(kube: Kube, ns: str) -> None:
    pod = await workload(kube, ns, node="nobody")
    token = await token_of(kube, ns, pod)
    await kube.delete("Pod", "p", ns, pod["metadata"]["uid"])
    assert await kube.token_review(token, [WORKLOAD_TOKEN_AUDIENCE]) is not None


async def test_a_token_is_bound_to_the_uid_of_its_pod(kube: Kube, ns: str) -> None:
    pod = await workload(kube, ns)
    other = {"metadata": {**pod["metadata"], "uid": "00000000-0000-0000-0000-000000000000"}}
    assert (await refusal(token_of(kube, ns, other))).reason == "conflict"


async def test_a_token_ends_with_its_account(kube: Kube, ns: str) -> None:
    token = await token_of(kube, ns, await workload(kube, ns))
    account = await kube.get("ServiceAccount", "workload", ns)
    assert account is not None
    await kube.delete("ServiceAccount", "workload", ns, account["metadata"]["uid"])
    await until(lambda: nobodys(kube, token))


# The installer's account


async def test_a_token_secret_is_filled_and_signs_in_until_it_is_deleted(server: Server, kube: Kube, ns: str) -> None:
    await kube.create("ServiceAccount", {"metadata": metadata("robot", ns)})
    about = metadata("key", ns)
    about["annotations"] = {**about["annotations"], "kubernetes.io/service-account.name": "robot"}
    made = await kube.create("Secret", {"metadata": about, "type": "kubernetes.io/service-account-token"})

    async def filled() -> Object | None:
        found = await kube.get("Secret", "key", ns)
        return found if found and (found.get("data") or {}).get("token") else None

    secret = await until(filled)
    assert base64.b64decode(secret["data"]["ca.crt"]).decode() == server.ca
    token = base64.b64decode(secret["data"]["token"]).decode()
    robot = connect(server, token)
    await robot.version()
    await kube.delete("Secret", "key", ns, made["metadata"]["uid"])

    await until(lambda: refused(robot.version))
    await robot.close()


async def refused(call: Callable[[], Awaitable[object]]) -> bool:
    """Whether its token is no longer accepted."""
    try:
        await call()
    except KubeError as error:
        return error.reason == "auth"
    return False


async def test_an_unknown_token_and_another_authority_are_refused(server: Server) -> None:
    stranger = connect(server, "nobody")
    assert (await refusal(stranger.list("Pod"))).reason == "auth"
    assert (await refusal(stranger.version())).reason == "auth"  # K3s answers nothing to the anonymous
    await stranger.close()
    misled = Kube.from_token(server.endpoint, Authority("somebody else").pem, server.token)
    assert (await refusal(misled.version())).reason == "unreachable"
    await misled.close()


# Joining machines


async def bootstrap_token(kube: Kube, token_id: str, **more: str) -> str:
    word = "0123456789abcdef"
    data = {"token-id": token_id, "token-secret": word, "usage-bootstrap-authentication": "true"}
    data |= {"auth-extra-groups": "system:bootstrappers:k3s:default-node-token", **more}
    about = {"name": f"bootstrap-token-{token_id}", "namespace": "kube-system"}
    body = {"metadata": about, "type": "bootstrap.kubernetes.io/token", "stringData": data}
    await kube.create("Secret", body)
    return f"{token_id}.{word}"


async def test_a_bootstrap_token_gets_a_nodes_certificate(server: Server, kube: Kube, tmp_path: Path) -> None:
    newcomer = connect(server, await bootstrap_token(kube, "aaaaa1"))
    key = new_key()
    request = base64.b64encode(request_pem(key, "system:node:joiner", "system:nodes").encode()).decode()
    spec = {"request": request, "signerName": SIGNER, "usages": ["digital signature", "client auth"]}
    made = await send(newcomer, "POST", _CSR, {"metadata": {"generateName": "node-csr-"}, "spec": spec})

    async def signed() -> str:
        found = await send(newcomer, "GET", f"{_CSR}/{made['metadata']['name']}")
        return str((found.get("status") or {}).get("certificate") or "")

    certificate = base64.b64decode(await until(signed)).decode()
    await newcomer.close()
    (tmp_path / "client.pem").write_text(key_pem(key) + certificate)
    status, node = await as_node(server, tmp_path / "client.pem", "joiner")
    assert (status, node["metadata"]["name"]) == (201, "joiner")
    found = await kube.get("Node", "joiner")
    assert found is not None
    await kube.delete("Node", "joiner", None, found["metadata"]["uid"])


async def as_node(server: Server, certificate: Path, name: str) -> tuple[int, Object]:
    """The answer to a Node that registers itself, with its certificate alone."""
    context = ssl.create_default_context(cadata=server.ca)
    context.load_cert_chain(certificate)
    body = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": name, "labels": {"anycloud.sh/node-pool": "np"}}}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{server.endpoint}/api/v1/nodes", json=body, ssl=context) as answer,
    ):
        return answer.status, await answer.json()


async def test_a_bootstrap_token_ends_with_its_secret(server: Server, kube: Kube) -> None:
    newcomer = connect(server, await bootstrap_token(kube, "aaaaa2"))
    assert not await signed_out(newcomer)
    secret = await kube.get("Secret", "bootstrap-token-aaaaa2", "kube-system")
    assert secret is not None
    await kube.delete("Secret", "bootstrap-token-aaaaa2", "kube-system", secret["metadata"]["uid"])

    await until(lambda: signed_out(newcomer))
    await newcomer.close()


async def test_an_expired_bootstrap_token_is_refused(server: Server, kube: Kube) -> None:
    newcomer = connect(server, await bootstrap_token(kube, "aaaaa3", expiration="2020-01-01T00:00:00Z"))
    assert await signed_out(newcomer)
    await newcomer.close()


async def signed_out(newcomer: Kube) -> bool:
    """Whether a joining machine is refused; one that isn't may read certificate requests, and nothing else."""
    return (await refusal(send(newcomer, "GET", f"{_CSR}/none"))).reason == "auth"


# Checks of a connection


async def test_a_connection_is_checked_by_identity_version_and_permissions(kube: Kube) -> None:
    needed = [Permission(verb, "pods") for verb in ("get", "list", "watch")] + [Permission("patch", "jobs", "batch")]
    report = await check_connection(kube, await cluster_uid(kube), needed)
    assert report.ok
    assert report.version is not None
    assert report.version.git_version.startswith(f"v1.{report.version.minor}.")
    report = await check_connection(kube, "another", needed)
    assert "kube-system UID" in report.problems[0]


# Permissions, which the sandbox does not model


@pytest.fixture
async def reader(kubernetes: KubernetesServer, real_ns: str) -> AsyncIterator[Kube]:
    """An account that reads Pods of all Namespaces, and nothing else."""
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}]
    token = await asyncio.to_thread(kubernetes.plane.service_account, real_ns, "reader", rules)
    connection = connect(kubernetes, token)
    yield connection
    await connection.close()


async def test_a_missing_permission_is_found_and_named(reader: Kube, kubernetes: KubernetesServer) -> None:
    system = kubernetes.plane.call("GET", "/api/v1/namespaces/kube-system")
    assert (await refusal(cluster_uid(reader))).reason == "forbidden"
    assert await reader.access_review("list", "", "pods")
    assert not await reader.access_review("list", "", "secrets")
    assert not await reader.access_review("get", "", "pods", "log")
    assert system["metadata"]["uid"]


async def test_a_denied_call_is_forbidden_and_names_verb_and_resource(reader: Kube, real_ns: str) -> None:
    assert await reader.list("Pod") is not None
    error = await refusal(reader.ensure("ConfigMap", config_map(real_ns), {"anycloud.sh/deployment": "dep-1"}))
    assert (error.reason, error.verb, error.resource) == ("forbidden", "create", "configmaps")


async def test_a_deleted_accounts_token_is_refused(reader: Kube, kubernetes: KubernetesServer, real_ns: str) -> None:
    await reader.list("Pod")
    kubernetes.plane.call("DELETE", f"/api/v1/namespaces/{real_ns}/serviceaccounts/reader")

    await until(lambda: refused(lambda: reader.list("Pod")))
