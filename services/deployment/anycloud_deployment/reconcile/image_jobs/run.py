"""One run of an image Job during one pass."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from anycloud_common.admission import Admissions
from anycloud_common.clock import Clock
from anycloud_common.reconcile import Blocked
from anycloud_common.store import Store, Tx

from anycloud_deployment.domain import image_jobs as life
from anycloud_deployment.domain.image_jobs import ImageJob, Step
from anycloud_deployment.domain.job_manifest import Place
from anycloud_deployment.domain.ports import JobView, Logs, NodePools, Objects
from anycloud_deployment.store.image_jobs import ImageJobs, StoredImageJob
from anycloud_deployment.store.secrets import Secrets


@dataclass(frozen=True)
class Tools:
    """What every pass works with."""

    store: Store
    jobs: ImageJobs
    objects: Objects
    logs: Logs
    view: JobView
    pools: NodePools
    admissions: Admissions
    secrets: Secrets
    clock: Clock


class Run:
    """Every write raises Changed when somebody else wrote the Job since it was read."""

    def __init__(self, tools: Tools, stored: StoredImageJob) -> None:
        self.tools = tools
        self.stored = stored

    @property
    def job(self) -> ImageJob:
        return self.stored.job

    @property
    def name(self) -> str:
        """The name of its objects."""
        return self.job.run

    @property
    def namespace(self) -> str:
        """The Namespace of its objects, once one is known."""
        assert self.job.namespace is not None, "the namespace phase comes first"
        return self.job.namespace

    @property
    def place(self) -> Place:
        return Place(self.name, self.job.id, self.namespace, self.job.node_pool_id)

    async def step(self, step: Step | None) -> None:
        """Stores a transition, if there is one."""
        if step is not None:
            self._now(await self.tools.store.write(partial(self.tools.jobs.save, step=step)))

    async def note(self, *, output: bytes | None = None, **facts: Any) -> None:
        """Stores facts as they are learnt."""
        columns = {} if output is None else {"output": self.tools.jobs.sealed_output(self.name, output)}
        job = replace(self.job, **facts)
        self._now(await self.tools.store.write(lambda tx: self.tools.jobs.note(tx, job, **columns)))
        if output is not None:
            self.stored = replace(self.stored, kept=True)

    async def end(self, kind: str) -> None:
        """Stores that nothing of the run is left, and gives back what it held."""
        self._now(await self.tools.store.write(partial(self._end, kind)))

    async def waits(self, message: str, retry: float | None = None) -> Blocked:
        """Ends the pass with a reason that the Job's status shows."""
        await self.step(life.waits(self.job, message))
        return Blocked(message, retry)

    def _end(self, kind: str, tx: Tx) -> ImageJob:
        held = self.tools.admissions.of_owner(tx.conn, kind, self.job.id)
        self.tools.admissions.releasing(tx, [row.admission.id for row in held])
        return self.tools.jobs.save(tx, life.cleaned(self.job, now=tx.now))

    def _now(self, job: ImageJob) -> None:
        self.stored = replace(self.stored, job=job)
