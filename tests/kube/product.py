"""The product as a hosted API runs it, in this process: cluster, nodepool and deployment with their own databases,
sockets, reconcilers and watches, on one of the API servers. Its clouds are the sandbox's, its Nodes are made by hand.

Its requests to Kubernetes go through a Door, where a test may stand; on the real server they are made as an account
with the chart's role.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import shutil
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import grpc
from anycloud_cluster import app as cluster_app
from anycloud_common.calls import Principal
from anycloud_common.clock import Clock
from anycloud_common.kube import KINDS, KubeError, Object, cluster_uid, names
from anycloud_common.kube.transport import Request
from anycloud_common.server import serving
from anycloud_common.settings import Settings
from anycloud_deployment import app as deployment_app
from anycloud_nodepool import app as nodepool_app
from anycloud_release.migrate import migrate_service
from anycloudapi.cluster.v1 import credentials_pb2, credentials_pb2_grpc
from anycloudapi.common.v1 import types_pb2
from anycloudapi.deployment.v1 import (
    deployments_pb2,
    deployments_pb2_grpc,
    jobs_pb2,
    jobs_pb2_grpc,
    secrets_pb2,
    secrets_pb2_grpc,
    states_pb2,
    workloads_pb2,
    workloads_pb2_grpc,
)
from anycloudapi.nodepool.v1 import node_pools_pb2, node_pools_pb2_grpc

from tests.kube.door import Door
from tests.kube.kubelet import Kubelets
from tests.kube.servers import Server, connect

T = TypeVar("T")

CLUSTER = "cl-1"
SERVICES = {"cluster": cluster_app, "nodepool": nodepool_app, "deployment": deployment_app}
RUNNING = node_pools_pb2.NodePool.STATE_RUNNING
FAILED = node_pools_pb2.NodePool.STATE_FAILED
TERMINATED = node_pools_pb2.NodePool.STATE_TERMINATED
PATIENCE_S = 90.0  # a shared machine may be slow; pytest gives a test 120 s
OURS = ("Namespace", "ServiceAccount", "Secret", "Deployment", "ReplicaSet", "Pod", "NetworkPolicy", "Node")
_USER = (("authorization", "Bearer t"),)
_VALUES = {
    "api": {"image": "i", "version": "0.1.70", "chartVersion": "0.1.70", "revision": 1, "url": "http://127.0.0.2:1"},
    "owner": {"userId": "1", "username": "demo"},
    "checkpoint": {"provider": "AWS", "bucket": "b", "region": "r", "managed": True, "credential": {}},
}
_numbers = itertools.count(1)
_templates: dict[str, Path] = {}


class _Anybody:
    async def user(self, token: str) -> Principal:
        return Principal("github:1", "demo", "user")


class Product:
    """`kube` is the administrator's own connection, which no fault meets."""

    def __init__(self, server: Server, directory: Path, clock: Clock | None = None) -> None:
        self.server = server
        self._clock = clock
        self.directory = directory
        self.account = f"account{next(_numbers)}"
        self.door = Door(server.endpoint, server.ca)
        self.kube = connect(server)
        self.kubelets = Kubelets(self.kube, server.world(), f"{self.account}.key")
        self.patience = PATIENCE_S
        self.token = ""  # of the API's account
        self.pool_ids: list[str] = []
        self.deployment_ids: list[str] = []
        self._services = AsyncExitStack()
        self._runtime = tempfile.TemporaryDirectory(prefix="kf")
        self._channels: dict[str, grpc.aio.Channel] = {}

    # Its life

    async def start(self) -> None:
        """Starts the services (again, on the same data)."""
        settings = self._settings()
        for name, app in SERVICES.items():
            kit = await self._services.enter_async_context(serving(name, settings, app.build, self._clock))
            kit.authenticator = _Anybody()
            self._channels[name] = grpc.aio.insecure_channel(f"unix:{settings.socket(name)}")

    async def stop(self) -> None:
        for channel in self._channels.values():
            await channel.close()
        self._channels.clear()
        await self._services.aclose()

    async def prepare(self, token: str) -> None:
        """What the kubelet and the chart do before the services start."""
        account, db = self.directory / "account", self.directory / "data" / "db"
        account.mkdir(parents=True)
        db.mkdir(parents=True)
        self.write_token(token)
        (account / "ca.crt").write_text(self.door.ca)
        (account / "namespace").write_text("anycloud")
        (db / "incarnation").write_text(f"{next(_numbers):08x}\n")
        about = {"id": CLUSTER, "name": "main", "identity": await cluster_uid(self.kube), "address": self.door.host}
        about |= {"endpoint": self.server.endpoint, "ca": self.server.ca}
        values = {**_VALUES, "cluster": about, "sandboxUrl": self.server.world().url}
        (self.directory / "values.json").write_text(json.dumps(values))
        for service in SERVICES:
            shutil.copy(_migrated(service), db / f"{service}.sqlite")

    async def rotate(self) -> None:
        """Gives the account another token, as its kubelet does in time."""
        self.write_token(await asyncio.to_thread(self.server.product_token))

    def write_token(self, token: str) -> None:
        """Replaces the account's token file at one moment."""
        self.token = token
        fresh = self.directory / "account" / "token.new"
        fresh.write_text(token)
        fresh.replace(self.directory / "account" / "token")

    async def save_credential(self) -> None:
        aws = types_pb2.CloudCredential.Aws(access_key_id=f"{self.account}.key", secret_access_key="secret")
        request = credentials_pb2.SaveCredentialRequest(name="aws", credential=types_pb2.CloudCredential(aws=aws))
        stub: Any = credentials_pb2_grpc.CredentialsStub(self._channels["cluster"])
        await stub.SaveCredential(request, metadata=_USER)

    def _settings(self) -> Settings:
        return Settings(
            mode="hosted",
            data_dir=self.directory / "data",
            runtime_dir=Path(self._runtime.name),
            public_url="http://127.0.0.2:1",
            sandbox_url=self.server.world().url,
            release_values=self.directory / "values.json",
            serviceaccount_dir=self.directory / "account",
            kubernetes_host=self.door.host,
            kubernetes_port=self.door.port,
        )

    # What its users ask for

    async def create_pool(self, name: str = "cpu", count: int = 1, vm_types: Sequence[str] = ("m5.large",)) -> str:
        spec = node_pools_pb2.NodePoolSpec(
            name=name,
            credential_name="aws",
            region="us-east-1",
            vm_types=list(vm_types),
            min_vm_count=count,
            max_vm_count=count,
        )
        request = node_pools_pb2.CreateNodePoolRequest(node_pool=spec)
        pool_id = str((await self._pools.CreateNodePool(request, metadata=_USER)).id)
        self.pool_ids.append(pool_id)
        return pool_id

    async def pool(self, reference: str) -> node_pools_pb2.NodePool:
        request = node_pools_pb2.GetNodePoolRequest(id=reference)
        found: node_pools_pb2.NodePool = await self._pools.GetNodePool(request, metadata=_USER)
        return found

    async def pool_is(self, reference: str, state: int, seconds: float | None = None) -> node_pools_pb2.NodePool:
        """The pool, once it is in that state and nothing of it is on its way out."""

        async def look() -> node_pools_pb2.NodePool | None:
            found = await self.pool(reference)
            return found if found.state == state and not found.releasing else None

        return await self.until(look, lambda: self.pool(reference), seconds)

    async def pool_says(self, reference: str, *texts: str, seconds: float | None = None) -> str:
        """The pool's last error, once it has all these words in it."""

        async def look() -> str | None:
            said = (await self.pool(reference)).last_error
            return said if all(text in said for text in texts) else None

        return await self.until(look, lambda: self.pool(reference), seconds)

    async def running_pool(self, name: str = "cpu", count: int = 1) -> str:
        pool_id = await self.create_pool(name, count)
        await self.pool_is(pool_id, RUNNING)
        return pool_id

    async def delete_pool(self, reference: str) -> None:
        """What stood on it gives it back a moment after it is gone."""
        await self.until(partial(self._accepts_deletion, reference), partial(self.pool, reference))

    async def _accepts_deletion(self, reference: str) -> bool:
        try:
            await self._pools.DeleteNodePool(node_pools_pb2.DeleteNodePoolRequest(id=reference), metadata=_USER)
        except grpc.aio.AioRpcError as error:
            if error.code() not in (grpc.StatusCode.ABORTED, grpc.StatusCode.FAILED_PRECONDITION):
                raise
            return False
        return True

    def namespace(self, pool_id: str) -> str:
        return names.pool_namespace(CLUSTER, pool_id)

    async def save_secret(self, name: str, **values: str) -> None:
        request = secrets_pb2.SaveSecretRequest(name=name, secret=secrets_pb2.SecretValues(values=values))
        stub: Any = secrets_pb2_grpc.SecretsStub(self._channels["deployment"])
        await stub.SaveSecret(request, metadata=_USER)

    async def deploy(self, pool: str, name: str = "voice", **more: Any) -> str:
        """Creates a Deployment; its id."""
        spec = deployments_pb2.DeploymentSpec(name=name, image="acme/model:v1", node_pool=pool, **more)
        request = deployments_pb2.CreateDeploymentRequest(deployment=spec)
        made = await self._deployments.CreateDeployment(request, metadata=_USER)
        self.deployment_ids.append(str(made.id))
        return str(made.id)

    async def deployment(self, reference: str) -> deployments_pb2.Deployment:
        request = deployments_pb2.GetDeploymentRequest(id=reference)
        found: deployments_pb2.Deployment = await self._deployments.GetDeployment(request, metadata=_USER)
        return found

    async def upgrade(self, reference: str, **change: Any) -> None:
        update = deployments_pb2.DeploymentUpdate(**change)
        request = deployments_pb2.UpdateDeploymentRequest(id=reference, deployment=update)
        await self._deployments.UpdateDeployment(request, metadata=_USER)

    async def ready(self, reference: str, generation: int = 1, seconds: float | None = None) -> Object:
        """The Pod of that revision, once the Deployment is ready with it."""

        async def look() -> Object | None:
            found = await self.deployment(reference)
            if not (found.status.ready and found.status.pod_generation == generation):
                return None
            return next((p for p in self.kubelets.pods(found.id) if p["metadata"]["uid"] == found.status.pod_uid), None)

        return await self.until(look, lambda: self.deployment(reference), seconds)

    async def deployment_says(self, reference: str, *texts: str, seconds: float | None = None) -> str:
        """The reason of the Deployment's status, once it has all these words in it."""

        async def look() -> str | None:
            said = (await self.deployment(reference)).status.reason
            return said if all(text in said for text in texts) else None

        return await self.until(look, lambda: self.deployment(reference), seconds)

    async def undeploy(self, reference: str) -> None:
        request = deployments_pb2.DeleteDeploymentRequest(id=reference)
        await self._deployments.DeleteDeployment(request, metadata=_USER)

    async def gone(self, deployment_id: str, seconds: float | None = None) -> None:
        async def look() -> bool:
            return bool((await self.deployment(deployment_id)).deleted_at)

        await self.until(look, lambda: self.deployment(deployment_id), seconds)

    async def submit(self, deployment: str, job_id: str) -> None:
        target = workloads_pb2.SubmitWorkloadRequest.DeploymentTarget(deployment=deployment)
        request = workloads_pb2.SubmitWorkloadRequest(id=job_id, deployment_target=target)
        await self._workloads.SubmitWorkload(request, metadata=_USER)

    async def job_state(self, job_id: str) -> str:
        request = workloads_pb2.GetWorkloadStatusRequest(id=job_id)
        found = await self._workloads.GetWorkloadStatus(request, metadata=_USER)
        return states_pb2.WorkloadState.Name(found.workload.state).removeprefix("WORKLOAD_STATE_").lower()

    async def job_is(self, job_id: str, state: str, seconds: float | None = None) -> None:
        async def look() -> bool:
            return await self.job_state(job_id) == state

        await self.until(look, lambda: self.job_state(job_id), seconds)

    # What its workers ask for

    async def token_of(self, pod: Object, seconds: int = 3600) -> str:
        """A workload token, as the kubelet asks for it on behalf of a Pod."""
        metadata = pod["metadata"]
        bound = {"kind": "Pod", "apiVersion": "v1", "name": metadata["name"], "uid": metadata["uid"]}
        spec = {"audiences": [names.WORKLOAD_TOKEN_AUDIENCE], "expirationSeconds": seconds, "boundObjectRef": bound}
        path = KINDS["ServiceAccount"].path(metadata["namespace"], pod["spec"]["serviceAccountName"], "token")
        answer = await self.kube._transport.call(Request("create", "token", "POST", path, body={"spec": spec}))
        return str(answer["status"]["token"])

    async def pick_up(self, deployment_id: str, token: str, execution: str, wait_ms: int = 5000) -> str | None:
        """Looks for a Job and claims it; its id. Raises grpc.aio.AioRpcError."""
        bearer = (("authorization", f"Bearer {token}"),)
        asked = jobs_pb2.DiscoverCandidateRequest(deployment_id=deployment_id, wait_ms=wait_ms)
        found = await _ride_out(lambda: self._jobs.DiscoverCandidate(asked, metadata=bearer))
        if not found.HasField("candidate"):
            return None
        claim = jobs_pb2.JobClaim(submission_revision=found.candidate.submission_revision)
        if found.candidate.HasField("previous_execution_id"):
            claim.previous_execution_id = found.candidate.previous_execution_id
        job_id = found.candidate.job_id
        request = jobs_pb2.ClaimJobRequest(deployment_id=deployment_id, job_id=job_id, claim=claim)
        await _ride_out(lambda: self._jobs.ClaimJob(request, metadata=(*bearer, ("idempotency-key", execution))))
        return str(job_id)

    async def finish(self, deployment_id: str, token: str, job_id: str, execution: str) -> None:
        """Reports the Job as completed and cleaned up."""
        bearer = (("authorization", f"Bearer {token}"),)
        report = jobs_pb2.OutcomeReport(execution_id=execution, outcome=jobs_pb2.OutcomeReport.OUTCOME_COMPLETED)
        about = {"deployment_id": deployment_id, "job_id": job_id}
        outcome = jobs_pb2.ReportOutcomeRequest(report=report, **about)
        await _ride_out(lambda: self._jobs.ReportOutcome(outcome, metadata=bearer))
        cleanup = jobs_pb2.CleanupJobRequest(cleanup=jobs_pb2.JobCleanup(execution_id=execution), **about)
        await _ride_out(lambda: self._jobs.CleanupJob(cleanup, metadata=bearer))

    # What must hold in the end

    async def objects(self, *kinds: str) -> list[str]:
        """Objects of this product that are there now, as `kind namespace/name`."""
        found = []
        for kind in kinds or OURS:
            for pool_id in self.pool_ids:
                found += await self._listed(kind, {names.LABEL_NODE_POOL: pool_id})
            for deployment_id in self.deployment_ids:
                found += await self._listed(kind, {names.LABEL_DEPLOYMENT: deployment_id})
        return sorted(set(found))

    async def end(self) -> None:
        """Deletes everything as a user would, and sees that nothing of it is left and nothing was there twice."""
        await self._delete(self.pool_ids)
        await self._nothing_left()
        machines = self.kubelets.machines()
        assert {machine["state"] for machine in machines} <= {"terminated"}, machines

    async def tidy(self) -> None:
        """The same for what a test made on a shared product, whose first pool stays."""
        shared, self.pool_ids = self.pool_ids[:1], self.pool_ids[1:]
        await self._delete(self.pool_ids)
        await self._nothing_left()
        self.pool_ids, self.deployment_ids = shared, []
        self.door.fault, self.door.closed = None, False
        self.door.calls.clear()
        self.kubelets.silent.clear()

    async def _delete(self, pool_ids: list[str]) -> None:
        for deployment_id in self.deployment_ids:
            if not (await self.deployment(deployment_id)).deletion_requested_at:
                await self.undeploy(deployment_id)
        for deployment_id in self.deployment_ids:
            await self.gone(deployment_id)
        for pool_id in pool_ids:
            found = await self.pool(pool_id)
            if found.state != TERMINATED and not found.releasing:
                await self.delete_pool(pool_id)
        for pool_id in pool_ids:
            await self.pool_is(pool_id, TERMINATED)

    async def _nothing_left(self) -> None:
        async def empty() -> bool:
            try:
                return not await self.objects()
            except KubeError:  # a server that is about to come back
                return False

        await self.until(empty, self.objects)
        for deployment_id in self.deployment_ids:  # Pods of other tests on this server are none of ours
            most = self.kubelets.most_at_once.get(deployment_id, 0)
            assert most <= 1, f"{deployment_id} had {most} Pods at once"

    async def until(
        self, look: Callable[[], Awaitable[T | None]], tell: Callable[[], Awaitable[Any]], seconds: float | None = None
    ) -> T:
        """The first true answer. What `tell` says is in the error."""
        seconds = seconds or self.patience
        deadline = time.monotonic() + seconds
        while not (found := await look()):
            if time.monotonic() > deadline:
                calls = "\n".join(f"{call} {call.status}" for call in self.door.calls[-15:])
                raise AssertionError(f"not within {seconds:.0f} s: {await tell()}\nlast requests:\n{calls}")
            await asyncio.sleep(0.1)
        return found

    async def _listed(self, kind: str, labels: dict[str, str]) -> list[str]:
        found, _ = await self.kube.list(kind, None, labels)
        return [f"{kind} {o['metadata'].get('namespace', '')}/{o['metadata']['name']}" for o in found]

    @property
    def _pools(self) -> Any:
        return node_pools_pb2_grpc.NodePoolsStub(self._channels["nodepool"])

    @property
    def _deployments(self) -> Any:
        return deployments_pb2_grpc.DeploymentsStub(self._channels["deployment"])

    @property
    def _workloads(self) -> Any:
        return workloads_pb2_grpc.WorkloadsStub(self._channels["deployment"])

    @property
    def _jobs(self) -> Any:
        return jobs_pb2_grpc.DeploymentJobsStub(self._channels["deployment"])


