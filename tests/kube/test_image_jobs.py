"""Jobs that bring their own image, as batch Jobs on every API server. Pods are reported by hand, as kubelets would."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import Any

import grpc
import pytest
import pytest_asyncio
from aiohttp import web
from anycloud_common.kube import KINDS, Object, names
from anycloud_common.kube.transport import Request
from anycloud_deployment.reconcile.image_jobs import ending
from anycloudapi.common.v1 import types_pb2
from anycloudapi.deployment.v1 import workloads_pb2 as pb
from anycloudapi.nodepool.v1 import node_pools_pb2

from tests.kube.door import Call, Lost
from tests.kube.product import Product

pytestmark = pytest.mark.asyncio(loop_scope="session")

_USER = (("authorization", "Bearer t"),)
_RUN = names.LABEL_JOB
_numbers = itertools.count(1)


@pytest.fixture(autouse=True)
def no_kubelet_to_ask(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nobody gives the output of containers that are none."""
    monkeypatch.setattr(ending, "OUTPUT_PATIENCE_MS", 0)
    yield


class Submitted:
    """One image Job on the shared pool, with what Kubernetes has of it."""

    def __init__(self, product: Product, job_id: str) -> None:
        self.product = product
        self.id = job_id
        self.runs: set[str] = set()
        self.pods: dict[str, str] = {}  # every Pod that was ever seen, by UID, with its run

    async def submit(self, **settings: Any) -> None:
        cloud = pb.SubmitWorkloadRequest.CloudConfig()
        target = pb.SubmitWorkloadRequest.ImageTarget(
            **{"image": "acme/batch:v1", "cloud_config": cloud, "node_pool": "shared", **settings}
        )
        request = pb.SubmitWorkloadRequest(id=self.id, image_target=target)
        await self.product._workloads.SubmitWorkload(request, metadata=_USER)

    async def status(self) -> pb.WorkloadStatus:
        request = pb.GetWorkloadStatusRequest(id=self.id)
        found: pb.WorkloadStatus = await self.product._workloads.GetWorkloadStatus(request, metadata=_USER)
        return found

    async def terminate(self) -> None:
        await self.product._workloads.TerminateWorkload(pb.TerminateWorkloadRequest(id=self.id), metadata=_USER)

    async def resubmit(self) -> None:
        request = pb.ResubmitWorkloadRequest(id=self.id, resubmission=pb.ResubmissionSpec())
        await self.product._workloads.ResubmitWorkload(request, metadata=_USER)

    async def reaches(self, state: str) -> None:
        await self.product.job_is(self.id, state)

    async def cleaned(self) -> None:
        async def look() -> bool:
            return (await self.status()).workload.HasField("cleaned_at")

        await self.product.until(look, self.status)
        assert await self.objects() == []

    async def objects(self) -> list[str]:
        """Of all its runs that were seen, as `kind name`."""
        found = []
        for kind in ("Job", "Pod", "Secret"):
            listed, _ = await self.product.kube.list(kind, None, _RUN)
            mine = [obj for obj in listed if obj["metadata"]["labels"][_RUN] in self.runs]
            found += [f"{kind} {obj['metadata']['name']}" for obj in mine]
        return found

    async def job(self) -> Object:
        """The batch Job that there is now."""

        async def look() -> Object | None:
            found, _ = await self.product.kube.list("Job", None, _RUN)
            mine = [job for job in found if job["metadata"]["annotations"][names.ANNOTATION_WORKLOAD] == self.id]
            assert len(mine) <= 1, mine
            return mine[0] if mine else None

        job = await self.product.until(look, self.status)
        self.runs.add(job["metadata"]["name"])
        return job

    async def pod(self) -> Object:
        """Its Pod, once that is placed."""
        run = (await self.job())["metadata"]["name"]

        async def look() -> Object | None:
            found, _ = await self.product.kube.list("Pod", None, {_RUN: run})
            self.pods |= {pod["metadata"]["uid"]: run for pod in found}
            return next((pod for pod in found if pod["spec"].get("nodeName")), None)

        return await self.product.until(look, self.status)

    async def once(self) -> None:
        """Looks a while whether another Pod is made."""
        for _ in range(10):
            for run in self.runs:
                found, _ = await self.product.kube.list("Pod", None, {_RUN: run})
                self.pods |= {pod["metadata"]["uid"]: run for pod in found}
            await asyncio.sleep(0.1)
        assert len(self.pods) == len(set(self.pods.values())), self.pods


