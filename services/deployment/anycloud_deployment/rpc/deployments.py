"""Deployments, as gRPC."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import grpc
from anycloud_common import paging
from anycloud_common.paging import Listed, Page
from anycloud_common.store import Tx
from anycloudapi.deployment.v1 import deployments_pb2 as pb
from anycloudapi.deployment.v1.deployments_pb2_grpc import DeploymentsServicer
from sqlalchemy import Connection

from anycloud_deployment.domain import observe
from anycloud_deployment.domain.admission import no_such_pool
from anycloud_deployment.domain.jobs import Job
from anycloud_deployment.domain.model import Deployment, JobCounts, Revision
from anycloud_deployment.domain.refusal import invalid, not_found
from anycloud_deployment.live.logs import LogReader
from anycloud_deployment.live.status import Observer
from anycloud_deployment.rpc import admitting, specs, summaries
from anycloud_deployment.rpc.refusals import actor, answered
from anycloud_deployment.store import deployments, events, job_reads
from anycloud_deployment.store.events import Actor
from anycloud_deployment.store.jobs import Jobs

Context = grpc.aio.ServicerContext[Any, Any]
Stored = tuple[Deployment, Revision, JobCounts]

DELETION_REQUESTED = "deletion-requested"
_MANY = 10_000  # Jobs; counting those that aren't over takes its time


class DeploymentsService(DeploymentsServicer):
    def __init__(self, tools: admitting.Tools, jobs: Jobs, observer: Observer, logs: LogReader) -> None:
        self._tools = tools
        self._store = tools.store
        self._jobs = jobs
        self._observer = observer
        self._logs = logs

    async def ListDeployments(self, request: pb.ListDeploymentsRequest, context: Context) -> pb.ListDeploymentsResponse:
        pool_id = None
        if request.HasField("node_pool"):
            pool_id = await self._pool_id(request.node_pool)
        listed = await self._store.read(partial(self._listed, pool_id=pool_id, page=paging.asked(request)))
        return pb.ListDeploymentsResponse(
            deployments=[summaries.summary(*stored) for stored in listed.items],
            next_cursor=listed.next_cursor,
            total_count=listed.total,
        )

    async def CreateDeployment(self, request: pb.CreateDeploymentRequest, context: Context) -> pb.Deployment:
        asked = request.deployment
        with answered():
            if not asked.node_pool:
                raise invalid("nodePool is empty; name the node pool that the Deployment runs on.")
            spec = specs.spec(asked)
            made = await admitting.create(self._tools, asked.name, asked.node_pool, spec, actor())
        return await self._summary(made)

    async def GetDeployment(self, request: pb.GetDeploymentRequest, context: Context) -> pb.Deployment:
        with answered():
            deployment = await self._find(request.id)
        world = await self._observer.observe(deployment)
        read = self._store.look if deployment.jobs_submitted < _MANY else self._store.read
        deployment, revision, counts, blocking = await read(partial(self._seen, deployment.id))
        status = observe.status(deployment, world, len(blocking))
        message = summaries.summary(deployment, revision, counts)
        return summaries.observed(message, deployment, status, blocking)

    async def UpdateDeployment(self, request: pb.UpdateDeploymentRequest, context: Context) -> pb.Deployment:
        with answered():
            change = specs.update(request)
            deployment = await self._find(request.id)
            changed = await admitting.update(self._tools, deployment, change, actor())
        return await self._summary(changed)

    async def DeleteDeployment(self, request: pb.DeleteDeploymentRequest, context: Context) -> pb.Deployment:
        with answered():
            deployment = await self._find(request.id)
        changed = await self._store.write(partial(self._delete, deployment.id, actor()))
        return await self._summary(changed)

    async def StreamLogs(self, request: pb.StreamLogsRequest, context: Context) -> AsyncIterator[pb.LogLine]:
        with answered():
            deployment = await self._find(request.id)
            tail = request.tail if request.HasField("tail") else None
            lines = self._logs.read(deployment, tail=tail, previous=request.previous, follow=request.follow)
            async for line in lines:
                yield pb.LogLine(text=line.text, pod_name=line.pod_name, previous=line.previous)

    async def _pool_id(self, reference: str) -> str:
        """By id without asking nodepool, where a Deployment knows the pool: lists go on while nodepool is away."""
        if await self._store.look(partial(deployments.knows_pool, node_pool_id=reference)):
            return reference
        pool = await self._tools.pools.find(reference)
        if pool is None:
            with answered("DEPLOYMENT_INVALID"):
                raise no_such_pool(reference)
        return pool.id

    async def _find(self, reference: str) -> Deployment:
        found = await self._store.look(partial(deployments.find, reference=reference))
        if found is None:
            raise not_found(f"Deployment {reference} doesn't exist.")
        return found

    async def _summary(self, deployment: Deployment) -> pb.Deployment:
        read = self._store.look if deployment.jobs_submitted < _MANY else self._store.read
        return summaries.summary(*await read(partial(self._stored, deployment=deployment)))

    def _listed(self, conn: Connection, pool_id: str | None, page: Page) -> Listed[Stored]:
        found = deployments.listed(conn, pool_id, page)
        counts = deployments.job_counts(conn, {one.id: one.jobs_submitted for one in found.items})
        revision = self._tools.revisions.get
        return found.each(lambda one: (one, revision(conn, one.id, one.generation), counts[one.id]))

    def _stored(self, conn: Connection, deployment: Deployment) -> Stored:
        counts = deployments.job_counts(conn, {deployment.id: deployment.jobs_submitted})
        revision = self._tools.revisions.get(conn, deployment.id, deployment.generation)
        return deployment, revision, counts[deployment.id]

    def _seen(self, deployment_id: str, conn: Connection) -> tuple[Deployment, Revision, JobCounts, list[Job]]:
        """With the Jobs that hold up an upgrade or a deletion."""
        deployment = deployments.get(conn, deployment_id)
        assert deployment is not None, "visible Deployments stay"
        blocking: list[Job] = []
        if not deployment.accepting:
            blocking = job_reads.holding(conn, deployment_id)
        elif deployment.applied not in (None, deployment.generation):
            blocking = job_reads.holding(conn, deployment_id, deployment.generation)
        return (*self._stored(conn, deployment), blocking)

    def _delete(self, deployment_id: str, actor: Actor, tx: Tx) -> Deployment:
        """Refuses new Jobs from now on and ends the queued ones; asking again changes nothing."""
        found = deployments.get(tx.conn, deployment_id)
        assert found is not None, "visible Deployments stay"
        if found.accepting:
            deployments.change(tx, deployment_id, deletion_requested_at=tx.now, updated_at=tx.now)
            self._tools.admissions.cancel_pending(tx, deployments.KIND, deployment_id)
            events.append(tx, deployments.KIND, deployment_id, DELETION_REQUESTED, actor)
            self._jobs.terminate_waiting(tx, deployment_id, actor)
            tx.after_commit(partial(self._tools.wakes.deployment, deployment_id))
            found = deployments.get(tx.conn, deployment_id)
            assert found is not None, "it was written in this transaction"
        return found
