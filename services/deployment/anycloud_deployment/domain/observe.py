"""The status of a Deployment, computed from stored facts and one observation of its Pods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from anycloud_deployment.domain.model import Deployment, PodFact, ReplicaSetFact

State = Literal["starting", "running", "failed", "terminated", "unknown"]
UpgradeState = Literal["starting", "running", "failed"]

# Kubernetes goes on trying after the first two, and never succeeds after the last.
_CANT_START: Final = frozenset({"ImagePullBackOff", "CrashLoopBackOff", "InvalidImageName"})

NO_POOL_NAMESPACE: Final = "Waiting for the node pool's Namespace."
NOT_APPLIED: Final = "Waiting for the Deployment's Kubernetes objects to be made."
NO_POD: Final = "Waiting for Kubernetes to make the Pod."
UNSCHEDULED: Final = "Waiting for Kubernetes to place the Pod on a Node."
CONTAINER_STARTING: Final = "Waiting for the container to start; new Jobs wait."
PROBE_FAILING: Final = "Waiting for the readiness probe to pass; new Jobs wait."
NOT_READY: Final = "Waiting for the container to be ready; new Jobs wait."
POD_STOPPING: Final = "Waiting for the previous Pod to stop; new Jobs wait."
DRAINING: Final = "Waiting for Jobs on the previous revision to finish and be cleaned up; new Jobs wait."
RELEASING_JOBS: Final = "Waiting for Jobs to finish and be cleaned up."
RELEASING_OBJECTS: Final = "Waiting for the Deployment's Kubernetes objects to be gone."
DELETED: Final = "The Deployment is deleted."
READY: Final = "Ready for Jobs."
UNREADABLE: Final = "Kubernetes can't be read right now."
UNIDENTIFIED: Final = "The Pod of this Deployment can't be identified yet."


@dataclass(frozen=True)
class World:
    """One observation; `error` instead, when Kubernetes didn't answer in time. `at` is epoch ms."""

    pods: Sequence[PodFact] = ()
    replica_sets: Sequence[ReplicaSetFact] = ()
    at: int = 0
    error: str | None = None


@dataclass(frozen=True)
class Upgrade:
    """`number` is the revision less one."""

    number: int
    state: UpgradeState


@dataclass(frozen=True)
class Status:
    """`ready`: the requested revision takes new Jobs. `pod` is the Pod that the status speaks of."""

    state: State
    releasing: bool
    ready: bool
    reason: str
    observed: bool
    error: str | None
    at: int | None
    pod: PodFact | None
    ready_replicas: int | None
    upgrade: Upgrade | None
    pending_reason: str | None

    @property
    def application_ready(self) -> bool | None:
        """What the observed Pod's probe says; None without a probe, as nobody asked the application then."""
        return self.pod.ready if self.pod is not None and self.pod.probed else None


def available(replica_sets: Sequence[ReplicaSetFact], generation: int) -> bool:
    """Whether Kubernetes reports the ReplicaSet of that revision as available."""
    return any(found.generation == generation and 0 < found.wanted <= found.available for found in replica_sets)


def newest(pods: Sequence[PodFact]) -> PodFact | None:
    """The Pod made last, one that isn't being deleted before one that is."""
    return max(pods, key=lambda pod: (not pod.deleting, pod.created_at, pod.name), default=None)


def status(deployment: Deployment, world: World, blocking: int) -> Status:
    """`blocking` counts Jobs that hold up an upgrade or a deletion."""
    return _Look(deployment, world, blocking).status()


def cant_start(pod: PodFact | None) -> str | None:
    """Why the Pod's container can't start as configured, or None. Between two crashes it is still crash-looping."""
    if pod is None:
        return None
    if pod.waiting in _CANT_START:
        return f"{pod.waiting}: {pod.waiting_message}" if pod.waiting_message else f"{pod.waiting}."
    if pod.crashed is not None and pod.restarts > 0:
        return f"CrashLoopBackOff: {pod.crashed}"
    return None


