"""Every connection checks identity, version and permissions, and says what is wrong."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import pytest
from anycloud_common.kube import Kube, KubeError, Permission, check_connection

from tests.unit.kube.api_server import ApiServer, Fault, Refusal

NEEDED: Sequence[Permission] = [
    Permission(verb, resource, group)
    for resource, group in (
        ("nodes", ""),
        ("pods", ""),
        ("deployments", "apps"),
        ("networkpolicies", "networking.k8s.io"),
    )
    for verb in ("get", "list", "watch", "create", "patch", "delete")
] + [Permission("get", "pods", subresource="log")]


@pytest.fixture
def uid(server: ApiServer) -> str:
    namespace = {"metadata": {"name": "kube-system", "uid": "the-uid"}}
    server.objects[("/api/v1", "namespaces", "", "kube-system")] = namespace
    return "the-uid"


@pytest.mark.req("AU-019")
async def test_another_cluster_behind_the_endpoint_is_refused_and_asked_nothing_else(
    kube: Kube, server: ApiServer, uid: str
) -> None:
    report = await check_connection(kube, "recorded-uid", NEEDED)
    assert not report.ok
    assert uid in report.problems[0]
    assert "recorded-uid" in report.problems[0]
    assert len(server.seen) == 1


@pytest.mark.req("AU-020", "AU-021")
async def test_each_permission_and_the_version_are_asked_for(kube: Kube, server: ApiServer, uid: str) -> None:
    report = await check_connection(kube, uid, NEEDED)
    assert report.ok
    assert report.version is not None
    assert report.version.git_version == "v1.36.5+k3s1"
    asked = [seen.body["spec"]["resourceAttributes"] for seen in server.seen if seen.body]
    assert len(asked) == len(NEEDED)
    assert {"verb": "get", "group": "", "resource": "pods", "subresource": "log", "namespace": ""} in asked
    assert 1 < server.reviews_at_once <= 8


async def test_a_missing_permission_is_named_by_verb_and_resource(kube: Kube, server: ApiServer, uid: str) -> None:
    server.denied = {("patch", "deployments"), ("delete", "nodes")}
    report = await check_connection(kube, uid, NEEDED)
    assert [str(permission) for permission in report.missing] == ["delete nodes", "patch deployments.apps"]
    assert "delete nodes, patch deployments.apps" in report.problems[0]


@pytest.mark.parametrize(
    ("version", "fine"),
    [
        ("v1.34.9+k3s1", False),
        ("v1.35.7+k3s1", True),
        ("v1.36.5+k3s1", True),
        ("v1.37.1+k3s1", True),
        ("v1.38.0-rc1+k3s1", True),
        ("v1.39.0+k3s1", False),
        ("v2.36.0", False),
    ],
)
async def test_a_version_outside_the_window_is_named(
    kube: Kube, server: ApiServer, uid: str, version: str, fine: bool
) -> None:
    server.git_version = version
    report = await check_connection(kube, uid, NEEDED[:1])
    assert report.ok is fine
    assert fine or version in report.problems[0]


async def test_a_cluster_that_cannot_be_asked_is_an_error_and_not_a_refusal(
    kube: Kube, server: ApiServer, uid: str
) -> None:
    server.faults.append(Fault("POST", "/selfsubjectaccessreviews", Refusal(503, "ServiceUnavailable")))
    with pytest.raises(KubeError) as caught:
        await check_connection(kube, uid, NEEDED)
    assert caught.value.reason == "unreachable"


def test_the_official_client_is_loaded_at_the_first_call_only() -> None:
    program = (
        "import sys, anycloud_common.kube\n"
        "anycloud_common.kube.Kube.from_token('https://127.0.0.1:1', '', 't')\n"
        "print([name for name in ('kubernetes', 'aiohttp') if name in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", program], text=True).strip() == "[]"


def test_no_model_of_the_official_client_is_loaded() -> None:
    """In a process of its own, as other tests use them."""
    program = (
        "import asyncio, sys, anycloud_common.kube as kube\n"
        "async def call():\n"
        "    try:\n"
        "        await kube.Kube.from_token('http://127.0.0.1:1', '', 't').get('Pod', 'p', 'n')\n"
        "    except kube.KubeError as error:\n"
        "        print(error.reason)\n"
        "asyncio.run(call())\n"
        "print([name for name in sys.modules if name.startswith('kubernetes.aio.client.models.')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["unreachable", "[]"]
