"""The life of a Job that brings its own image, as transitions of one frozen value.

    queued ─placed─→ downloading ⇄ starting ─→ running ─→ completed (exit 0) | errored (another) | failed (none)
       └──────────────────┴───────────┴───────────┴─ terminate, time limit ─→ finalizing ─→ terminated | failed

A submission is one run: one batch Job, one Pod, started once and never again. A terminal state is written once. What a
run holds of its pool is given back when its objects are known to be gone; only then can it be submitted again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, Literal

from anycloud_deployment.domain.model import JobFact, JobPodFact, NodeFact
from anycloud_deployment.domain.refusal import Refusal

State = Literal[
    "queued", "downloading", "starting", "running", "finalizing", "completed", "errored", "failed", "terminated"
]

TERMINAL: frozenset[State] = frozenset({"completed", "errored", "failed", "terminated"})
# Until the container has run a state may go back and forth; then not any more.
_BEFORE_RUNNING: frozenset[State] = frozenset({"queued", "downloading", "starting"})
# The image isn't there; Kubernetes goes on trying.
_CANT_PULL: Final = frozenset({"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "RegistryUnavailable"})

NO_POD: Final = "Waiting for Kubernetes to make the Pod."
UNSCHEDULED: Final = "Waiting for Kubernetes to place the Pod on a Node."
CONTAINER_STARTING: Final = "Waiting for the container to start."
REMOVED: Final = "Its Kubernetes Job was removed by somebody else."
POD_MISSING: Final = "Its Pod is gone; Kubernetes hasn't said yet what that means."
POD_REMOVED: Final = "Its Pod is gone, and nobody knows how it ended."
STOPPING: Final = "The Job is being stopped."


class Reason(StrEnum):
    """Why an image Job changed, in its events."""

    SUBMITTED = "submitted"
    RESUBMITTED = "resubmitted"
    OBSERVED = "observed"
    TERMINATION_REQUESTED = "termination-requested"
    TIME_LIMIT = "time-limit-exceeded"
    ENDED = "ended"
    TERMINATED = "terminated"
    CLEANED_UP = "cleaned-up"


@dataclass(frozen=True)
class ImageJob:
    """An image Job as stored. `run` names the objects of this submission, and no other submission has had that name.

    job_uid, secret_uid: of its objects, once they are known to exist; the Job is never made again after that.
    running_since: when its container was first seen to run. stopping: why it is to end before its container does.
    message: what it waits for, or how it ended. block: why its objects can't be made or removed.
    """

    id: str
    run: str
    node_pool_id: str
    node_pool_name: str
    submission_revision: int
    state: State
    version: int = 0
    visible: bool = True
    time_limit_s: int | None = None
    namespace: str | None = None
    job_uid: str | None = None
    secret_uid: str | None = None
    running_since: int | None = None
    cancel_requested_at: int | None = None
    stopping: Reason | None = None
    completed_at: int | None = None
    cleaned_at: int | None = None
    exit_code: int | None = None
    message: str | None = None
    block: str | None = None

    @property
    def over(self) -> bool:
        return self.state in TERMINAL

    @property
    def ending(self) -> bool:
        """Whether its objects are to go."""
        return self.over or self.cancel_requested_at is not None

    @property
    def overdue_at(self) -> int | None:
        """When its time limit is over: it counts from the start of the container."""
        if self.time_limit_s is None or self.running_since is None or self.ending:
            return None
        return self.running_since + self.time_limit_s * 1000


@dataclass(frozen=True)
class Seen:
    """What Kubernetes' objects say of a run. `final`: its container will never run, or never again."""

    state: State
    message: str | None = None
    exit_code: int | None = None

    @property
    def final(self) -> bool:
        return self.state in TERMINAL


@dataclass(frozen=True)
class Step:
    """One transition: the Job afterwards, and why."""

    job: ImageJob
    reason: Reason


def newest(pods: Sequence[JobPodFact]) -> JobPodFact | None:
    """The Pod of a run: there is one, and where somebody made another, the one that says more."""
    return max(pods, key=lambda pod: (pod.ended, pod.running, not pod.deleting, pod.created_at, pod.name), default=None)


def judge(job: JobFact | None, pods: Sequence[JobPodFact], node: NodeFact | None) -> Seen:
    """What the objects of a run say. `job` is None once the batch Job is known to be gone; `node` is the Pod's."""
    pod = newest(pods)
    if pod is not None and pod.ended:
        return _ended(pod)
    if job is not None and job.over == "failed":
        return Seen("failed", _sentence(pod.failed if pod is not None and pod.failed else job.why or POD_REMOVED))
    if job is not None and job.over == "complete":
        return Seen("completed")
    if pod is None:
        return Seen("queued", NO_POD) if job is not None and not job.deleting else Seen("failed", REMOVED)
    return _alive(pod, node)


def _ended(pod: JobPodFact) -> Seen:
    """By the kubelet's word. A Pod that was evicted is over for another reason than its container's."""
    if pod.exit_code == 0:
        return Seen("completed", exit_code=0)
    if pod.failed is not None:
        return Seen("failed", _sentence(pod.failed), pod.exit_code)
    return Seen("errored", _sentence(pod.crashed or POD_REMOVED), pod.exit_code)


