"""Nodes that go and come behind our back: who owns them is their UID and attempt, and no Job is given twice."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import NamedTuple

import pytest
from anycloud_common.kube import Object, names

from tests.kube.product import FAILED, RUNNING, Product, execution

pytestmark = pytest.mark.asyncio(loop_scope="session")


class Running(NamedTuple):
    """A Job that a Deployment's Pod runs on a pool of its own; `token` is its worker's."""

    pool_id: str
    made: str
    pod: Object
    token: str
    job: str
    execution: str


async def with_a_job(product: Product) -> Running:
    pool_id = await product.running_pool("second")
    made = await product.deploy("second")
    pod = await product.ready(made)
    token = await product.token_of(pod)
    job, run = f"job-of-{made}", execution()
    await product.submit(made, job)
    assert await product.pick_up(made, token, run) == job
    return Running(pool_id, made, pod, token, job, run)


async def remove_node(product: Product, name: str) -> Object:
    node = await product.kube.get("Node", name)
    assert node is not None
    await product.kube.delete("Node", name, None, node["metadata"]["uid"])
    return node


async def ready_vms(product: Product, pool_id: str, count: int) -> bool:
    return bool((await product.pool(pool_id)).capacity.ready_vm_count == count)


async def test_a_node_that_was_deleted_costs_no_vm_and_no_job_and_may_come_back_as_another_object(
    product: Product,
) -> None:
    pool_id, made, pod, token, job, run = await with_a_job(product)
    old = await remove_node(product, pod["spec"]["nodeName"])
    await product.until(partial(ready_vms, product, pool_id, 0), partial(product.pool, pool_id))
    await asyncio.sleep(1)
    assert (await product.pool(pool_id)).capacity.starting_vm_count == 1, "its VM is still there, and paid for"
    assert await product.job_state(job) == "running", "nobody said that its container ended"
    labels = old["metadata"]["labels"]
    new = await product.kubelets.join(old["metadata"]["name"], labels[names.LABEL_ATTEMPT], pool_id)
    assert new["metadata"]["uid"] != old["metadata"]["uid"]
    await product.until(partial(ready_vms, product, pool_id, 1), partial(product.pool, pool_id))
    assert len([m for m in product.kubelets.machines() if m["tags"]["anycloud_node_pool"] == pool_id]) == 1
    assert await product.job_state(job) == "running"
    await product.finish(made, token, job, run)
    await product.job_is(job, "completed")


async def test_a_node_of_the_same_name_that_is_another_machine_is_a_stray_and_gets_no_job(product: Product) -> None:
    pool_id, made, pod, token, job, run = await with_a_job(product)
    old = await remove_node(product, pod["spec"]["nodeName"])
    stray = await product.kubelets.join(old["metadata"]["name"], "at-99-00000000", pool_id)
    said = await product.pool_says(pool_id, old["metadata"]["name"], "none of its VMs")
    assert f"kubectl delete node {old['metadata']['name']}" in said
    await product.pool_is(pool_id, FAILED)
    assert (await product.pool(pool_id)).capacity.ready_vm_count == 0, "it isn't counted"
    now = await product.kube.get("Node", old["metadata"]["name"])
    assert now is not None
    assert now["metadata"]["uid"] == stray["metadata"]["uid"], "nor removed: a person's word is needed"
    assert await product.job_state(job) == "running", "this Node's life says nothing about the other's"
    await remove_node(product, old["metadata"]["name"])
    labels = old["metadata"]["labels"]
    await product.kubelets.join(old["metadata"]["name"], labels[names.LABEL_ATTEMPT], pool_id)
    await product.pool_is(pool_id, RUNNING)
    await product.finish(made, token, job, run)
    await product.job_is(job, "completed")


async def test_a_job_of_a_silent_node_is_given_again_only_once_its_vm_is_gone_for_good(product: Product) -> None:
    pool_id, made, pod, token, job, run = await with_a_job(product)
    node = pod["spec"]["nodeName"]
    product.kubelets.silent.add(node)
    found = await product.kube.get("Node", node)
    assert found is not None
    await product.kube.patch("Node", node, None, found["metadata"]["uid"], {"spec": {"unschedulable": True}})
    about = pod["metadata"]
    await product.kube.delete("Pod", about["name"], about["namespace"], about["uid"])
    await asyncio.sleep(1)
    assert await product.job_state(job) == "running", "its kubelet hasn't said that the container ended"
    (machine,) = [m for m in product.kubelets.machines() if m["tags"]["anycloud_node_pool"] == pool_id]
    await asyncio.to_thread(product.kubelets.end_machine, machine["id"])
    await product.until(partial(another_pod, product, made, about["uid"]), partial(product.deployment, made))
    await product.job_is(job, "retrying")
    fresh = await product.token_of(await product.ready(made))
    second = execution()
    assert await product.pick_up(made, fresh, second) == job
    assert await product.pick_up(made, fresh, execution(), wait_ms=0) is None, "it is given once"
    await product.finish(made, fresh, job, second)
    await product.job_is(job, "completed")
    assert (token, run) != (fresh, second)


async def another_pod(product: Product, deployment_id: str, uid: str) -> bool:
    status = (await product.deployment(deployment_id)).status
    return bool(status.ready and status.pod_uid != uid)
