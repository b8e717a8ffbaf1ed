"""A deployment service in one process on a store of its own, with everything outside faked."""

from __future__ import annotations

import asyncio
import atexit
import shutil
import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from anycloud_common import calls
from anycloud_common.calls import Call, Principal
from anycloud_common.cipher import Cipher
from anycloud_common.clock import ManualClock
from anycloud_common.reconcile import Outcome
from anycloud_common.server.draining import Draining
from anycloud_common.store import Store
from anycloud_deployment.app import Outside, Service
from anycloud_deployment.domain.model import Deployment, PodFact, Revision
from anycloud_deployment.reconcile.replicas import SETTLE_S
from anycloud_deployment.store import deployments, image_jobs
from anycloud_deployment.store.image_jobs import StoredImageJob
from anycloud_deployment.store.revisions import Revisions
from anycloud_release.migrate import migrate_service
from anycloudapi.deployment.v1 import deployments_pb2, jobs_pb2, states_pb2, workloads_pb2

from tests.unit.deployment.fakes import FakeCluster, FakeHolds, FakeImages, FakePools

_OF_THE_REQUEST = workloads_pb2.SubmitWorkloadRequest.DESCRIPTOR.fields_by_name.keys()
URL = "http://127.0.0.2:7000"
NO_CONTEXT: Any = None


@cache
def _migrated() -> Path:
    """A database as the migrations leave it, made once."""
    path = Path(tempfile.mkdtemp()) / "deployment.sqlite"
    atexit.register(shutil.rmtree, path.parent, ignore_errors=True)
    migrate_service(path, "deployment")
    return path