def _alive(pod: JobPodFact, node: NodeFact | None) -> Seen:
    if pod.node is None:
        return Seen(
            "queued", f"Kubernetes can't place the Pod: {pod.unschedulable}" if pod.unschedulable else UNSCHEDULED
        )
    if pod.failed is not None:
        return Seen("running" if pod.running else "starting", _sentence(pod.failed))
    if node is None or not node.ready:
        lost = f"Node {pod.node} isn't heard of; whether the container runs is unknown."
        return Seen("running" if pod.running else "starting", lost)
    if pod.running:
        return Seen("running", STOPPING if pod.deleting else None)
    if pod.waiting is not None and pod.waiting_message:
        state: State = "downloading" if pod.waiting in _CANT_PULL else "starting"
        return Seen(state, f"{pod.waiting}: {pod.waiting_message}")
    return Seen("downloading", f"{pod.waiting}.") if pod.waiting in _CANT_PULL else Seen("starting", CONTAINER_STARTING)


def observed(job: ImageJob, seen: Seen, *, now: int) -> Step | None:
    """Takes what was seen of a run; None when that is nothing new."""
    if job.over:
        return None
    if seen.final:
        return Step(_over(job, seen.state, _last_words(job, seen), now, seen.exit_code), Reason.ENDED)
    if job.cancel_requested_at is not None:
        return None
    since = job.running_since or (now if seen.state == "running" else None)
    if job.running_since is not None and seen.state in _BEFORE_RUNNING:
        after = replace(job, state="running", message=job.message or POD_MISSING)
    elif seen.state == job.state == "downloading" and job.message is not None:
        after = job  # the first cause stays while Kubernetes tries again and again to get the image
    else:
        after = replace(job, state=seen.state, message=seen.message, running_since=since)
    return None if after == job else Step(after, Reason.OBSERVED)


def waits(job: ImageJob, message: str) -> Step | None:
    """Its objects can't be made yet; None when that is nothing new."""
    after = replace(job, message=message)
    return None if after == job or job.ending else Step(after, Reason.OBSERVED)


def terminate(job: ImageJob, *, now: int) -> Step | None:
    """Asks for its end; None when it is over, or asked already."""
    return _stop(job, Reason.TERMINATED, now, Reason.TERMINATION_REQUESTED)


def overdue(job: ImageJob, *, now: int) -> Step | None:
    """Asks for its end when its time limit is over; None when that isn't so."""
    due = job.overdue_at
    return _stop(job, Reason.TIME_LIMIT, now, Reason.TIME_LIMIT) if due is not None and due <= now else None


def cleaned(job: ImageJob, *, now: int) -> Step:
    """Its objects are known to be gone; a Job that was asked to end has ended with that."""
    if job.over:
        return Step(replace(job, cleaned_at=now, block=None), Reason.CLEANED_UP)
    if job.stopping == Reason.TIME_LIMIT:
        state: State = "failed"
        message: str | None = f"It ran longer than its time limit of {job.time_limit_s} s."
    else:
        state, message = "terminated", None
    over = _over(job, state, message, now)
    return Step(replace(over, cleaned_at=now, block=None), job.stopping or Reason.TERMINATED)


def resubmit(job: ImageJob, run: str) -> Step:
    """Begins a new submission of a Job that is over and cleaned up, on the same pool. Raises Refusal."""
    check_resubmittable(job)
    fresh = ImageJob(
        id=job.id,
        run=run,
        node_pool_id=job.node_pool_id,
        node_pool_name=job.node_pool_name,
        submission_revision=job.submission_revision + 1,
        state="queued",
        version=job.version,
        time_limit_s=job.time_limit_s,
    )
    return Step(fresh, Reason.RESUBMITTED)


def check_resubmittable(job: ImageJob) -> None:
    """Raises Refusal."""
    if job.cleaned_at is None:
        state = "isn't cleaned up yet" if job.over else f"is {job.state}"
        raise Refusal(
            "WORKLOAD_MANAGEMENT_CONFLICT",
            f"Job {job.id} {state}; it can be submitted again once it has ended and is cleaned up.",
        )


def _stop(job: ImageJob, why: Reason, now: int, event: Reason) -> Step | None:
    if job.ending:
        return None
    return Step(replace(job, state="finalizing", cancel_requested_at=now, stopping=why, message=STOPPING), event)


def _over(job: ImageJob, state: State, message: str | None, now: int, exit_code: int | None = None) -> ImageJob:
    if job.over:
        raise AssertionError(f"Job {job.id} is {job.state}, and a terminal state is written once")
    return replace(job, state=state, message=message, completed_at=now, exit_code=exit_code)


def _last_words(job: ImageJob, seen: Seen) -> str | None:
    """Of a container that ran and whose end nobody saw, also what was said of it last, such as that its Node was
    silent."""
    if (
        seen.state != "failed"
        or seen.message is None
        or job.running_since is None
        or job.message in (None, seen.message)
    ):
        return seen.message
    return f"{seen.message.removesuffix('.')}. Before that: {job.message}"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
