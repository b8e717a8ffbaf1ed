"""The worker side of Jobs, as gRPC: the five published operations, and one stream for gRPC workers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import grpc
from anycloud_common import calls
from anycloud_common.clock import Clock
from anycloud_common.server.draining import Draining
from anycloudapi.deployment.v1 import jobs_pb2 as pb
from anycloudapi.deployment.v1.jobs_pb2_grpc import DeploymentJobsServicer
from google.protobuf.empty_pb2 import Empty

from anycloud_deployment.domain.jobs import Candidate
from anycloud_deployment.rpc import worker_messages as messages
from anycloud_deployment.rpc.refusals import answered
from anycloud_deployment.rpc.work import WorkStream
from anycloud_deployment.rpc.workers import Caller, Workers

Context = grpc.aio.ServicerContext[Any, Any]

_DEPLOYMENT_ID = "anycloud-deployment-id"


class DeploymentJobsService(DeploymentJobsServicer):
    def __init__(self, workers: Workers, draining: Draining, clock: Clock) -> None:
        self._workers = workers
        self._draining = draining
        self._clock = clock

    async def identify(self, variables: Mapping[str, str]) -> None:
        """Without a Deployment nothing can be said of a Pod's token."""
        if "deployment_id" in variables:
            with answered():
                await self._caller(variables["deployment_id"])

    async def DiscoverCandidate(
        self, request: pb.DiscoverCandidateRequest, context: Context
    ) -> pb.DiscoverCandidateResponse:
        with answered():
            caller = await self._caller(request.deployment_id)
            wait_s = messages.wait_s(request.wait_ms)
            found = await self._draining.race(self._workers.candidate(caller, wait_s))
        if found is None:
            return pb.DiscoverCandidateResponse()
        return pb.DiscoverCandidateResponse(candidate=messages.candidate_message(found))

    async def ClaimJob(self, request: pb.ClaimJobRequest, context: Context) -> pb.SelectedJob:
        claim = request.claim
        with answered():
            caller = await self._caller(request.deployment_id)
            key = messages.execution_id(calls.current().idempotency_key, "idempotency-key")
            wanted = Candidate(request.job_id, claim.submission_revision, messages.previous_of(claim))
            await self._workers.claim(caller, wanted, key)
        return pb.SelectedJob(job_id=request.job_id, execution_id=key)

    async def GetCancellation(self, request: pb.GetCancellationRequest, context: Context) -> pb.Cancellation:
        with answered():
            caller = await self._caller(request.deployment_id)
            key = messages.execution_id(request.execution_id)
            wait_s = messages.wait_s(request.wait_ms)
            asking = self._workers.cancelled(caller, request.job_id, key, wait_s)
            return pb.Cancellation(cancelled=bool(await self._draining.race(asking)))

    async def ReportOutcome(self, request: pb.ReportOutcomeRequest, context: Context) -> Empty:
        with answered():
            caller = await self._caller(request.deployment_id)
            key = messages.execution_id(request.report.execution_id)
            outcome, message = messages.outcome_of(request.report)
            await self._workers.report(caller, request.job_id, key, outcome, message)
        return Empty()

    async def CleanupJob(self, request: pb.CleanupJobRequest, context: Context) -> Empty:
        with answered():
            caller = await self._caller(request.deployment_id)
            key = messages.execution_id(request.cleanup.execution_id)
            await self._workers.clean_up(caller, request.job_id, key)
        return Empty()

    async def Work(
        self, request_iterator: AsyncIterator[pb.WorkerMessage], context: Context
    ) -> AsyncIterator[pb.WorkMessage]:
        with answered():
            caller = await self._caller(calls.current().headers.get(_DEPLOYMENT_ID, ""))
            stream = WorkStream(self._workers, caller, self._draining, self._clock)
            async for message in stream.run(request_iterator):
                yield message

    async def _caller(self, deployment_id: str) -> Caller:
        return await self._workers.admit(deployment_id, calls.current().bearer)
