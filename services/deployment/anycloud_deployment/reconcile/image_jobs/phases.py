"""The steps of a run's life, in their order. A pass goes through them until one has to wait."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence

from anycloud_common.kube import Foreign, KubeError
from anycloud_common.reconcile import Done, Outcome, Requeue, in_order

from anycloud_deployment.domain.ports import PoolUnavailable
from anycloud_deployment.reconcile.image_jobs import ending, objects, watching
from anycloud_deployment.reconcile.image_jobs.run import Run, Tools
from anycloud_deployment.store import image_jobs
from anycloud_deployment.store.image_jobs import Changed

Phase = Callable[[Run], Awaitable[Outcome]]

LIVING: Sequence[Phase] = (objects.make, watching.observe)
ENDING: Sequence[Phase] = (ending.settle, ending.keep_output, ending.remove_objects, ending.let_go)
OVER: Sequence[Phase] = (ending.sweep,)

_RETRY_S = 2.0
_UNSYNCED_S = 1.0
_REFUSED_RETRY_S = 30.0

log = logging.getLogger(__name__)


class ImageJobPass:
    """Handles one run, for a Reconciler."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    async def __call__(self, name: str) -> Outcome:
        stored = await self._tools.store.read(lambda conn: image_jobs.of_run(conn, name))
        if stored is None or not stored.job.visible:
            return Done()
        run = Run(self._tools, stored)
        try:
            return await self._go_through(run)
        except Changed:
            return Requeue(0.0)
        except PoolUnavailable as error:
            log.info("node pools can't be asked", extra={"job": run.job.id, "reason": str(error)})
            return Requeue(_RETRY_S)

    async def _go_through(self, run: Run) -> Outcome:
        outcome: Outcome = Done()
        try:
            if not run.job.ending:
                outcome = await in_order(LIVING, run) if self._tools.view.synced else Requeue(_UNSYNCED_S)
            if run.job.ending:
                outcome = await in_order(ENDING if run.job.cleaned_at is None else OVER, run)
        except Foreign as foreign:
            return await run.waits(f"{foreign}; remove it with `{foreign.remedy}`.", _REFUSED_RETRY_S)
        except KubeError as error:
            return await self._failed(run, error)
        return outcome

    async def _failed(self, run: Run, error: KubeError) -> Outcome:
        log.warning("Kubernetes refused a step", extra={"job": run.job.id, "reason": str(error)})
        if run.job.ending:
            if run.job.block != str(error):
                await run.note(block=str(error))
            return Requeue(_RETRY_S)
        if error.reason in ("forbidden", "invalid"):
            return await run.waits(f"Kubernetes refuses: {error}", _REFUSED_RETRY_S)
        return Requeue(_RETRY_S)