@asynccontextmanager
async def running(server: Server, directory: Path, clock: Clock | None = None) -> AsyncIterator[Product]:
    """A product that serves, with the credential `aws`. What it made is deleted by `end`."""
    product = Product(server, directory, clock)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(product.kube.close)
        await stack.enter_async_context(product.door)
        await product.prepare(await asyncio.to_thread(server.product_token))
        kubelets = asyncio.create_task(product.kubelets.run())
        stack.callback(kubelets.cancel)
        await product.start()
        stack.push_async_callback(product.stop)
        await product.save_credential()
        yield product


def execution() -> str:
    """An id by which a worker claims a Job; each is used once."""
    return str(uuid.uuid4())


async def _ride_out(call: Callable[[], Awaitable[Any]]) -> Any:
    """Repeats a call while the API can't answer, as workers do."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return await call()
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.UNAVAILABLE or time.monotonic() > deadline:
                raise
        await asyncio.sleep(0.2)


class Shared:
    """One product for many tests, made anew after a failure."""

    def __init__(self, server: Server, directory: Callable[[], Path]) -> None:
        self._server = server
        self._directory = directory
        self._stack = AsyncExitStack()
        self._product: Product | None = None

    async def get(self) -> Product:
        if self._product is None:
            self._product = await self._stack.enter_async_context(running(self._server, self._directory()))
            await self._product.running_pool("shared")
        return self._product

    async def drop(self) -> None:
        self._product = None
        await self._stack.aclose()

    async def close(self) -> None:
        """Ends the product, whose last pool has to go without leaving anything."""
        try:
            if self._product is not None:
                await self._product.end()
        finally:
            await self.drop()


def _migrated(service: str) -> Path:
    """An empty database of this build, made once."""
    if service not in _templates:
        path = Path(tempfile.mkdtemp(prefix="anycloud-empty-")) / f"{service}.sqlite"
        migrate_service(path, service)
        _templates[service] = path
    return _templates[service]
