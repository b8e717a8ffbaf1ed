"""The same answers from FastAPI and uvicorn: the same rows by the same statements, pydantic models, a token that is
looked up by its hash.

Usage: fastapi_app.py <port>, with the environment of a service; listens on fastapi.sock too, for Envoy.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import socket
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import uvicorn
from anycloud_common.cipher import Cipher
from anycloud_common.paging import Page
from anycloud_common.settings import Settings
from anycloud_common.store import Store, Tx
from anycloud_deployment.domain.jobs import Job
from anycloud_deployment.domain.model import Deployment, JobCounts, Revision
from anycloud_deployment.domain.observe import World, status
from anycloud_deployment.store import deployments, workloads
from anycloud_deployment.store.events import Actor
from anycloud_deployment.store.filters import Filter
from anycloud_deployment.store.job_reads import Submission, Submitted
from anycloud_deployment.store.jobs import Jobs
from anycloud_deployment.store.revisions import Revisions
from fastapi import Depends, FastAPI, Header, HTTPException, Query
from sqlalchemy import Connection

from tests.bench.doors import content, models

SOCKET = "fastapi.sock"
_USUAL = 200


class Api:
    def __init__(self, store: Store, cipher: Cipher, token: str) -> None:
        self._store = store
        self._revisions = Revisions(cipher)
        self._jobs = Jobs(content.UNHEARD)
        self._known = {hashlib.sha256(token.encode()).digest(): "local"}
        self.app = FastAPI()
        caller = Depends(self.caller)

        @self.app.get("/v1/deployments/{reference}")
        async def deployment(reference: str, user: str = caller) -> models.DeploymentAnswer:
            return await self.deployment(reference)

        @self.app.get("/v1/workloads")
        async def listed(
            user: str = caller,
            deployment_id: Annotated[str | None, Query(alias="deploymentId", min_length=1)] = None,
            limit: Annotated[int, Query(ge=1, le=1000)] = _USUAL,
        ) -> list[models.Workload]:
            return await self.listed(user, Filter(deployment_id=deployment_id), Page(limit))

        @self.app.post("/v1/workloads", status_code=202)
        async def submit(asked: models.Submit, user: str = caller) -> models.Admission:
            return await self.submit(asked, user)

    async def caller(self, authorization: Annotated[str, Header()] = "") -> str:
        """Who holds the token."""
        digest = hashlib.sha256(authorization.removeprefix("Bearer ").encode()).digest()
        if digest not in self._known:
            raise HTTPException(401, "This token isn't known to the API.")
        return self._known[digest]

    async def deployment(self, reference: str) -> models.DeploymentAnswer:
        found = await self._store.read(partial(deployments.find, reference=reference))
        if found is None:
            raise HTTPException(404, f"Deployment {reference} doesn't exist.")
        seen = await self._store.read(partial(self._seen, deployment_id=found.id))
        return models.DeploymentAnswer(deployment=_deployment(*seen))

    async def listed(self, user: str, wanted: Filter, page: Page) -> list[models.Workload]:
        return await self._store.read(partial(_workloads, wanted=wanted, page=page, caller=user))

    async def submit(self, asked: models.Submit, user: str) -> models.Admission:
        job = await self._store.write(partial(self._admit, asked=asked, by=Actor(user)))
        return models.Admission(
            id=job.id, claim_deadline_at=job.claim_deadline_at, submission_revision=job.submission_revision
        )

    def _seen(self, conn: Connection, deployment_id: str) -> tuple[Deployment, Revision, JobCounts]:
        found = deployments.get(conn, deployment_id)
        assert found is not None
        counts = deployments.job_counts(conn, {found.id: found.jobs_submitted})
        return found, self._revisions.get(conn, found.id, found.generation), counts[found.id]

    def _admit(self, tx: Tx, asked: models.Submit, by: Actor) -> Job:
        home = deployments.find(tx.conn, asked.deployment)
        if home is None:
            raise HTTPException(404, f"Deployment {asked.deployment} doesn't exist.")
        wanted = Submission(
            asked.id or f"job-{secrets.token_hex(12)}", asked.timeout, asked.session, asked.session_label, asked.agent
        )
        [job] = self._jobs.submit(tx, home, [wanted], by)
        return job


def _deployment(found: Deployment, revision: Revision, counts: JobCounts) -> models.Deployment:
    seen = status(found, World(at=found.updated_at), 0)
    spec = revision.spec
    return models.Deployment(
        id=found.id,
        name=found.name,
        image=spec.image,
        node_pool_id=found.node_pool_id,
        target=models.Target(node_pool_id=found.node_pool_id),
        command=None if spec.command is None else list(spec.command),
        env_keys=sorted(spec.env),
        secret_names=list(spec.secrets),
        replicas=spec.replicas,
        max_concurrent_jobs_per_replica=spec.slots,
        gpu_count=revision.resources.gpus,
        generation=found.generation,
        jobs=models.JobsOf(
            queued=counts.queued,
            running=counts.running,
            retrying=counts.retrying,
            terminal=counts.terminal,
            unreleased=counts.unreleased,
        ),
        status=models.Status(
            state=seen.state,
            releasing=seen.releasing,
            ready=seen.ready,
            reason=seen.reason,
            observation="observed" if seen.observed else "unavailable",
            observation_error=seen.error,
            observed_at=seen.at,
            requested_generation=found.generation,
            applied_generation=found.applied,
            application_ready=seen.application_ready,
            ready_replicas=seen.ready_replicas or 0,
            blocking_jobs=models.BlockingJobs(total=0, jobs=[]),
        ),
        workload=models.PodOf(container_ready=False, pending_reason=seen.pending_reason),
        created_at=found.created_at,
        updated_at=found.updated_at,
        deleted_at=found.deleted_at,
        deletion_requested_at=found.deletion_requested_at,
    )


def _workloads(conn: Connection, wanted: Filter, page: Page, caller: str) -> list[models.Workload]:
    jobs = [one for one in workloads.listed(conn, wanted, page).items if isinstance(one, Submitted)]
    homes = {each: deployments.get(conn, each) for each in {one.job.deployment_id for one in jobs}}
    return [_workload(one, homes[one.job.deployment_id], caller) for one in jobs]


def _workload(stored: Submitted, home: Deployment | None, caller: str) -> models.Workload:
    job = stored.job
    return models.Workload(
        id=job.id,
        state=job.state,
        submission_revision=job.submission_revision,
        claimed=job.claimed_at is not None,
        claim_deadline_at=job.claim_deadline_at,
        deployment_id=job.deployment_id,
        user_id=stored.created_by,
        session=stored.submission.session,
        session_label=stored.submission.session_label,
        agent=stored.submission.agent,
        started_at=stored.created_at,
        completed_at=job.completed_at,
        node_pool_id=None if home is None else home.node_pool_id,
        node_pool_name=None if home is None else home.node_pool_name,
        is_owned_by_caller=stored.created_by == caller,
        latest_message=job.message,
    )


async def serve(settings: Settings, port: int) -> None:
    assert settings.local_token_file is not None
    token = settings.local_token_file.read_text().strip()
    # By its number: for a socket of protocol 0 asyncio leaves the delay on, and each answer would wait 40 ms.
    sockets = [socket.socket(proto=socket.IPPROTO_TCP), socket.socket(socket.AF_UNIX)]
    sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sockets[0].bind(("127.0.0.1", port))
    sockets[1].bind(str(settings.runtime_dir / SOCKET))
    sockets[1].listen(1024)
    with content.opened(settings) as (store, cipher):
        config = uvicorn.Config(Api(store, cipher, token).app, access_log=False, log_level="warning")
        await uvicorn.Server(config).serve(sockets)


if __name__ == "__main__":
    asyncio.run(serve(Settings.from_environment(), int(sys.argv[1])))
