"""What a worker may do, whichever way it calls: one function a step, over the transitions of the store."""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from typing import NamedTuple

from anycloud_common.clock import Clock
from anycloud_common.store import Store

from anycloud_deployment.domain.jobs import Candidate, Outcome
from anycloud_deployment.domain.refusal import Refusal
from anycloud_deployment.live.offers import Offers
from anycloud_deployment.live.pods import Pods
from anycloud_deployment.live.signals import Signals
from anycloud_deployment.live.tokens import Bearer, TokenReviews
from anycloud_deployment.store import deployments, job_reads
from anycloud_deployment.store.jobs import Claim, Held, Jobs, cancelled

_NAMESPACES = 4096


class Caller(NamedTuple):
    """A Pod of a Deployment that showed its token."""

    deployment_id: str
    pod_uid: str
    token: str


class Workers:
    """Raises Refusal. `execution_signals` tell of changes by execution id."""

    def __init__(
        self,
        store: Store,
        jobs: Jobs,
        reviews: TokenReviews,
        pods: Pods,
        *,
        offers: Offers,
        execution_signals: Signals,
        clock: Clock,
    ) -> None:
        self.offers = offers
        self._store = store
        self._jobs = jobs
        self._reviews = reviews
        self._pods = pods
        self._signals = execution_signals
        self._clock = clock
        self._namespaces: OrderedDict[str, str] = OrderedDict()

    async def admit(self, deployment_id: str, token: str | None) -> Caller:
        """Who calls, by a verdict of the last seconds."""
        if token is None:
            raise Refusal("WORKLOAD_UNAUTHORIZED", "This call needs the workload token as bearer.")
        return await self._caller(deployment_id, await self._reviews.recent(token), token)

    async def review(self, caller: Caller) -> Bearer:
        """The cluster's word of now, for one pickup. It has to be the same Pod still."""
        bearer = await self._reviews.fresh(caller.token)
        if bearer.pod_uid != caller.pod_uid:
            raise Refusal("WORKLOAD_FORBIDDEN", "The token is another Pod's now.")
        return bearer

    async def candidate(self, caller: Caller, wait_s: float) -> Candidate | None:
        """The next Job, waited for as long as the caller says. Starts nothing."""
        self._pods.check_synced()
        review = partial(self.review, caller)
        return await self.offers.poll(caller.deployment_id, caller.pod_uid, caller.token, review=review, wait_s=wait_s)

    async def claim(self, caller: Caller, candidate: Candidate, execution_id: str) -> None:
        """Takes a Job. The token was reviewed for this very pickup before the claim is queued for writing."""
        try:
            begun = self.offers.review_of(caller.deployment_id, candidate.job_id, caller.pod_uid, caller.token)
            await (begun if begun is not None else self.review(caller))
            asked = Claim(caller.deployment_id, candidate, execution_id, caller.pod_uid)
            worker = self._pods.claimant(caller.pod_uid)
            refusal = await self._store.write(partial(self._jobs.claim, asked=asked, worker=worker))
        finally:
            self.offers.settle(caller.deployment_id, candidate.job_id, caller.pod_uid)
        if refusal is not None:
            raise refusal

    async def running(self, caller: Caller) -> list[tuple[str, str]]:
        """Job and execution id of what the Pod holds and hasn't reported on."""
        held = await self._store.read(partial(job_reads.holding, deployment_id=caller.deployment_id))
        executions = [(job.id, job.execution) for job in held if job.execution is not None]
        return [
            (job_id, execution.id)
            for job_id, execution in executions
            if execution.worker.pod_uid == caller.pod_uid and execution.outcome is None
        ]

    async def cancelled(
        self, caller: Caller, job_id: str, execution_id: str, wait_s: float, *, told_first: bool = False
    ) -> bool:
        """Whether an execution is to stop, waited for until it is told to, or over, or the time is. `told_first`: the
        claim isn't committed yet, so there is nothing to look at before the first change."""
        until = self._clock.monotonic() + wait_s
        held = Held(caller.deployment_id, job_id, execution_id, caller.pod_uid)
        with self._signals.watch(execution_id) as watch:
            if told_first:
                await watch.wait(wait_s)
            while True:
                found = await self._store.look(partial(cancelled, held=held))
                left = until - self._clock.monotonic()
                if found is not None or left <= 0:
                    return found is True
                await watch.wait(left)

    async def report(
        self, caller: Caller, job_id: str, execution_id: str, outcome: Outcome, message: str | None
    ) -> None:
        """Takes an execution's outcome."""
        held = Held(caller.deployment_id, job_id, execution_id, caller.pod_uid)
        await self._store.write(partial(self._jobs.report, held=held, outcome=outcome, message=message))

    async def clean_up(self, caller: Caller, job_id: str, execution_id: str) -> None:
        """Takes the word that nothing of an execution is left."""
        held = Held(caller.deployment_id, job_id, execution_id, caller.pod_uid)
        await self._store.write(partial(self._jobs.clean_up, held=held))

    async def _caller(self, deployment_id: str, bearer: Bearer, token: str) -> Caller:
        """The ServiceAccount bears the Deployment's id, and lives in its Namespace."""
        namespace = self._namespaces.get(deployment_id) or await self._namespace(deployment_id)
        if (bearer.service_account, bearer.namespace) != (deployment_id, namespace):
            raise Refusal("WORKLOAD_FORBIDDEN", f"This token is not of a Pod of Deployment {deployment_id[:80]}.")
        return Caller(deployment_id, bearer.pod_uid, token)

    async def _namespace(self, deployment_id: str) -> str:
        found = await self._store.look(partial(deployments.get, deployment_id=deployment_id))
        if found is None or not found.visible or found.natives.namespace is None:
            raise Refusal("WORKLOAD_NOT_FOUND", f"Deployment {deployment_id[:80]} doesn't exist.")
        self._namespaces[deployment_id] = found.natives.namespace
        if len(self._namespaces) > _NAMESPACES:
            self._namespaces.popitem(last=False)
        return found.natives.namespace