async def report(product: Product, pod: Object, phase: str, **state: Any) -> None:
    """As the Pod's kubelet does."""
    container = {"name": "app", "restartCount": 0, "image": "i", "imageID": "i", "state": state}
    container |= {"ready": phase == "Running", "containerID": f"hand://{pod['metadata']['uid']}"}
    body = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": {"phase": phase, "containerStatuses": [container]}}
    path = KINDS["Pod"].path(pod["metadata"]["namespace"], pod["metadata"]["name"], "status")
    content = "application/strategic-merge-patch+json"
    request = Request("patch", "pods", "PATCH", path, {"fieldManager": "kubelet"}, body, content)
    await product.kube._transport.call(request)


async def run(product: Product, pod: Object) -> None:
    await report(product, pod, "Running", running={"startedAt": moment()})


async def end(product: Product, pod: Object, exit_code: int) -> None:
    terminated = {"exitCode": exit_code, "startedAt": moment(), "finishedAt": moment()}
    terminated["reason"] = "Error" if exit_code else "Completed"
    await report(product, pod, "Failed" if exit_code else "Succeeded", terminated=terminated)


async def let_go(product: Product, pod: Object) -> None:
    """A kubelet's last word on a Pod that is being deleted."""
    about = pod["metadata"]
    options = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "gracePeriodSeconds": 0,
        "preconditions": {"uid": about["uid"]},
    }
    path = KINDS["Pod"].path(about["namespace"], about["name"])
    await product.kube._transport.call(Request("delete", "pods", "DELETE", path, body=options))


def moment() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest_asyncio.fixture(loop_scope="session")
async def made(product: Product, request: pytest.FixtureRequest) -> AsyncIterator[Submitted]:
    """Not submitted yet. In the end nothing of it is left."""
    name = request.node.originalname.removeprefix("test_").replace("_", "-")[:40]
    job = Submitted(product, f"{name}-{next(_numbers)}")
    yield job
    product.door.fault = None
    await job.terminate()
    for pod in (await product.kube.list("Pod", None, _RUN))[0]:
        await let_go(product, pod)
    await job.cleaned()


@pytest.mark.req("WK-001", "WK-004", "WK-007", "WK-008", "WK-014", "OPEN-078")
async def test_a_job_runs_once_on_its_pool_and_leaves_nothing(product: Product, made: Submitted) -> None:
    machines = len(product.kubelets.machines())
    await made.submit(command=types_pb2.StringList(values=["python", "--json"]), env={"A": "1"})
    pod = await made.pod()
    pool_id = product.pool_ids[0]
    assert pod["metadata"]["namespace"] == product.namespace(pool_id)
    node = await product.kube.get("Node", pod["spec"]["nodeName"])
    assert node is not None and node["metadata"]["labels"][names.LABEL_NODE_POOL] == pool_id
    assert pod["spec"]["containers"][0]["args"] == ["python", "--json"]
    assert pod["spec"]["restartPolicy"] == "Never"
    await run(product, pod)
    await made.reaches("running")
    await end(product, pod, 0)
    await made.reaches("completed")
    await made.cleaned()
    await made.resubmit()
    again = await made.pod()
    assert len(made.runs) == 2 and again["metadata"]["namespace"] == pod["metadata"]["namespace"]
    await run(product, again)
    await end(product, again, 0)
    await made.cleaned()
    assert len(made.pods) == 2
    assert len(product.kubelets.machines()) == machines


