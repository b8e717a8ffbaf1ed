"""Others write to our objects: what we own is put back, what we don't own stays, and nobody's write stops us."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial

import pytest
from anycloud_common.kube import KINDS, KubeError, Object
from anycloud_common.kube.transport import Request

from tests.kube.product import Product

pytestmark = pytest.mark.asyncio(loop_scope="session")

EGRESS = "anycloud-default-egress"
NOTE = {"example.com/note": "theirs"}


async def stored(product: Product, kind: str, name: str, namespace: str) -> Object:
    found = await product.kube.get(kind, name, namespace)
    assert found is not None, f"{kind} {name} is gone"
    return found


async def edit(product: Product, kind: str, obj: Object, change: Object) -> Object:
    """As somebody else, who isn't our field manager."""
    about = obj["metadata"]
    path = KINDS[kind].path(about["namespace"], about["name"])
    query = {"fieldManager": "stranger"}
    request = Request("patch", kind, "PATCH", path, query, change, "application/merge-patch+json")
    return await product.kube._transport.call(request)


async def test_an_edited_deployment_gets_our_fields_back_and_keeps_theirs(product: Product) -> None:
    made = await product.deploy("shared", env={"A": "ours"})
    await product.ready(made)
    namespace = product.namespace(product.pool_ids[0])
    before = await stored(product, "Deployment", made, namespace)
    change = {"metadata": {"annotations": NOTE}, "spec": {"replicas": 3, "minReadySeconds": 1}}
    await edit(product, "Deployment", before, change)

    async def repaired() -> bool:
        now = await stored(product, "Deployment", made, namespace)
        return bool(now["spec"]["replicas"] == 1)

    await product.until(repaired, lambda: stored(product, "Deployment", made, namespace))
    after = await stored(product, "Deployment", made, namespace)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["metadata"]["annotations"]["example.com/note"] == "theirs"
    assert after["spec"]["minReadySeconds"] == 1
    assert after["spec"]["template"] == before["spec"]["template"]

    async def one() -> bool:
        return len(product.kubelets.pods(made)) == 1

    await product.until(one, lambda: asyncio.sleep(0, len(product.kubelets.pods(made))))
    product.kubelets.most_at_once[made] = 1  # more were there for a moment, by the stranger's will


async def test_an_edited_secret_and_policy_are_put_back(product: Product) -> None:
    name = f"secret{len(product.door.calls)}"
    await product.save_secret(name, KEY="right")
    made = await product.deploy("shared", secrets=[name])
    await product.ready(made)
    namespace = product.namespace(product.pool_ids[0])
    for kind, owned, field, wrong in (
        ("Secret", made, "data", {"KEY": "d3Jvbmc=", "MORE": "d3Jvbmc="}),
        ("NetworkPolicy", EGRESS, "spec", {"egress": [{}]}),
    ):
        before = await stored(product, kind, owned, namespace)
        await edit(product, kind, before, {field: wrong, "metadata": {"annotations": NOTE}})

        async def repaired(kind: str = kind, owned: str = owned, field: str = field, before: Object = before) -> bool:
            now = await stored(product, kind, owned, namespace)
            ours = before[field].items() <= now[field].items()
            return bool(ours and now["metadata"]["annotations"]["example.com/note"] == "theirs")

        await product.until(repaired, partial(stored, product, kind, owned, namespace))


async def test_a_deleted_object_is_made_anew_once(product: Product) -> None:
    made = await product.deploy("shared")
    first = await product.ready(made)
    namespace = product.namespace(product.pool_ids[0])
    old = await stored(product, "Deployment", made, namespace)
    await product.kube.delete("Deployment", made, namespace, old["metadata"]["uid"])

    async def anew() -> bool:
        found = (await product.deployment(made)).status
        return found.ready and found.pod_uid != first["metadata"]["uid"]

    await product.until(anew, lambda: product.deployment(made))
    assert len(product.door.made("deployments", made)) == 2
    sets, _ = await product.kube.list("ReplicaSet", namespace, {"anycloud.sh/deployment": made})
    new = await stored(product, "Deployment", made, namespace)
    owners = [owner["uid"] for one in sets for owner in one["metadata"]["ownerReferences"]]
    assert owners == [new["metadata"]["uid"]]


async def test_an_upgrade_goes_through_while_others_write_without_pause(product: Product) -> None:
    made = await product.deploy("shared", env={"A": "1"})
    await product.ready(made)
    namespace = product.namespace(product.pool_ids[0])
    busy = asyncio.create_task(scribble(product, made, namespace))
    try:
        await product.upgrade(made, max_concurrent_jobs_per_replica=2)
        await product.ready(made, generation=2)
    finally:
        busy.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await busy
    after = await stored(product, "Deployment", made, namespace)
    assert after["spec"]["template"]["metadata"]["labels"]["anycloud.sh/revision"] == "2"
    assert "example.com/count" in after["metadata"]["annotations"]


async def scribble(product: Product, name: str, namespace: str) -> None:
    """Changes the object so fast that what one read of it is old at once."""
    count = 0
    while True:
        with contextlib.suppress(KubeError):
            found = await stored(product, "Deployment", name, namespace)
            await edit(product, "Deployment", found, {"metadata": {"annotations": {"example.com/count": str(count)}}})
        count += 1
        await asyncio.sleep(0.01)


async def test_a_fighting_controller_is_put_right_without_a_storm(product: Product) -> None:
    """Each of its writes costs us a few requests and not a loop of our own."""
    made = await product.deploy("shared")
    await product.ready(made)
    namespace = product.namespace(product.pool_ids[0])
    for _ in range(5):
        found = await stored(product, "Deployment", made, namespace)
        await edit(product, "Deployment", found, {"spec": {"revisionHistoryLimit": 7}})

        async def repaired() -> bool:
            return bool((await stored(product, "Deployment", made, namespace))["spec"]["revisionHistoryLimit"] == 1)

        await product.until(repaired, lambda: stored(product, "Deployment", made, namespace))
    await asyncio.sleep(1)
    patches = [call for call in product.door.calls if call.is_a("patch", "deployments") and call.name == made]
    assert 5 <= len(patches) <= 16, [str(call) for call in patches]
