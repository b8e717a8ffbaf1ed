"""Who hears of which committed change."""

from __future__ import annotations

from collections.abc import Callable

from anycloud_deployment.live.offers import Offers
from anycloud_deployment.live.signals import Signals

Mark = Callable[[str, float], None]


class Wiring:
    """Implements `Wakes`. The reconcilers' `mark` are given once they exist, before anything is committed."""

    def __init__(self, offers: Offers, jobs: Signals, executions: Signals) -> None:
        self._offers = offers
        self._jobs = jobs
        self._executions = executions
        self.mark_deployment: Mark = _nobody
        self.mark_executions: Mark = _nobody
        self.mark_image_job: Mark = _nobody

    def queue(self, deployment_id: str) -> None:
        self._offers.wake(deployment_id)

    def job(self, job_id: str) -> None:
        self._jobs.tell(job_id)

    def execution(self, execution_id: str) -> None:
        self._executions.tell(execution_id)

    def deployment(self, deployment_id: str) -> None:
        self.mark_deployment(deployment_id, 0.0)

    def executions(self, deployment_id: str, after: float = 0.0) -> None:
        self.mark_executions(deployment_id, after)

    def image_job(self, run: str) -> None:
        self.mark_image_job(run, 0.0)


def _nobody(key: str, after: float) -> None:
    raise RuntimeError("a change was committed before the reconcilers were there")