class _Look:
    """One status in the making."""

    def __init__(self, deployment: Deployment, world: World, blocking: int) -> None:
        self._deployment = deployment
        self._world = world
        self._blocking = blocking
        applied = deployment.applied
        current = [pod for pod in world.pods if pod.generation == applied]
        self._pod = newest(current) or newest(world.pods)
        self._in_place = applied == deployment.generation  # the requested revision is the one that Kubernetes knows
        self._rolled_out = self._in_place and deployment.rolled_out == applied
        self._ever_ready = deployment.rolled_out is not None
        requested = [pod for pod in world.pods if pod.generation == deployment.generation]
        self._ready_replicas = sum(pod.ready and not pod.deleting for pod in requested)

    def status(self) -> Status:
        state = self._state()
        live = state not in ("terminated", "unknown")
        ready = live and self._in_place and self._ready_replicas >= self._deployment.replicas
        if ready and state == "starting":
            state = "running"  # it takes Jobs; that the rollout lasted is stored a moment later
        reason = self._reason(state, ready)
        observed = self._world.error is None
        return Status(
            state=state,
            releasing=state == "terminated" and self._deployment.deleted_at is None,
            ready=ready,
            reason=reason,
            observed=observed,
            error=self._world.error,
            at=self._world.at if observed else None,
            pod=self._pod,
            ready_replicas=self._ready_replicas if observed else None,
            upgrade=self._upgrade(state),
            pending_reason=None if ready or not live else reason,
        )

    def _state(self) -> State:
        deployment = self._deployment
        if deployment.deletion_requested_at is not None:
            return "terminated"
        if self._world.error is not None or self._unidentified():
            return "unknown"
        if not self._rolled_out and self._failure() is not None:
            return "failed"
        return "running" if self._ever_ready else "starting"

    def _unidentified(self) -> bool:
        """Pods are there, and none says which revision it is."""
        return bool(self._world.pods) and all(pod.generation is None for pod in self._world.pods)

    def _failure(self) -> str | None:
        """Why a revision that Kubernetes was told, or is to be told, can't come up."""
        block = self._deployment.block
        if block is not None and block.fatal:
            return block.reason
        if not self._in_place and self._ever_ready:
            return None  # the old Pod still runs, or the new revision wasn't tried yet
        pod = self._pod
        return cant_start(pod) if pod is not None and pod.generation == self._deployment.applied else None

    def _reason(self, state: State, ready: bool) -> str:
        if state == "terminated":
            if self._deployment.deleted_at is not None:
                return DELETED
            return RELEASING_JOBS if self._blocking else self._blocked(RELEASING_OBJECTS)
        if state == "unknown":
            return self._world.error or UNIDENTIFIED
        if state == "failed":
            return self._failure() or NOT_READY
        return READY if ready else self._waiting()

    def _waiting(self) -> str:
        """What the requested revision waits for."""
        deployment, pod = self._deployment, self._pod
        if not self._in_place:
            if self._blocking:
                return DRAINING
            waits = NO_POOL_NAMESPACE if deployment.natives.namespace is None else NOT_APPLIED
            return self._blocked(waits)
        if deployment.block is not None:
            return deployment.block.reason
        failures = [found.failure for found in self._world.replica_sets if found.generation == deployment.applied]
        if pod is None:
            return next((f"Kubernetes refuses the Pod: {failure}" for failure in failures if failure), NO_POD)
        if pod.generation != deployment.applied:
            return POD_STOPPING
        return cant_start(pod) or _starting(pod)

    def _blocked(self, otherwise: str) -> str:
        return self._deployment.block.reason if self._deployment.block is not None else otherwise

    def _upgrade(self, state: State) -> Upgrade | None:
        generation = self._deployment.generation
        if generation == 1:
            return None
        if state == "failed":
            return Upgrade(generation - 1, "failed")
        return Upgrade(generation - 1, "running" if self._rolled_out else "starting")


def _starting(pod: PodFact) -> str:
    if pod.unschedulable is not None:
        return f"Kubernetes can't place the Pod: {pod.unschedulable}"
    if pod.node is None:
        return UNSCHEDULED
    if pod.deleting:
        return NOT_READY
    if pod.waiting is not None and pod.waiting_message:
        return f"{pod.waiting}: {pod.waiting_message}"
    if not pod.running:
        return CONTAINER_STARTING
    return PROBE_FAILING if pod.probed else NOT_READY
