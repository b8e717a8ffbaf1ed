"""The product's watches break, and its reconcilers miss nothing: cut connections, forgotten history, a server away."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest
from aiohttp import web
from anycloud_common.kube import Object

from tests.kube.door import Call
from tests.kube.product import RUNNING, TERMINATED, Product

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def remove(product: Product, kind: str, name: str, namespace: str) -> str:
    """Deletes an object of ours behind our back; its UID."""
    found = await product.kube.get(kind, name, namespace)
    assert found is not None
    uid = str(found["metadata"]["uid"])
    await product.kube.delete(kind, name, namespace, uid)
    return uid


async def replaced(product: Product, kind: str, name: str, namespace: str, uid: str) -> bool:
    found = await product.kube.get(kind, name, namespace)
    return found is not None and found["metadata"]["uid"] != uid


async def test_what_was_missed_while_connections_were_cut_is_put_right(product: Product) -> None:
    made = await product.deploy("shared")
    before = await product.ready(made)
    namespace = product.namespace(product.pool_ids[0])
    product.door.closed = True
    product.door.cut()
    gone = {kind: await remove(product, kind, made, namespace) for kind in ("Secret", "Deployment")}
    await asyncio.sleep(0.5)
    product.door.closed = False
    for kind, uid in gone.items():
        await product.until(
            partial(replaced, product, kind, made, namespace, uid), partial(product.kube.get, kind, made, namespace)
        )
    await fresh_pod(product, made, before)
    assert len(product.door.made("deployments", made)) == 2


async def fresh_pod(product: Product, deployment_id: str, before: Object) -> None:
    async def look() -> bool:
        status = (await product.deployment(deployment_id)).status
        return bool(status.ready and status.pod_uid != before["metadata"]["uid"])

    await product.until(look, partial(product.deployment, deployment_id))


async def test_connections_that_are_cut_again_and_again_change_nothing(product: Product) -> None:
    made = await product.deploy("shared")
    pod = await product.ready(made)
    before = len(product.door.calls)
    for _ in range(5):
        product.door.cut()
        await asyncio.sleep(0.2)
    assert (await product.ready(made))["metadata"]["uid"] == pod["metadata"]["uid"]
    written = [str(call) for call in product.door.calls[before:] if call.verb in ("create", "patch", "delete")]
    assert written == []


async def test_a_watch_whose_version_is_forgotten_lists_again_and_misses_nothing(product: Product) -> None:
    """The server ends a watch in its time, and by the next request the history is gone."""
    made = await product.deploy("shared")
    before = await product.ready(made)
    namespace = product.namespace(product.pool_ids[0])
    forgotten = asyncio.Event()
    held: list[Call] = []

    async def hold(call: Call) -> web.StreamResponse | None:
        if call.verb == "watch":
            held.append(call)
            await forgotten.wait()
        return None

    product.door.fault = hold
    product.door.end_watches()
    await product.until(lambda: asyncio.sleep(0, len(held) >= 2), lambda: asyncio.sleep(0, held))
    uid = await remove(product, "Deployment", made, namespace)
    await asyncio.to_thread(product.server.forget_history)
    product.door.fault = None
    forgotten.set()
    await product.until(
        partial(replaced, product, "Deployment", made, namespace, uid),
        partial(product.kube.get, "Deployment", made, namespace),
    )
    await fresh_pod(product, made, before)
    assert any(call.status == 410 or call.expired for call in held), "no version was too old"


async def test_what_is_deleted_while_the_server_is_away_ends_afterwards_and_nothing_leaks(product: Product) -> None:
    pool_id = await product.running_pool("second")
    made = await product.deploy("second")
    await product.ready(made)
    await asyncio.to_thread(product.server.end)
    try:
        await product.undeploy(made)
        await asyncio.sleep(1)
        found = await product.deployment(made)
        assert found.deletion_requested_at, "it is accepted and stored"
        assert not found.deleted_at, "nothing confirms that its objects are gone"
    finally:
        await asyncio.to_thread(product.server.begin)
    await product.gone(made)
    await product.delete_pool(pool_id)
    await product.pool_is(pool_id, TERMINATED)


async def test_a_pool_that_is_deleted_while_the_server_is_away_ends_its_vms_at_once(product: Product) -> None:
    """They cost money; what is in the cluster can wait."""
    pool_id = await product.running_pool("second")
    await asyncio.to_thread(product.server.end)
    try:
        await product.delete_pool(pool_id)

        async def ended() -> bool:
            mine = [m for m in product.kubelets.machines() if m["tags"]["anycloud_node_pool"] == pool_id]
            return {machine["state"] for machine in mine} == {"terminated"}

        await product.until(ended, lambda: product.pool(pool_id))
        assert (await product.pool(pool_id)).releasing
    finally:
        await asyncio.to_thread(product.server.begin)
    await product.pool_is(pool_id, TERMINATED)


async def test_what_is_asked_for_while_the_server_is_away_comes_up_afterwards_once(product: Product) -> None:
    pod = await product.ready(await product.deploy("shared", "old"))
    await asyncio.to_thread(product.server.end)
    try:
        new = await product.deploy("shared", "new")
        await product.upgrade("old", max_concurrent_jobs_per_replica=2)
        await asyncio.sleep(1)
        assert (await product.pool("shared")).state == RUNNING, "unreachable is not failed"
        status = (await product.deployment("old")).status
        assert not status.ready, "nobody can tell"
    finally:
        await asyncio.to_thread(product.server.begin)
    await product.ready(new)
    after = await product.ready("old", generation=2)
    assert after["metadata"]["uid"] != pod["metadata"]["uid"]
    for deployment_id in product.deployment_ids:
        assert len(product.door.made("deployments", deployment_id)) == 1