@pytest.mark.req("WK-008")
async def test_a_container_that_fails_is_not_tried_again(product: Product, made: Submitted) -> None:
    await made.submit()
    pod = await made.pod()
    await run(product, pod)
    await end(product, pod, 3)
    await made.reaches("errored")
    assert any(one.metadata["exitCode"] == 3 for one in (await made.status()).events if "exitCode" in one.metadata)
    await made.once()
    await made.cleaned()


@pytest.mark.req("WK-013")
async def test_a_stopped_job_is_terminated_when_its_pod_has_gone(product: Product, made: Submitted) -> None:
    await made.submit()
    pod = await made.pod()
    await run(product, pod)
    await made.reaches("running")
    await made.terminate()

    async def told() -> bool:
        found = await product.kube.get("Pod", pod["metadata"]["name"], pod["metadata"]["namespace"])
        return bool(found and found["metadata"].get("deletionTimestamp"))

    await product.until(told, made.status)
    await made.reaches("finalizing")
    await end(product, pod, 143)
    await let_go(product, pod)
    await made.reaches("terminated")
    await made.once()


async def test_a_pod_that_somebody_deletes_is_not_replaced(product: Product, made: Submitted) -> None:
    await made.submit()
    pod = await made.pod()
    await run(product, pod)
    await made.reaches("running")
    await product.kube.delete("Pod", pod["metadata"]["name"], pod["metadata"]["namespace"], pod["metadata"]["uid"])
    await made.once()
    await end(product, pod, 143)
    await let_go(product, pod)
    await product.until(lambda: _is(made, "errored", "failed"), made.status)
    await made.once()


@pytest.mark.parametrize("lost", ["answer", "request"])
async def test_a_job_whose_making_got_no_answer_is_made_once(product: Product, made: Submitted, lost: str) -> None:
    hits: list[Call] = []

    async def breaks(call: Call) -> web.StreamResponse | None:
        if call.is_a("create", "jobs") and not hits:
            hits.append(call)
            if lost == "answer":
                await call.forward()
            raise Lost
        return None

    product.door.fault = breaks
    await made.submit()
    pod = await made.pod()
    assert hits
    await run(product, pod)
    await made.reaches("running")
    await end(product, pod, 0)
    await made.cleaned()
    assert len(made.pods) == 1


async def test_what_happens_while_the_api_is_away_is_seen_when_it_is_back(product: Product, made: Submitted) -> None:
    await made.submit()
    pod = await made.pod()
    await product.stop()
    await run(product, pod)
    await end(product, pod, 0)
    await product.start()
    await made.reaches("completed")
    await made.cleaned()
    assert len(made.pods) == 1


@pytest.mark.req("NP-063")
async def test_a_pool_with_a_job_on_it_is_not_deleted_and_the_refusal_says_what_to_end(
    product: Product, made: Submitted
) -> None:
    await made.submit()
    pod = await made.pod()
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await product._pools.DeleteNodePool(node_pools_pb2.DeleteNodePoolRequest(id="shared"), metadata=_USER)
    assert f"`anycloud terminate {made.id}`" in str(refused.value.details())
    await end(product, pod, 0)
    await made.reaches("completed")


async def _is(made: Submitted, *states: str) -> bool:
    return await made.product.job_state(made.id) in states


@pytest.mark.parametrize("server", ["kubernetes"], indirect=True)
async def test_a_job_whose_node_is_gone_has_failed_and_is_not_run_again(product: Product, made: Submitted) -> None:
    """By the real collector of Pods, which waits 40 s before it takes those of a Node that is gone."""
    await product.running_pool("doomed")
    await made.submit(node_pool="doomed")
    pod = await made.pod()
    await run(product, pod)
    await made.reaches("running")
    node = await product.kube.get("Node", pod["spec"]["nodeName"])
    assert node is not None
    await product.kube.delete("Node", node["metadata"]["name"], None, node["metadata"]["uid"])
    await product.until(lambda: _is(made, "failed"), made.status, 150)
    ended = next(one for one in (await made.status()).events if one.metadata["reason"] == "ended")
    assert "Before that: " in str(ended.metadata["message"])
    await made.once()
