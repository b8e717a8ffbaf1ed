"""Objects that bear our names and aren't ours: never touched, named to the user, and no obstacle once they are gone."""

from __future__ import annotations

import pytest
from aiohttp import web
from anycloud_common.kube import KINDS, Object

from tests.kube.door import Call
from tests.kube.objects import pod_spec
from tests.kube.product import RUNNING, Product

pytestmark = pytest.mark.asyncio(loop_scope="session")

STRANGER = {"app.kubernetes.io/managed-by": "somebody"}
BODIES: dict[str, Object] = {
    "Namespace": {},
    "ServiceAccount": {},
    "Secret": {"type": "Opaque", "data": {"key": "c2VjcmV0"}},
    "NetworkPolicy": {"spec": {"podSelector": {"matchLabels": {"a": "b"}}, "policyTypes": ["Ingress"]}},
    "Deployment": {
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod_spec()},
        }
    },
}


class Stranger:
    """Takes the name of the first object of a kind that the product is about to make."""

    def __init__(self, product: Product, kind: str, namespace: str | None = None) -> None:
        self.kind = kind
        self.made: Object | None = None
        self._product = product
        self._namespace = namespace
        product.door.fault = self._before

    async def _before(self, call: Call) -> web.StreamResponse | None:
        if self.made is None and call.is_a("create", KINDS[self.kind].plural, self._namespace):
            where = {"namespace": call.namespace} if call.namespace else {}
            body = {"metadata": {"name": call.name, "labels": STRANGER, **where}, **BODIES[self.kind]}
            self.made = await self._product.kube.create(self.kind, body)
        return None

    async def check_untouched(self) -> None:
        """It is to the letter what its owner made, but for what controllers report."""
        assert self.made is not None
        assert _own(await self.now()) == _own(self.made)

    async def now(self) -> Object:
        assert self.made is not None
        about = self.made["metadata"]
        found = await self._product.kube.get(self.kind, about["name"], about.get("namespace"))
        assert found is not None, f"{self.kind} {about['name']} is gone"
        return found

    async def leave(self) -> None:
        assert self.made is not None
        about = self.made["metadata"]
        await self._product.kube.delete(self.kind, about["name"], about.get("namespace"), about["uid"])

    async def gone(self) -> bool:
        assert self.made is not None
        about = self.made["metadata"]
        found = await self._product.kube.get(self.kind, about["name"], about.get("namespace"))
        return found is None or found["metadata"]["uid"] != about["uid"]


def _own(obj: Object) -> Object:
    """What its owner and nobody else writes."""
    hidden = {"resourceVersion", "managedFields"}  # a controller's report changes these too
    annotations = obj["metadata"].get("annotations") or {}
    about = {key: value for key, value in obj["metadata"].items() if key not in hidden}
    about["annotations"] = {k: v for k, v in annotations.items() if k != "deployment.kubernetes.io/revision"}
    left_out = {"status", "apiVersion", "kind"}  # an object of a list doesn't say what it is
    return {**{key: value for key, value in obj.items() if key not in left_out}, "metadata": about}


@pytest.mark.parametrize("kind", ["ServiceAccount", "Secret", "Deployment"])
async def test_a_strangers_object_with_a_deployments_name_is_named_left_alone_and_outlived(
    product: Product, kind: str
) -> None:
    stranger = Stranger(product, kind, product.namespace(product.pool_ids[0]))
    made = await product.deploy("shared")
    namespace = product.namespace(product.pool_ids[0])
    said = await product.deployment_says(made, kind, made, "does not belong to Anycloud")
    assert f"kubectl -n {namespace} delete {KINDS[kind].resource} {made}" in said
    await stranger.check_untouched()
    await stranger.leave()
    await product.ready(made)
    assert len(product.door.made(KINDS[kind].plural, made)) == 1


@pytest.mark.parametrize("kind", ["ServiceAccount", "Secret", "Deployment"])
async def test_a_deployment_that_met_a_stranger_is_deleted_without_him(product: Product, kind: str) -> None:
    stranger = Stranger(product, kind, product.namespace(product.pool_ids[0]))
    made = await product.deploy("shared")
    await product.deployment_says(made, kind, "does not belong to Anycloud")
    await product.undeploy(made)
    await product.gone(made)
    await stranger.check_untouched()
    await stranger.leave()


@pytest.mark.req("DP-052")
async def test_a_strangers_namespace_is_named_left_alone_and_outlived(product: Product) -> None:
    stranger = Stranger(product, "Namespace")
    pool_id = await product.running_pool("second")
    made = await product.deploy("second")
    name = product.namespace(pool_id)
    said = await product.pool_says(pool_id, "Namespace", name, "does not belong to Anycloud")
    assert f"kubectl delete namespaces {name}" in said
    assert "does not belong to Anycloud" in await product.deployment_says(made, name)
    assert (await product.pool(pool_id)).state == RUNNING, "its VMs have nothing to do with it"
    await stranger.check_untouched()
    assert not [line for line in await product.objects() if f" {name}/" in line], "nothing is written into it"
    await stranger.leave()
    await product.ready(made)
    assert not (await product.pool(pool_id)).last_error


@pytest.mark.req("NP-072")
async def test_a_pool_that_met_a_strangers_namespace_is_deleted_without_it(product: Product) -> None:
    stranger = Stranger(product, "Namespace")
    pool_id = await product.running_pool("second")
    made = await product.deploy("second")
    await product.pool_says(pool_id, "does not belong to Anycloud")
    await product.tidy()
    await stranger.check_untouched()
    await stranger.leave()
    await product.until(stranger.gone, stranger.now)
    assert made


async def test_a_strangers_policy_with_the_pools_name_keeps_workloads_out_and_is_left_alone(product: Product) -> None:
    stranger = Stranger(product, "NetworkPolicy")
    pool_id = await product.running_pool("second")
    made = await product.deploy("second")
    said = await product.pool_says(pool_id, "NetworkPolicy", "does not belong to Anycloud")
    assert f"kubectl -n {product.namespace(pool_id)} delete networkpolicies.networking.k8s.io" in said
    await product.deployment_says(made, "NetworkPolicy", "does not belong to Anycloud")
    assert await product.objects("ServiceAccount", "Deployment") == [], "a Pod would be without its policy"
    await stranger.check_untouched()
    await stranger.leave()
    await product.ready(made)


async def test_a_strangers_join_token_is_never_used_or_changed(product: Product) -> None:
    stranger = Stranger(product, "Secret", "kube-system")
    pool_id = await product.create_pool("second")
    said = await product.pool_says(pool_id, "Secret kube-system/bootstrap-token-", "does not belong to Anycloud")
    assert "kubectl -n kube-system delete secrets bootstrap-token-" in said
    await stranger.check_untouched()
    assert not [m for m in product.kubelets.machines() if m["tags"]["anycloud_node_pool"] == pool_id]
    await stranger.leave()
    await product.pool_is(pool_id, RUNNING)
