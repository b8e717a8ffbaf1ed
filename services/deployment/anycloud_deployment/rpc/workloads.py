"""Jobs towards their submitters, as gRPC."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any

import grpc
from anycloud_common import paging
from anycloud_common.clock import Clock
from anycloud_common.paging import Listed, Page
from anycloud_common.server.draining import Draining
from anycloud_common.store import Tx
from anycloudapi.deployment.v1 import deployments_pb2, states_pb2
from anycloudapi.deployment.v1 import workloads_pb2 as pb
from anycloudapi.deployment.v1.workloads_pb2_grpc import WorkloadsServicer
from sqlalchemy import Connection

from anycloud_deployment.domain import image_jobs as image_life
from anycloud_deployment.domain import jobs as life
from anycloud_deployment.domain.image_jobs import ImageJob
from anycloud_deployment.domain.jobs import Job
from anycloud_deployment.domain.refusal import Refusal
from anycloud_deployment.live.job_logs import JobLogReader
from anycloud_deployment.live.signals import Signals
from anycloud_deployment.rpc import found, image_admitting, image_job_messages, image_submissions, submissions
from anycloud_deployment.rpc import workload_messages as messages
from anycloud_deployment.rpc.refusals import actor, answered, rejected
from anycloud_deployment.rpc.summaries import JOB_STATES
from anycloud_deployment.store import deployments, events, job_reads, jobs, workloads
from anycloud_deployment.store.events import Actor
from anycloud_deployment.store.filters import Filter
from anycloud_deployment.store.image_jobs import StoredImageJob
from anycloud_deployment.store.job_reads import Submission, Submitted
from anycloud_deployment.store.jobs import Jobs
from anycloud_deployment.store.workloads import Workload

Context = grpc.aio.ServicerContext[Any, Any]

_LISTED = 200
_EVENTS = 100
_MOST_EVENTS = 1000
_LONGEST_WAIT_MS = 20_000
_NAMES = {**JOB_STATES, **image_job_messages.STATES}
_STATES = {value: name for name, value in _NAMES.items()}
_INVALID = "WORKLOAD_MANAGEMENT_REQUEST_INVALID"


class WorkloadsService(WorkloadsServicer):
    """`job_signals` tell of changes by Job id."""

    def __init__(
        self,
        jobs: Jobs,
        images: image_admitting.Tools,
        logs: JobLogReader,
        *,
        job_signals: Signals,
        draining: Draining,
        clock: Clock,
    ) -> None:
        self._store = images.store
        self._jobs = jobs
        self._images = images
        self._logs = logs
        self._signals = job_signals
        self._draining = draining
        self._clock = clock

    async def SubmitWorkload(self, request: pb.SubmitWorkloadRequest, context: Context) -> pb.Admission:
        if request.WhichOneof("target") == "image_target":
            return await self._submit_image(request)
        with answered():
            wanted = submissions.targeted(request)
            [job] = await self._submit(request.deployment_target.deployment, [wanted])
        return messages.admission(job)

    async def SubmitJobs(self, request: pb.SubmitJobsRequest, context: Context) -> pb.SubmitJobsResponse:
        with answered():
            taken = await self._submit(request.deployment, submissions.batch(request))
        return pb.SubmitJobsResponse(admissions=[messages.admission(job) for job in taken])

    async def ListWorkloads(self, request: pb.ListWorkloadsRequest, context: Context) -> pb.ListWorkloadsResponse:
        wanted = _filter(request)
        if wanted is None:
            return pb.ListWorkloadsResponse()
        listed, homes = await self._store.read(partial(_listed, wanted=wanted, page=paging.asked(request, _LISTED)))
        caller = actor().id
        return pb.ListWorkloadsResponse(
            workloads=[_entry(one, homes, caller) for one in listed.items],
            next_cursor=listed.next_cursor,
            total_count=listed.total,
        )

    async def GetWorkloadStatus(self, request: pb.GetWorkloadStatusRequest, context: Context) -> pb.WorkloadStatus:
        limit = request.events_limit if request.HasField("events_limit") else _EVENTS
        read = partial(_status, job_id=request.id, limit=max(1, min(limit, _MOST_EVENTS)))
        with answered():
            return await self._store.read(read)

    async def TerminateWorkload(self, request: pb.TerminateWorkloadRequest, context: Context) -> pb.Message:
        session = request.session if request.HasField("session") else None
        with answered():
            message = await self._store.write(partial(self._terminate, request.id, session, actor()))
        return pb.Message(message=message)

    async def ResubmitWorkload(self, request: pb.ResubmitWorkloadRequest, context: Context) -> pb.Resubmission:
        asked = request.resubmission
        with answered():
            timeout_s = submissions.timeout(asked.timeout, _INVALID) if asked.HasField("timeout") else None
            session = asked.session if asked.HasField("session") else None
            stored = await self._store.look(partial(found.workload, workload_id=request.id))
            if isinstance(stored, StoredImageJob):
                return await self._resubmit_image(stored, timeout_s, session)
            job = await self._store.write(partial(self._resubmit, request.id, timeout_s, session, actor()))
        return pb.Resubmission(
            message=f"Job {job.id} is queued again.",
            submission_revision=job.submission_revision,
            claim_deadline_at=job.claim_deadline_at,
        )

    async def StreamWorkloadLogs(
        self, request: pb.StreamWorkloadLogsRequest, context: Context
    ) -> AsyncIterator[deployments_pb2.LogLine]:
        with answered():
            stored = await self._store.look(partial(found.workload, workload_id=request.id))
            if isinstance(stored, Submitted):
                home = stored.job.deployment_id
                said = (
                    f"Job {request.id} runs in Deployment {home} and has no logs of its own; ask for the Deployment's."
                )
                raise Refusal("WORKLOAD_MANAGEMENT_CONFLICT", said)
            tail = request.tail if request.HasField("tail") else None
            async for line in self._logs.read(stored.job.id, tail=tail, follow=request.follow):
                yield deployments_pb2.LogLine(text=line.text, pod_name=line.pod_name, previous=line.previous)

    async def ObserveSubmission(
        self, request: pb.ObserveSubmissionRequest, context: Context
    ) -> pb.SubmissionObservation:
        asked = request.observation
        with answered():
            if not 0 <= asked.wait_ms <= _LONGEST_WAIT_MS:
                raise Refusal(_INVALID, f"waitMs is {asked.wait_ms}; it must be 0 to {_LONGEST_WAIT_MS}.")
            until = self._clock.monotonic() + asked.wait_ms / 1000
            observing = self._observe(request.id, asked.submission_revision, until)
            seen = await self._draining.race(observing)
            return seen or await self._observe(request.id, asked.submission_revision, 0.0)

    async def _submit_image(self, request: pb.SubmitWorkloadRequest) -> pb.Admission:
        """Without a submission revision: that is what tells a Job of a Deployment from others."""
        with answered():
            try:
                wanted = image_submissions.wanted(request)
            except Refusal as refusal:
                raise rejected(refusal.message) from None
            return pb.Admission(id=(await image_admitting.submit(self._images, wanted, actor())).id)

    async def _resubmit_image(
        self, stored: StoredImageJob, timeout_s: float | None, session: str | None
    ) -> pb.Resubmission:
        job_id = stored.job.id
        if timeout_s is not None:
            raise Refusal(
                _INVALID, f"timeout is for Jobs that a Deployment's worker claims, and Job {job_id} isn't one."
            )
        await image_admitting.resubmit(self._images, stored, session, actor())
        return pb.Resubmission(message=f"Job {job_id} is queued again.")

    async def _submit(self, reference: str, wanted: list[Submission]) -> list[Job]:
        return await self._store.write(partial(self._admit, reference, wanted, actor()))

    def _admit(self, reference: str, wanted: list[Submission], by: Actor, tx: Tx) -> list[Job]:
        deployment = deployments.find(tx.conn, reference)
        if deployment is None:
            raise rejected(f"Deployment {reference[:80]} doesn't exist; name one that does.")
        return self._jobs.submit(tx, deployment, wanted, by)

    def _terminate(self, job_id: str, session: str | None, by: Actor, tx: Tx) -> str:
        stored = found.workload(tx.conn, job_id)
        if session is not None and session != stored.submission.session:
            raise found.missing(job_id)
        if isinstance(stored, StoredImageJob):
            return self._stop(tx, stored.job, by)
        self._jobs.terminate(tx, stored.job, by)
        state = found.workload(tx.conn, job_id).job.state
        if state in life.TERMINAL:
            return f"Job {job_id} is {state}."
        return f"Job {job_id} runs; its worker is asked to stop it."

    def _stop(self, tx: Tx, job: ImageJob, by: Actor) -> str:
        step = image_life.terminate(job, now=tx.now)
        if step is not None:
            self._images.jobs.save(tx, step, by)
        return f"Job {job.id} is {job.state}." if job.over else f"Job {job.id} is being stopped."

    def _resubmit(self, job_id: str, timeout_s: float | None, session: str | None, by: Actor, tx: Tx) -> Job:
        stored = found.targeted(tx.conn, job_id)
        home = deployments.get(tx.conn, stored.job.deployment_id)
        if home is None or not home.accepting:
            raise Refusal("WORKLOAD_MANAGEMENT_CONFLICT", f"The Deployment of Job {job_id} takes no more Jobs.")
        return self._jobs.resubmit(tx, stored, timeout_s, session, by)

    async def _observe(self, job_id: str, revision: int, until: float) -> pb.SubmissionObservation:
        """Looks until the submission is claimed or over, or the time is; ends it itself when its deadline passes."""
        with self._signals.watch(job_id) as watch:
            while True:
                job = (await self._store.look(partial(found.targeted, workload_id=job_id))).job
                now = self._clock.now_ms()
                if job.submission_revision == revision and job.overdue(now):
                    await self._store.write(partial(self._expire, job))
                    job = (await self._store.look(partial(found.targeted, workload_id=job_id))).job
                outcome = life.observation(job, revision)
                left = until - self._clock.monotonic()
                if outcome != "pending" or left <= 0:
                    return messages.observation(job, outcome)
                if job.claimed_at is None and job.claim_deadline_at is not None:
                    left = min(left, max(job.claim_deadline_at - now, 1) / 1000)
                await watch.wait(left)

    def _expire(self, job: Job, tx: Tx) -> None:
        self._jobs.expire(tx, job.deployment_id, job.id)


def _status(conn: Connection, job_id: str, limit: int) -> pb.WorkloadStatus:
    stored = found.workload(conn, job_id)
    log, total = events.newest(conn, jobs.KIND, job_id, limit)
    if isinstance(stored, StoredImageJob):
        return image_job_messages.status(stored, log, total)
    home = deployments.get(conn, stored.job.deployment_id)
    pool = messages.Home(home.node_pool_id, home.node_pool_name) if home is not None else None
    return messages.status(stored, pool, log, total, job_reads.ahead_of(conn, stored))


def _listed(conn: Connection, wanted: Filter, page: Page) -> tuple[Listed[Workload], dict[str, messages.Home]]:
    listed = workloads.listed(conn, wanted, page)
    homes = {}
    for deployment_id in {one.job.deployment_id for one in listed.items if isinstance(one, Submitted)}:
        home = deployments.get(conn, deployment_id)
        if home is not None:
            homes[deployment_id] = messages.Home(home.node_pool_id, home.node_pool_name)
    return listed, homes


def _entry(one: Workload, homes: Mapping[str, messages.Home], caller: str) -> pb.ListedWorkload:
    if isinstance(one, StoredImageJob):
        return image_job_messages.listed(one, caller)
    return messages.listed(one, homes.get(one.job.deployment_id), caller)


def _filter(request: pb.ListWorkloadsRequest) -> Filter | None:
    """None where nothing can match: other workloads than Jobs, and Jobs with a credential of their own."""
    other_type = request.HasField("workload_type") and request.workload_type != states_pb2.WORKLOAD_TYPE_JOB
    if other_type or request.HasField("credential_name"):
        return None
    states = _states(request)
    if states is not None and not states:
        return None
    return Filter(
        since_ms=request.since_ms if request.HasField("since_ms") else None,
        deployment_id=request.deployment_id if request.HasField("deployment_id") else None,
        created_by=request.user if request.HasField("user") else None,
        session=request.session if request.HasField("session") else None,
        session_exact=request.session_exact if request.HasField("session_exact") else None,
        agent=request.agent if request.HasField("agent") else None,
        states=states,
        text=request.filter if request.HasField("filter") else None,
    )


def _states(request: pb.ListWorkloadsRequest) -> set[str] | None:
    states: set[str] | None = None
    if request.HasField("state_class"):
        over = request.state_class == pb.ListWorkloadsRequest.STATE_CLASS_TERMINAL
        states = {name for name in _NAMES if (name in life.TERMINAL or name in image_life.TERMINAL) == over}
    if request.HasField("status"):
        named = {_STATES[request.status]} if request.status in _STATES else set()
        states = named if states is None else states & named
    return states
