"""How fast a Job passes from its submitter to a worker and back: through Envoy, with the token review on, in a sandbox
installation, against a bare grpc.aio echo.

Usage: python tests/bench/handoff.py
Latency: one Job at a time over HTTP/JSON. Throughput: 8 workers over HTTP/JSON, and one gRPC stream. Load generator,
Envoy, service, sandbox and node agent share the machine.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import grpc
import httpx
from anycloudapi.deployment.v1 import jobs_pb2, jobs_pb2_grpc, workloads_pb2, workloads_pb2_grpc

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.support.installation import KEYS, Installation, until

LATENCY_JOBS, HTTP_JOBS, STREAM_JOBS = 200, 400, 3000
SLOTS, WORKERS = 512, 8
PLACE = ("--credentials", "aws", "--region", "us-east-1")
SCRIPT = 'cat "$ANYCLOUD_WORKLOAD_TOKEN_FILE"; echo; exec sleep 100000'


class Target(NamedTuple):
    """A Deployment that waits for Jobs, and who may speak about it."""

    url: str
    deployment_id: str
    user: str
    worker: str

    def headers(self, token: str) -> dict[str, str]:
        return {
            "authorization": f"Bearer {token}",
            "anycloud-client-version": "0.1.70",
            "content-type": "application/json",
        }


def prepare(installation: Installation) -> Target:
    """From nothing to a ready Deployment, by the command line."""
    installation.start()
    installation.image("bench/worker:1", ["/bin/sh", "-c", SCRIPT])
    installation.cli("credentials", "new", "aws", "--provider", "aws", env=KEYS)
    installation.cli("cluster", "create", "bench", *PLACE, "--vm-type", "t3.large")
    url = until(lambda: installation.ask("cluster", "status", "bench")["cluster"]["managementApiUrl"], 120)
    until(lambda: installation.cli("api", "use", url, code=None).code == 0, 60)
    installation.cli("credentials", "new", "aws", "--provider", "aws", env=KEYS)
    vms = ("--min-vms", "1", "--max-vms", "1")
    installation.cli("node-pool", "create", "pool", *PLACE, "--vm-type", "m5.large", *vms, "--wait")
    slots = ("--max-concurrent-jobs-per-replica", str(SLOTS))
    installation.cli("deployment", "create", "bench", "bench/worker:1", "--node-pool", "pool", *slots, "--wait")
    deployment = installation.ask("deployment", "status", "bench")["deployment"]["id"]
    tokens = json.loads((installation.directory / "api-tokens.json").read_text())
    worker = installation.cli("logs", "bench").stdout.strip().splitlines()[0]
    return Target(url, deployment, tokens[url], worker)


class HttpWorker:
    """Takes Jobs one after the other, as the published client does."""

    def __init__(self, client: httpx.AsyncClient, target: Target) -> None:
        self._client = client
        self._path = f"{target.url}/v1/deployments/{target.deployment_id}/jobs"
        self._headers = target.headers(target.worker)

    async def take(self) -> str | None:
        """Discovers and claims one Job; gives its id once the claim is answered."""
        wait = {"waitMs": 2000}
        found = await self._client.get(f"{self._path}/candidate", params=wait, headers=self._headers)
        if found.status_code == 204:
            return None
        candidate = found.raise_for_status().json()
        self._execution = str(uuid.uuid4())
        body = {key: candidate[key] for key in ("submissionRevision", "previousExecutionId")}
        headers = {**self._headers, "idempotency-key": self._execution}
        path = f"{self._path}/{candidate['jobId']}"
        claimed = await self._client.post(f"{path}/claim", json=body, headers=headers)
        return str(candidate["jobId"]) if claimed.status_code == 200 else None

    async def give_back(self, job_id: str) -> None:
        body = {"executionId": self._execution}
        path = f"{self._path}/{job_id}"
        outcome = {**body, "outcome": "completed"}
        (await self._client.post(f"{path}/outcome", json=outcome, headers=self._headers)).raise_for_status()
        (await self._client.post(f"{path}/cleanup", json=body, headers=self._headers)).raise_for_status()


async def submit(client: httpx.AsyncClient, target: Target) -> None:
    body = {"deployment": target.deployment_id, "workloadType": "job"}
    answer = await client.post(f"{target.url}/v1/workloads", json=body, headers=target.headers(target.user))
    answer.raise_for_status()


async def latencies(target: Target) -> tuple[list[float], list[float]]:
    """Seconds from the submission to the answered claim, and to the acknowledged cleanup, for an idle worker."""
    claimed, done = [], []
    async with httpx.AsyncClient(timeout=30) as client:
        worker = HttpWorker(client, target)
        for _ in range(LATENCY_JOBS):
            taking = asyncio.create_task(worker.take())
            await asyncio.sleep(0.01)  # the worker's poll is held before the Job comes
            began = time.perf_counter()
            await submit(client, target)
            job_id = await taking
            assert job_id is not None
            claimed.append(time.perf_counter() - began)
            await worker.give_back(job_id)
            done.append(time.perf_counter() - began)
    return claimed, done


async def http_rate(target: Target) -> float:
    """Jobs a second from their submission to their cleanup, with several submitters and workers."""
    async with httpx.AsyncClient(timeout=30) as client:
        left = HTTP_JOBS

        async def submitter() -> None:
            for _ in range(HTTP_JOBS // WORKERS):
                await submit(client, target)

        async def worker() -> None:
            nonlocal left
            mine = HttpWorker(client, target)
            while left > 0:
                job_id = await mine.take()
                if job_id is not None:
                    await mine.give_back(job_id)
                    left -= 1

        began = time.perf_counter()
        await asyncio.gather(*(submitter() for _ in range(WORKERS)), *(worker() for _ in range(WORKERS)))
        return HTTP_JOBS / (time.perf_counter() - began)


async def stream_rate(target: Target) -> float:
    """Jobs a second through SubmitJobs and one Work stream, claimed, reported and cleaned up."""
    address = urlsplit(target.url).netloc
    async with grpc.aio.insecure_channel(address) as channel:
        jobs: Any = jobs_pb2_grpc.DeploymentJobsStub(channel)
        workloads: Any = workloads_pb2_grpc.WorkloadsStub(channel)
        worker = StreamWorker()
        metadata = (("authorization", f"Bearer {target.worker}"), ("anycloud-deployment-id", target.deployment_id))
        down = jobs.Work(worker.messages(), metadata=metadata)
        working = asyncio.create_task(worker.work(down))
        began = time.perf_counter()
        for _ in range(0, STREAM_JOBS, 500):
            batch = [workloads_pb2.SubmitJobsRequest.Job() for _ in range(500)]
            request = workloads_pb2.SubmitJobsRequest(deployment=target.deployment_id, jobs=batch)
            await workloads.SubmitJobs(request, metadata=(("authorization", f"Bearer {target.user}"),))
        await working
        down.cancel()
        return STREAM_JOBS / (time.perf_counter() - began)


class StreamWorker:
    """Claims what it is offered, and reports and cleans up at once."""

    def __init__(self) -> None:
        self._up: asyncio.Queue[jobs_pb2.WorkerMessage] = asyncio.Queue()
        self._numbers = itertools.count(1)
        self._sent: dict[int, str] = {}
        self._free = 256
        self._done = 0

    async def messages(self) -> AsyncIterator[jobs_pb2.WorkerMessage]:
        yield jobs_pb2.WorkerMessage(ready=jobs_pb2.WorkerMessage.Ready(slots=self._free))
        while True:
            yield await self._up.get()

    async def work(self, down: Any) -> None:
        async for message in down:
            match message.WhichOneof("message"):
                case "offer":
                    self._claim(message.offer)
                case "claimed":
                    self._sent.pop(message.ref)
                    self._finish(message.claimed)
                case "done" if self._sent.pop(message.ref) == "cleanup":
                    self._more()
                case "refused":
                    self._sent.pop(message.ref)
                    self._more(done=False)
            if self._done == STREAM_JOBS:
                return

    def _claim(self, offer: jobs_pb2.JobCandidate) -> None:
        self._free -= 1
        claim = jobs_pb2.WorkerMessage.Claim(
            job_id=offer.job_id, execution_id=str(uuid.uuid4()), submission_revision=offer.submission_revision
        )
        self._send("claim", claim=claim)

    def _finish(self, claimed: jobs_pb2.SelectedJob) -> None:
        completed = jobs_pb2.OutcomeReport.OUTCOME_COMPLETED
        outcome = jobs_pb2.OutcomeReport(execution_id=claimed.execution_id, outcome=completed)
        report = jobs_pb2.WorkerMessage.Report(job_id=claimed.job_id, report=outcome)
        self._send("report", report=report)
        cleanup = jobs_pb2.WorkerMessage.Cleanup(job_id=claimed.job_id, execution_id=claimed.execution_id)
        self._send("cleanup", cleanup=cleanup)

    def _more(self, done: bool = True) -> None:
        self._done += done
        self._free += 1
        self._up.put_nowait(jobs_pb2.WorkerMessage(ready=jobs_pb2.WorkerMessage.Ready(slots=self._free)))

    def _send(self, what: str, **message: Any) -> None:
        ref = next(self._numbers)
        self._sent[ref] = what
        self._up.put_nowait(jobs_pb2.WorkerMessage(ref=ref, **message))


async def echo_latencies() -> list[float]:
    """A bare grpc.aio server in this process that gives back what it gets."""

    async def echo(request: bytes, context: Any) -> bytes:
        return request

    server = grpc.aio.server()
    method: Any = grpc.unary_unary_rpc_method_handler(echo)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bench.Echo", {"Echo": method}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call: Any = channel.unary_unary("/bench.Echo/Echo")
        found = [await timed(lambda: call(b"x" * 100)) for _ in range(LATENCY_JOBS)]
    await server.stop(None)
    return found


async def timed(call: Callable[[], Awaitable[Any]]) -> float:
    began = time.perf_counter()
    await call()
    return time.perf_counter() - began


def show(what: str, seconds: list[float]) -> None:
    ordered = sorted(seconds)
    p99 = ordered[int(len(ordered) * 0.99)]
    print(f"{what:<34} p50 {statistics.median(ordered) * 1000:6.1f} ms   p99 {p99 * 1000:6.1f} ms")


async def measure(target: Target) -> None:
    echo = await echo_latencies()
    claimed, done = await latencies(target)
    show("bare grpc.aio echo", echo)
    show("submit -> claim answered", claimed)
    show("submit -> outcome and cleanup", done)
    print(f"echoes that a hand-off takes (p50)  {statistics.median(done) / statistics.median(echo):6.1f}")
    print(f"Jobs/s, HTTP, {WORKERS} workers            {await http_rate(target):8.0f}")
    print(f"Jobs/s, one gRPC stream           {await stream_rate(target):8.0f}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="ac-") as scratch, Installation(Path(scratch) / "anycloud") as made:
        asyncio.run(measure(prepare(made)))