class Rig:
    def __init__(self, directory: Path) -> None:
        self.path = directory / "deployment.sqlite"
        shutil.copy(_migrated(), self.path)
        self.cipher = Cipher.load(directory / "cipher.key")
        self.clock = ManualClock()
        self.cluster, self.pools = FakeCluster(), FakePools()
        self.holds, self.images = FakeHolds(), FakeImages()
        self.tokens: dict[str, str] = {}
        self.cluster.clock_ms = self.clock.now_ms
        self.store: Store
        self.service: Service
        self.draining: Draining
        self._tasks: list[asyncio.Task[None]] = []
        self.start()

    def start(self) -> None:
        """As after a restart of the process: only the database and the outside are what they were."""
        self.store = Store.open(self.path, "deployment", self.clock)
        self.draining = Draining()
        cluster = self.cluster
        outside = Outside(cluster, cluster, cluster, cluster.view(), self.images, self.pools, cluster.job_view())
        holds: Any = self.holds
        self.service = Service(
            self.store,
            self.cipher,
            outside,
            holds,
            public_url=URL,
            draining=self.draining,
            clock=self.clock,
        )
        cluster.changed = self.service.object_changed
        cluster.job_changed = self.service.image_jobs.mark

    async def restart(self) -> None:
        await self.close()
        self.start()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        self.store.close()

    async def run_offers(self) -> None:
        before = self.clock.sleepers
        self._tasks.append(asyncio.create_task(self.service.offers.run()))
        await self.clock.sleeping(before + 1)

    def run_reconcilers(self) -> None:
        for work in (self.service.deployments.run, self.service.executions.run, self.service.image_jobs.run):
            self._tasks.append(asyncio.create_task(work()))

    async def until(self, holds: Callable[[], bool]) -> None:
        """Lets background work go on until that holds; the test's own timeout ends it otherwise."""
        while not holds():
            await self.store.read(lambda conn: None)
            await asyncio.sleep(0.005)

    def act_as(self, user: str = "alice") -> None:
        """The calls that follow in this task are this user's."""
        calls.enter(_call(principal=Principal(user, user, "user")))

    def work_as(self, token: str | None, key: str | None = None, deployment_id: str = "") -> None:
        """The calls that follow in this task are a worker's."""
        calls.enter(_call(bearer=token, key=key, headers={"anycloud-deployment-id": deployment_id}))

    def token(self, pod: PodFact) -> str:
        """The token that a Pod's worker shows."""
        return self.tokens.get(pod.uid, f"token-{pod.uid}")

    async def create(self, name: str = "voice", **spec: Any) -> deployments_pb2.Deployment:
        self.act_as()
        asked = deployments_pb2.DeploymentSpec(**{"name": name, "image": "acme/model:v1", "node_pool": "np-1", **spec})
        return await self.service.deployments_rpc.CreateDeployment(
            deployments_pb2.CreateDeploymentRequest(deployment=asked), NO_CONTEXT
        )

    async def update(self, reference: str, paths: list[str] | None = None, **change: Any) -> deployments_pb2.Deployment:
        self.act_as()
        request = deployments_pb2.UpdateDeploymentRequest(
            id=reference, deployment=deployments_pb2.DeploymentUpdate(**change)
        )
        if paths is not None:
            request.update_mask.paths.extend(paths)
            request.update_mask.SetInParent()
        return await self.service.deployments_rpc.UpdateDeployment(request, NO_CONTEXT)

    async def get(self, reference: str) -> deployments_pb2.Deployment:
        self.act_as()
        request = deployments_pb2.GetDeploymentRequest(id=reference)
        return await self.service.deployments_rpc.GetDeployment(request, NO_CONTEXT)

    async def delete(self, reference: str) -> deployments_pb2.Deployment:
        self.act_as()
        request = deployments_pb2.DeleteDeploymentRequest(id=reference)
        return await self.service.deployments_rpc.DeleteDeployment(request, NO_CONTEXT)

    async def listed(self, **filters: Any) -> list[deployments_pb2.Deployment]:
        self.act_as()
        request = deployments_pb2.ListDeploymentsRequest(**filters)
        return list((await self.service.deployments_rpc.ListDeployments(request, NO_CONTEXT)).deployments)

    async def running(self, name: str = "voice", **spec: Any) -> tuple[str, PodFact]:
        """A Deployment that has rolled out, and its Pod."""
        made = await self.create(name, **spec)
        await self.reconcile(made.id)
        await self.clock.advance(SETTLE_S)
        await self.reconcile(made.id)
        [pod] = self.cluster.seen_pods(made.id)
        return made.id, pod

    async def reconcile(self, deployment_id: str) -> Outcome:
        return await self.service.deployments.step(deployment_id)

    async def judge(self, deployment_id: str) -> Outcome:
        return await self.service.executions.step(deployment_id)

    async def stored(self, deployment_id: str) -> Deployment:
        found = await self.store.read(lambda conn: deployments.get(conn, deployment_id))
        assert found is not None
        return found

    async def submit(self, deployment: str, job_id: str | None = None, **more: Any) -> workloads_pb2.Admission:
        self.act_as()
        target = workloads_pb2.SubmitWorkloadRequest.DeploymentTarget(
            deployment=deployment, timeout=more.pop("timeout", None)
        )
        request = workloads_pb2.SubmitWorkloadRequest(id=job_id, deployment_target=target, **more)
        return await self.service.workloads_rpc.SubmitWorkload(request, NO_CONTEXT)

    async def submit_image(self, image: str = "acme/batch:v1", job_id: str | None = "job-1", **more: Any) -> str:
        """An image Job on the pool `np-1`, unless the settings of its target say otherwise; gives its run."""
        self.act_as()
        whole = {name: more.pop(name) for name in tuple(more) if name in _OF_THE_REQUEST}
        cloud = more.pop("cloud_config", workloads_pb2.SubmitWorkloadRequest.CloudConfig())
        target = workloads_pb2.SubmitWorkloadRequest.ImageTarget(
            image=image, cloud_config=cloud, **{"node_pool": "np-1", **more}
        )
        request = workloads_pb2.SubmitWorkloadRequest(id=job_id, image_target=target, **whole)
        admitted = await self.service.workloads_rpc.SubmitWorkload(request, NO_CONTEXT)
        assert not admitted.HasField("submission_revision"), "that is how clients know a Deployment's Job"
        return (await self.image_job(admitted.id)).job.run

    async def image_job(self, job_id: str) -> StoredImageJob:
        found = await self.store.read(lambda conn: image_jobs.find(conn, job_id))
        assert found is not None
        return found

    async def pass_over(self, run: str) -> Outcome:
        """One pass of an image Job's run."""
        return await self.service.image_jobs.step(run)

    async def resubmit(self, job_id: str, **asked: Any) -> workloads_pb2.Resubmission:
        self.act_as()
        spec = workloads_pb2.ResubmissionSpec(**asked)
        request = workloads_pb2.ResubmitWorkloadRequest(id=job_id, resubmission=spec)
        return await self.service.workloads_rpc.ResubmitWorkload(request, NO_CONTEXT)

    async def job_logs(self, job_id: str, **options: Any) -> list[str]:
        self.act_as()
        request = workloads_pb2.StreamWorkloadLogsRequest(id=job_id, **options)
        stream = self.service.workloads_rpc.StreamWorkloadLogs(request, NO_CONTEXT)
        return [line.text async for line in stream]

    async def status(self, job_id: str) -> workloads_pb2.WorkloadStatus:
        self.act_as()
        request = workloads_pb2.GetWorkloadStatusRequest(id=job_id)
        return await self.service.workloads_rpc.GetWorkloadStatus(request, NO_CONTEXT)

    async def state(self, job_id: str) -> str:
        """A Job's state as the wire spells it."""
        value = (await self.status(job_id)).workload.state
        return states_pb2.WorkloadState.Name(value).removeprefix("WORKLOAD_STATE_").lower()

    async def terminate(self, job_id: str) -> workloads_pb2.Message:
        self.act_as()
        request = workloads_pb2.TerminateWorkloadRequest(id=job_id)
        return await self.service.workloads_rpc.TerminateWorkload(request, NO_CONTEXT)

    async def candidate(self, deployment_id: str, pod: PodFact, wait_ms: int = 0) -> jobs_pb2.JobCandidate | None:
        self.work_as(self.token(pod))
        request = jobs_pb2.DiscoverCandidateRequest(deployment_id=deployment_id, wait_ms=wait_ms)
        answer = await self.service.jobs_rpc.DiscoverCandidate(request, NO_CONTEXT)
        return answer.candidate if answer.HasField("candidate") else None

    async def claim(
        self, deployment_id: str, pod: PodFact, candidate: jobs_pb2.JobCandidate, key: str
    ) -> jobs_pb2.SelectedJob:
        self.work_as(self.token(pod), key)
        claim = jobs_pb2.JobClaim(submission_revision=candidate.submission_revision)
        if candidate.HasField("previous_execution_id"):
            claim.previous_execution_id = candidate.previous_execution_id
        request = jobs_pb2.ClaimJobRequest(deployment_id=deployment_id, job_id=candidate.job_id, claim=claim)
        return await self.service.jobs_rpc.ClaimJob(request, NO_CONTEXT)

    async def pick_up(self, deployment_id: str, pod: PodFact, key: str) -> str:
        """Discovers and claims the next Job; gives its id."""
        candidate = await self.candidate(deployment_id, pod)
        assert candidate is not None, "no Job was offered"
        return (await self.claim(deployment_id, pod, candidate, key)).job_id

    async def report(
        self, deployment_id: str, pod: PodFact, job_id: str, key: str, outcome: str = "COMPLETED", message: str = ""
    ) -> None:
        self.work_as(self.token(pod))
        report = jobs_pb2.OutcomeReport(
            execution_id=key,
            outcome=jobs_pb2.OutcomeReport.Outcome.Value(f"OUTCOME_{outcome}"),
            message=message or None,
        )
        request = jobs_pb2.ReportOutcomeRequest(deployment_id=deployment_id, job_id=job_id, report=report)
        await self.service.jobs_rpc.ReportOutcome(request, NO_CONTEXT)

    async def clean_up(self, deployment_id: str, pod: PodFact, job_id: str, key: str) -> None:
        self.work_as(self.token(pod))
        cleanup = jobs_pb2.JobCleanup(execution_id=key)
        request = jobs_pb2.CleanupJobRequest(deployment_id=deployment_id, job_id=job_id, cleanup=cleanup)
        await self.service.jobs_rpc.CleanupJob(request, NO_CONTEXT)

    async def cancelled(self, deployment_id: str, pod: PodFact, job_id: str, key: str, wait_ms: int = 0) -> bool:
        self.work_as(self.token(pod))
        request = jobs_pb2.GetCancellationRequest(
            deployment_id=deployment_id, job_id=job_id, execution_id=key, wait_ms=wait_ms
        )
        return (await self.service.jobs_rpc.GetCancellation(request, NO_CONTEXT)).cancelled


def execution(number: int) -> str:
    """A UUID for tests."""
    return f"00000000-0000-4000-8000-{number:012}"


async def revision_of(rig: Rig, deployment_id: str, generation: int) -> Revision:
    """A stored revision."""
    return await rig.store.read(lambda conn: Revisions(rig.cipher).get(conn, deployment_id, generation))


def _call(
    principal: Principal | None = None,
    bearer: str | None = None,
    key: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Call:
    return Call(
        principal=principal,
        request_id="req-1",
        github_token=None,
        bearer=bearer,
        idempotency_key=key,
        method="/test",
        rest=False,
        headers=headers or {},
    )
