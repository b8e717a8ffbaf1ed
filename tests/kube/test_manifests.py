"""The objects that our services write, on the real API server, by an account with the chart's role and no more.

The server takes each whole, adds nothing that we would take for an edit, and an equal apply changes nothing.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from anycloud_common.kube import Kube, Object
from anycloud_common.kube.names import pool_namespace
from anycloud_deployment.domain import manifest
from anycloud_deployment.domain.model import DockerOptions, Probe, Resources, Revision, Spec
from anycloud_nodepool.domain import addons, egress, join
from anycloud_nodepool.domain.addons import Installation, Verdict

from tests.kube import helm
from tests.kube.servers import KubernetesServer, connect
from tests.kube.test_client import refusal
from tests.kube.waiting import until

CLUSTER = "cl-abcdefghijkl"
GIB = 2**30
AMOUNT = re.compile(r"\.(resources\..*|sizeLimit)$")
SMALL = Resources(gpus=0, cpu_millis=1500, cpu_limited=True, memory_bytes=2 * GIB, memory_limited=True)
LARGE = Resources(gpus=2, cpu_millis=2000, cpu_limited=False, memory_bytes=3 * GIB + 1, memory_limited=True)
_numbers = itertools.count(1)
PLAIN = Spec(image="acme/model:v3")
FULL = Spec(
    image="ghcr.io/acme/model@sha256:" + "1" * 64,
    command=("serve", "--cost", "$(PRICE) $$"),
    env={"B": "2", "A": "$(HOME)", "EMPTY": ""},
    secrets=("sec-1",),
    options=DockerOptions(binds=("/data", "/cache"), shm_size="1g"),
    probe=Probe(("cat", "/ready"), 0, 5, 2, 1, 3),
    replicas=3,
)


@pytest.fixture(scope="module")
def token(kubernetes: KubernetesServer) -> str:
    rules = [rule for manifest in helm.rbac() if manifest["kind"].endswith("Role") for rule in manifest["rules"]]
    return kubernetes.plane.service_account("role", "api", rules)


@pytest.fixture
async def api(kubernetes: KubernetesServer, token: str) -> AsyncIterator[Kube]:
    connection = connect(kubernetes, token)
    yield connection
    await connection.close()


@pytest.fixture
async def pool_id(api: Kube) -> AsyncIterator[str]:
    """A pool whose Namespace exists, made as nodepool does."""
    pool_id = f"np-{next(_numbers):012d}"
    made = await api.ensure("Namespace", egress.namespace(CLUSTER, pool_id), egress.owner(CLUSTER, pool_id))
    yield pool_id
    await api.delete("Namespace", made["metadata"]["name"], None, made["metadata"]["uid"])


def dropped(stored: Any, wanted: Any, path: str = "") -> list[str]:
    """Paths of what was sent and isn't stored. Empty values may be left out, and amounts are stored in a shorter
    spelling of the same value, such as 2 for 2000m."""
    if isinstance(wanted, dict) and isinstance(stored, dict):
        return [found for key, value in wanted.items() for found in dropped(stored.get(key), value, f"{path}.{key}")]
    if isinstance(wanted, list) and isinstance(stored, list) and len(wanted) == len(stored):
        pairs = enumerate(zip(stored, wanted, strict=True))
        return [found for index, pair in pairs for found in dropped(*pair, f"{path}[{index}]")]
    same = stored == wanted or (stored is None and wanted in ("", 0)) or AMOUNT.search(path)
    return [] if same else [path]


def place(pool_id: str) -> manifest.Place:
    namespace = pool_namespace(CLUSTER, pool_id)
    return manifest.Place("dep-abcdefghijkl", namespace, pool_id, "https://cl-abcdefghijkl.anycloud.sh")


async def apply(api: Kube, kind: str, body: Object, made: Object) -> Object:
    return await api.apply(kind, {**body, "metadata": {**body["metadata"], "uid": made["metadata"]["uid"]}})


# Deployments


@pytest.mark.parametrize(("spec", "resources"), [(PLAIN, SMALL), (FULL, LARGE)])
async def test_a_deployment_is_taken_whole_and_left_alone(
    api: Kube, pool_id: str, spec: Spec, resources: Resources
) -> None:
    at = place(pool_id)
    owner = manifest.owner_labels(at.deployment_id)
    bodies: Sequence[tuple[str, Object]] = [
        ("ServiceAccount", manifest.service_account(at)),
        ("Secret", manifest.secret(at, {"KEY": "value", "EMPTY": ""})),
        ("Deployment", manifest.deployment(at, Revision(1, spec, resources, "adm-1", 0))),
    ]
    for kind, body in bodies:
        made = await api.ensure(kind, body, owner)
        assert dropped(made, body) == []
        applied = await apply(api, kind, body, made)
        assert applied["metadata"].get("generation") == made["metadata"].get("generation")


async def test_the_next_revision_rolls_out_once_and_leaves_nothing_of_the_last(api: Kube, pool_id: str) -> None:
    at = place(pool_id)
    await api.ensure("ServiceAccount", manifest.service_account(at), manifest.owner_labels(at.deployment_id))
    first = manifest.deployment(at, Revision(1, FULL, LARGE, "adm-1", 0))
    made = await api.ensure("Deployment", first, manifest.owner_labels(at.deployment_id))
    await until(lambda: observed(api, made))
    second = manifest.deployment(at, Revision(2, PLAIN, SMALL, "adm-2", 0))
    applied = await apply(api, "Deployment", second, made)
    assert applied["metadata"]["generation"] == 2
    fresh = manifest.deployment(place(pool_id), Revision(2, PLAIN, SMALL, "adm-2", 0))
    fresh["metadata"]["name"] = "fresh"
    stored = await api.create("Deployment", fresh)
    assert applied["spec"] == stored["spec"]


async def observed(api: Kube, made: Object) -> bool:
    """Whether the controller has come to it; before, it writes several times at once."""
    found = await api.get("Deployment", made["metadata"]["name"], made["metadata"]["namespace"])
    return ((found or {}).get("status") or {}).get("observedGeneration") == 1


# Node pools


async def test_the_egress_policy_is_stored_as_written(api: Kube, pool_id: str) -> None:
    wanted = egress.policy(CLUSTER, pool_id)
    made = await api.create("NetworkPolicy", wanted)
    assert not egress.differs(made, wanted)
    assert egress.is_ours(made, CLUSTER, pool_id)


async def test_an_edited_egress_policy_becomes_the_wanted_one(
    api: Kube, pool_id: str, kubernetes: KubernetesServer
) -> None:
    wanted = egress.policy(CLUSTER, pool_id)
    made = await api.create("NetworkPolicy", wanted)
    at = made["metadata"]
    path = f"/apis/networking.k8s.io/v1/namespaces/{at['namespace']}/networkpolicies/{at['name']}"
    edits: list[Object] = [{"egress": []}, {"egress": [{}], "policyTypes": ["Egress", "Ingress"]}]
    for edit in edits:
        edited = await asyncio.to_thread(kubernetes.plane.call, "PATCH", path, {"spec": edit})
        assert egress.differs(edited, wanted)
        assert not egress.differs(await apply(api, "NetworkPolicy", wanted, made), wanted)


async def test_a_join_token_is_taken_and_signs_in(api: Kube, kubernetes: KubernetesServer) -> None:
    token = join.Token("abcdef", "0123456789abcdef")
    body = join.token_secret(token, "np-1", "at-1", 4_000_000_000_000)
    made = await api.ensure("Secret", body, join.token_owner("np-1", "at-1"))
    newcomer = connect(kubernetes, "abcdef.0123456789abcdef")
    assert (await newcomer.version()).minor == 35
    await newcomer.close()
    await api.delete("Secret", token.secret_name, "kube-system", made["metadata"]["uid"])


async def test_the_gpu_add_on_is_left_alone_once_it_is_there(api: Kube) -> None:
    installation = Installation(CLUSTER, "2f3b0a0e-7a53-4a64-8b2e-0d9f6e1f6c11")
    for addon in addons.nvidia(installation):
        made = await api.ensure(addon.kind, addon.body, installation.owner)
        assert dropped(made, addon.body) == []
        assert addons.judge(addon, made, installation) is Verdict.LEAVE
        applied = await apply(api, addon.kind, addon.body, made)
        assert applied["metadata"].get("generation") == made["metadata"].get("generation")
        await api.delete(addon.kind, addon.name, addon.namespace, made["metadata"]["uid"])


# Watches


@pytest.mark.req("AU-007")
async def test_the_role_can_watch_what_the_services_watch(api: Kube) -> None:
    kinds = ("Node", "Pod", "ReplicaSet", "Secret", "ServiceAccount", "Deployment", "NetworkPolicy")
    await asyncio.gather(*(watched(api, kind) for kind in kinds))


async def watched(api: Kube, kind: str) -> None:
    """Lists and watches for a second. Raises KubeError(forbidden)."""
    _, version = await api.list(kind)
    async with api.watch(kind, None, None, resource_version=version, timeout_s=1, idle_s=10) as lines:
        async for _ in lines:
            pass


async def test_what_the_role_lacks_is_noticed(kubernetes: KubernetesServer) -> None:
    """The tests above would fail with a verb less."""
    rules = [{"apiGroups": ["apps"], "resources": ["replicasets"], "verbs": ["list"]}]
    token = kubernetes.plane.service_account("role", "less", rules)
    connection = connect(kubernetes, token)
    assert (await refusal(watched(connection, "ReplicaSet"))).reason == "forbidden"
    await connection.close()
