"""A server that is slow, throttles, fails in bursts, or says nothing: deadlines hold, and the other work goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from anycloud_common.clock import SystemClock
from anycloud_common.kube import Kube, Object, reflector

from tests.kube.door import Call, answer
from tests.kube.product import RUNNING, TERMINATED, Product, execution, running
from tests.kube.servers import Server

pytestmark = pytest.mark.asyncio(loop_scope="session")

DEADLINE_S = 4.0
RETRY_AFTER_S = 5


async def test_a_throttled_product_waits_for_as_long_as_it_is_told(product: Product) -> None:
    tries: list[float] = []

    async def throttle(call: Call) -> web.StreamResponse | None:
        if call.is_a("create", "serviceaccounts"):
            tries.append(call.at)
            if call.at - tries[0] < RETRY_AFTER_S:
                return answer(429, "TooManyRequests", retry_after=RETRY_AFTER_S)
        return None

    product.door.fault = throttle
    made = await product.deploy("shared")
    await product.ready(made)
    assert len(tries) <= 3, "one more may come early, when something else about the Deployment is news"


@pytest.mark.parametrize("status", [500, 503, 504])
async def test_a_burst_of_server_errors_delays_and_doubles_nothing(product: Product, status: int) -> None:
    left = 12

    async def fail(call: Call) -> web.StreamResponse | None:
        nonlocal left
        if left <= 0 or call.verb == "watch":
            return None
        left -= 1
        if left % 2:
            await call.forward()  # every other one was done all the same
        return answer(status, "InternalError", "etcdserver: request timed out")

    product.door.fault = fail
    made = await product.deploy("shared")
    await product.ready(made)
    for resource in ("serviceaccounts", "secrets", "deployments"):
        assert len(product.door.made(resource, made)) == 1


async def test_a_slow_server_slows_one_deployment_down_and_no_other(product: Product) -> None:
    slow = await product.deploy("shared", "slow")
    never = asyncio.Event()

    async def stall(call: Call) -> web.StreamResponse | None:
        if call.name == slow and call.verb != "watch":
            await never.wait()
        return None

    product.door.fault = stall
    quick = [await product.deploy("shared", f"quick-{number}") for number in range(3)]
    for made in quick:
        await product.ready(made, seconds=15)
    never.set()
    await product.ready(slow)


async def test_a_namespace_that_nobody_lets_go_is_named_and_holds_nothing_else_up(product: Product) -> None:
    pool_id = await product.running_pool("second")
    await product.ready(await product.deploy("second", "first"))
    held = await hold(product, product.namespace(pool_id))
    await product.undeploy("first")
    await product.gone(product.deployment_ids[0])
    await product.delete_pool(pool_id)
    said = await product.pool_says(pool_id, product.namespace(pool_id), "finalizers")
    assert "example.com/hold" in said
    assert (await product.pool(pool_id)).releasing
    mine = [m for m in product.kubelets.machines() if m["tags"]["anycloud_node_pool"] == pool_id]
    assert {machine["state"] for machine in mine} == {"terminated"}, "its VMs don't wait for it"
    await product.ready(await product.deploy("shared", "later"))
    before = len(product.door.calls)
    await asyncio.sleep(3)
    looks = [str(call) for call in product.door.calls[before:] if call.resource == "namespaces"]
    assert len(looks) <= 4, "it looks now and then"
    await let_go(product, held)
    await product.pool_is(pool_id, TERMINATED)


async def test_a_namespace_that_somebody_deletes_comes_back_once_it_is_gone(product: Product) -> None:
    pool_id = await product.running_pool("second")
    made = await product.deploy("second")
    await product.ready(made)
    name = product.namespace(pool_id)
    held = await hold(product, name)
    old = await product.kube.get("Namespace", name)
    assert old is not None
    await product.kube.delete("Namespace", name, None, old["metadata"]["uid"])
    await product.pool_says(pool_id, name, "example.com/hold")
    assert (await product.pool(pool_id)).state == RUNNING
    await let_go(product, held)
    await product.until(partial(anew, product, name, old), partial(product.kube.get, "Namespace", name))
    await product.until(partial(up, product, made), partial(product.deployment, made))
    assert not (await product.pool(pool_id)).last_error


async def anew(product: Product, name: str, old: Object) -> bool:
    found = await product.kube.get("Namespace", name)
    return found is not None and found["metadata"]["uid"] != old["metadata"]["uid"]


async def up(product: Product, deployment_id: str) -> bool:
    return bool((await product.deployment(deployment_id)).status.ready)


async def hold(product: Product, namespace: str) -> Object:
    """An object in there with a finalizer that nobody handles."""
    about = {"name": "held", "namespace": namespace, "finalizers": ["example.com/hold"]}
    return await product.kube.create("ConfigMap", {"metadata": about})


async def let_go(product: Product, held: Object) -> None:
    about = held["metadata"]
    change = {"metadata": {"finalizers": None}}
    await product.kube.patch("ConfigMap", about["name"], about["namespace"], about["uid"], change)


@pytest.fixture
def short_deadlines(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    in_cluster = Kube.in_cluster

    def quick(cls: Any, settings: Any, clock: Any = None) -> Kube:
        return in_cluster(settings, clock, DEADLINE_S)

    monkeypatch.setattr(Kube, "in_cluster", classmethod(quick))
    monkeypatch.setattr(reflector, "_IDLE_S", 8.0)
    yield


async def test_connections_that_nobody_answers_on_any_more_are_given_up(
    server: Server, tmp_path: Path, short_deadlines: None, impatient: None
) -> None:
    """No end, no reset: the bytes go nowhere, as behind a firewall that forgot the connection."""
    async with running(server, tmp_path) as product:
        pool_id = await product.running_pool()
        old = await product.deploy(pool_id, "old")
        pod = await product.ready(old)
        product.door.strand()
        about = pod["metadata"]
        await product.kube.delete("Pod", about["name"], about["namespace"], about["uid"])
        made = await product.deploy(pool_id, "new")
        await product.ready(made)
        await product.until(partial(up, product, old), partial(product.deployment, old))
        await product.end()


class Wanders(SystemClock):
    """A machine whose wall clock is set to another time again and again."""

    ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms


async def test_a_wall_clock_that_jumps_loses_no_vm_and_no_job(server: Server, tmp_path: Path, impatient: None) -> None:
    clock = Wanders()
    async with running(server, tmp_path, clock) as product:
        pool_id = await product.running_pool()
        made = await product.deploy(pool_id)
        pod = await product.ready(made)
        token, run = await product.token_of(pod), execution()
        await product.submit(made, "job-of-a-wanderer")
        assert await product.pick_up(made, token, run)
        for hours in (5, -5, 24 * 365, 0):
            clock.ahead_ms = hours * 3_600_000
            product.door.cut()  # everything is looked at anew
            await asyncio.sleep(0.7)
            await product.ready(await product.deploy(pool_id, f"after-{abs(hours)}-{hours < 0}".lower()))
            assert await product.job_state("job-of-a-wanderer") == "running"
            assert (await product.pool(pool_id)).state == RUNNING
        assert len(product.kubelets.machines()) == 1
        await product.finish(made, token, "job-of-a-wanderer", run)
        await product.job_is("job-of-a-wanderer", "completed")
        await product.end()
