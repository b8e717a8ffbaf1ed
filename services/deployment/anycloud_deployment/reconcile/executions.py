"""Deadlines of Jobs, and executions that are over although no worker says so.

An execution is lost only when (a) its kubelet reported the Pod as over, or (b) a restart of the container more than
30 s after the claim (of a younger claim nobody can say whose it is: then the Pod is deleted, and (a) or (c) follows),
or (c) the Pod is gone and its Node's kubelet, still the same one, has been heard of since; or the Node's VM is gone for
good. Silence proves nothing.
"""

from __future__ import annotations

import logging
from functools import partial

from anycloud_common.clock import Clock
from anycloud_common.kube import KubeError
from anycloud_common.reconcile import Done, Outcome, Requeue
from anycloud_common.store import Store

from anycloud_deployment.domain.jobs import Execution, Job
from anycloud_deployment.domain.model import NodeFact, PodFact
from anycloud_deployment.domain.ports import NodePools, Objects, PoolUnavailable, View
from anycloud_deployment.store import deployments, job_reads
from anycloud_deployment.store.jobs import Jobs

YOUNG_MS = 30_000
ENDED = "the Pod has ended"
RESTARTED = "the container was restarted"
POD_GONE = "the Pod is gone"
NODE_GONE = "the Node's VM is gone"

_LOOK_AGAIN_S = 3.0

log = logging.getLogger(__name__)


class ExecutionPass:
    """Looks at the Jobs of one Deployment, for a Reconciler. `unsettled` are Deployments with an execution that
    can't be judged yet; what is learnt about Nodes concerns them."""

    def __init__(
        self, store: Store, jobs: Jobs, objects: Objects, view: View, *, pools: NodePools, clock: Clock
    ) -> None:
        self.unsettled: set[str] = set()
        self._store = store
        self._jobs = jobs
        self._objects = objects
        self._view = view
        self._pools = pools
        self._clock = clock
        self._leases: dict[str, str] = {}  # execution id to its Node's lease, as first seen after its Pod was gone

    async def __call__(self, deployment_id: str) -> Outcome:
        deadline = await self._store.write(partial(self._jobs.expire, deployment_id=deployment_id))
        again = await self._look(deployment_id)
        if deadline is not None:
            until = max((deadline - self._clock.now_ms()) / 1000, 0.0)
            again = until if again is None else min(again, until)
        return Done() if again is None else Requeue(again)

    async def _look(self, deployment_id: str) -> float | None:
        """Judges each execution; gives the seconds after which to look again, if it is worth it."""
        held = await self._store.read(partial(job_reads.holding, deployment_id=deployment_id))
        self.unsettled.discard(deployment_id)
        if not held:
            return None
        if not self._view.synced:
            return _LOOK_AGAIN_S
        try:
            settled = [await self._judge(job, job.execution) for job in held if job.execution is not None]
        except (KubeError, PoolUnavailable) as error:
            log.info("executions can't be judged", extra={"deployment": deployment_id, "reason": str(error)})
            settled = [False]
        if all(settled):
            return None
        self.unsettled.add(deployment_id)
        return _LOOK_AGAIN_S

    async def _judge(self, job: Job, execution: Execution) -> bool:
        """True when nothing speaks against the execution, or it was found to be over; False when that is open."""
        pod = self._view.pod(execution.worker.pod_uid)
        if pod is not None:
            cause = await self._cause_in(pod, execution)
        elif await self._still_there(job, execution):
            return False
        else:
            cause = await self._cause_without_pod(execution)
        if cause is not None:
            await self._lose(job, execution, cause)
            return True
        return pod is not None and not pod.deleting and self._same_node(execution) is not None

    async def _cause_in(self, pod: PodFact, execution: Execution) -> str | None:
        """Why an execution is over whose Pod is still there, or None."""
        if pod.ended:
            return ENDED
        if pod.restarts > execution.worker.restarts:
            if pod.restarts_seen_at - execution.claimed_at > YOUNG_MS:
                return RESTARTED
            log.warning("a Pod restarted around a claim", extra={"pod": pod.name, "execution": execution.id})
            await self._objects.delete("Pod", pod.namespace, pod.name, pod.uid)
            return None
        return None if self._same_node(execution) is not None else await self._closed(execution)

    async def _cause_without_pod(self, execution: Execution) -> str | None:
        """Why an execution is over whose Pod is gone, or None while its kubelet may not know of that."""
        node = self._same_node(execution)
        if node is None or not node.ready:
            return await self._closed(execution)
        renewed = await self._objects.lease(execution.worker.node)
        first_seen = self._leases.setdefault(execution.id, renewed or "")
        return POD_GONE if renewed is not None and renewed != first_seen else None

    async def _still_there(self, job: Job, execution: Execution) -> bool:
        """Whether the Pod exists although the watches don't show it: somebody took its labels away."""
        home = await self._store.read(partial(deployments.get, deployment_id=job.deployment_id))
        namespace = home.natives.namespace if home is not None else None
        if namespace is None:
            return False
        return await self._objects.pod_uid(namespace, execution.worker.pod_name) == execution.worker.pod_uid

    async def _closed(self, execution: Execution) -> str | None:
        attempt = execution.worker.attempt
        return NODE_GONE if attempt in await self._pools.closed_attempts({attempt}) else None

    def _same_node(self, execution: Execution) -> NodeFact | None:
        """The Node that the Pod ran on, unless another object bears its name now."""
        node = self._view.node(execution.worker.node)
        same = node is not None and (node.uid, node.attempt) == (execution.worker.node_uid, execution.worker.attempt)
        return node if same else None

    async def _lose(self, job: Job, execution: Execution, cause: str) -> None:
        self._leases.pop(execution.id, None)
        lose = partial(
            self._jobs.lose,
            deployment_id=job.deployment_id,
            job_id=job.id,
            execution_id=execution.id,
            cause=cause,
        )
        await self._store.write(lose)
