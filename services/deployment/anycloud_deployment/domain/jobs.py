"""The life of a Job, as transitions of one frozen value.

    queued ─claim→ running ─outcome→ completed | errored | invalid ─cleanup→ (released)
      ↑                │ └─ retryable, or its execution is lost ─→ retrying ─claim→ running
      └── resubmit ────┴─ terminated, also out of queued and retrying

A terminal state is written once. A Job holds a slot for as long as it has an execution: from the claim until the
worker's cleanup, or until the execution is known to be lost. Whatever an execution wants changed carries its id, so one
that was replaced changes nothing. Outcomes are exactly once; side effects of the worker are at least once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal, NamedTuple

from anycloud_deployment.domain.refusal import Refusal

State = Literal["queued", "retrying", "running", "completed", "errored", "invalid", "terminated"]
Outcome = Literal["completed", "errored", "invalid", "retryable"]
Ending = Literal["completed", "errored", "invalid", "retryable", "terminated", "lost"]
Observation = Literal["pending", "claimed", "expired", "terminated", "changed"]

TERMINAL: frozenset[State] = frozenset({"completed", "errored", "invalid", "terminated"})
WAITING: frozenset[State] = frozenset({"queued", "retrying"})

_FIRST_RETRY_MS = 1000
_LONGEST_RETRY_MS = 60_000
_NEVER = 2**53 - 1  # the largest moment that JSON numbers carry exactly


class Reason(StrEnum):
    """Why a Job changed, in its events."""

    SUBMITTED = "submitted"
    RESUBMITTED = "resubmitted"
    CLAIMED = "claimed"
    REPORTED = "outcome-reported"
    CLEANED_UP = "cleaned-up"
    TERMINATION_REQUESTED = "termination-requested"
    TERMINATED = "terminated"
    EXPIRED = "claim-deadline-expired"
    DEPLOYMENT_DELETED = "deployment-deleted"
    LOST = "execution-lost"


class Candidate(NamedTuple):
    """A Job offered to a worker. A claim has to repeat all three, so it can't take a later state of the same Job."""

    job_id: str
    submission_revision: int
    previous_execution_id: str | None


@dataclass(frozen=True)
class Worker:
    """The Pod that claims, as known at that moment."""

    pod_uid: str
    pod_name: str
    generation: int
    node: str
    node_uid: str
    attempt: str
    restarts: int


@dataclass(frozen=True)
class Execution:
    """One claim. `restarts` are the container's at the claim; `outcome` is set between report and cleanup."""

    id: str
    worker: Worker
    claimed_at: int
    outcome: Outcome | None = None


@dataclass(frozen=True)
class Job:
    """`not_before` holds back a retry. `claimed_at` is the first claim of this submission; retries keep it."""

    id: str
    deployment_id: str
    submission_revision: int
    state: State
    claim_deadline_at: int | None = None
    claimed_at: int | None = None
    not_before: int = 0
    retries: int = 0
    previous_execution_id: str | None = None
    execution: Execution | None = None
    cancel_requested_at: int | None = None
    completed_at: int | None = None
    cleaned_at: int | None = None
    ended_by: Reason | None = None
    message: str | None = None

    @property
    def waiting(self) -> bool:
        """In the queue, or held back from it only by `not_before`."""
        return self.state in WAITING and self.execution is None

    @property
    def released(self) -> bool:
        """Over, with nothing left to clean up."""
        return self.state in TERMINAL and self.execution is None

    @property
    def candidate(self) -> Candidate:
        return Candidate(self.id, self.submission_revision, self.previous_execution_id)

    def overdue(self, now: int) -> bool:
        """Waiting for its first claim although the time for that is over."""
        return self.waiting and self.claimed_at is None and (self.claim_deadline_at or _NEVER) <= now


@dataclass(frozen=True)
class Step:
    """One transition: the Job afterwards, why, and the execution that it ended, with how."""

    job: Job
    reason: Reason
    message: str | None = None
    ended: tuple[Execution, Ending] | None = None


def deadline(now: int, timeout_s: float | None) -> int | None:
    """When a submission of now expires. `timeout_s` isn't negative."""
    return None if timeout_s is None else min(now + round(timeout_s * 1000), _NEVER)


def replayed(job: Job, pod_uid: str, candidate: Candidate, execution_id: str) -> bool:
    """Whether a claim was committed before, word by word. Raises Refusal when its id was used for anything else."""
    execution = job.execution
    if execution is None or execution.id != execution_id:
        return False
    same = candidate == job.candidate and pod_uid == execution.worker.pod_uid
    if not same or execution.outcome is not None:
        raise used(execution_id)
    return True


def claim(
    job: Job, candidate: Candidate, worker: Worker, execution_id: str, *, accepting: bool, generation: int, now: int
) -> Step:
    """Gives a waiting Job to a worker. Free slots are the caller's to count. Raises Refusal."""
    if not accepting:
        raise stale("The Deployment is being deleted and gives out no more Jobs.")
    if worker.generation != generation:
        raise stale(f"The Pod is on revision {worker.generation}, and Jobs go to revision {generation} only.")
    if not job.waiting or candidate != job.candidate or job.not_before > now or job.overdue(now):
        raise stale(f"Job {job.id} isn't waiting any more as it was offered.")
    claimed = replace(
        job,
        state="running",
        execution=Execution(execution_id, worker, now),
        claimed_at=job.claimed_at or now,
        message=None,
    )
    return Step(claimed, Reason.CLAIMED)


def report(
    job: Job, execution_id: str, pod_uid: str, outcome: Outcome, message: str | None, *, accepting: bool, now: int
) -> Step | None:
    """Takes an execution's outcome; None when it was reported before. Raises Refusal."""
    execution = _own(job, execution_id, pod_uid)
    if execution.outcome is not None:
        if execution.outcome == outcome:
            return None
        raise worker_conflict(f"Execution {execution_id} has reported {execution.outcome} already.")
    told = replace(job, execution=replace(execution, outcome=outcome), message=message)
    if outcome != "retryable":
        return Step(_ended(told, outcome, Reason.REPORTED, now), Reason.REPORTED, message)
    return _again(told, Reason.REPORTED, message, accepting=accepting, now=now)


def clean_up(job: Job, execution_id: str, pod_uid: str, *, now: int) -> Step:
    """Takes the worker's word that nothing of an execution is left, and frees its slot. Raises Refusal."""
    execution = _own(job, execution_id, pod_uid)
    if execution.outcome is not None:
        return Step(_released(job, now), Reason.CLEANED_UP, job.message, ended=(execution, execution.outcome))
    if job.cancel_requested_at is None:
        raise worker_conflict(f"Execution {execution_id} still runs: report its outcome before cleaning up.")
    over = _released(_ended(job, "terminated", Reason.TERMINATED, now), now)
    return Step(over, Reason.TERMINATED, ended=(execution, "terminated"))


def terminate(job: Job, *, now: int, by: Reason = Reason.TERMINATED) -> Step | None:
    """Ends a Job that doesn't run, and asks a running one's worker to; None when there is nothing to do."""
    if job.state in TERMINAL:
        return None
    if job.state == "running":
        if job.cancel_requested_at is not None:
            return None
        return Step(replace(job, cancel_requested_at=now), Reason.TERMINATION_REQUESTED)
    over = _ended(job, "terminated", by, now)
    return Step(over if over.execution is not None else _released(over, now), by)


def expire(job: Job, *, now: int) -> Step | None:
    """Ends a Job that nobody claimed in time; None when that isn't so."""
    if not job.overdue(now):
        return None
    return Step(_released(_ended(job, "terminated", Reason.EXPIRED, now), now), Reason.EXPIRED)


def lose(job: Job, execution_id: str, cause: str, *, accepting: bool, now: int) -> Step | None:
    """An execution is known to be over without the worker's word; None when the Job has gone on already."""
    execution = job.execution
    if execution is None or execution.id != execution_id:
        return None
    if execution.outcome is not None:
        return Step(_released(job, now), Reason.LOST, cause, ended=(execution, execution.outcome))
    step = _again(job, Reason.LOST, cause, accepting=accepting, now=now)
    return replace(step, job=_released(step.job, now), ended=(execution, "lost"))


def resubmit(job: Job, timeout_s: float | None, *, now: int) -> Step:
    """Begins a new submission of a Job that is over and cleaned up. Raises Refusal."""
    if not job.released:
        state = "isn't cleaned up yet" if job.state in TERMINAL else f"is {job.state}"
        raise Refusal(
            "WORKLOAD_MANAGEMENT_CONFLICT",
            f"Job {job.id} {state}; it can be submitted again once it has ended and is cleaned up.",
        )
    fresh = Job(
        id=job.id,
        deployment_id=job.deployment_id,
        submission_revision=job.submission_revision + 1,
        state="queued",
        claim_deadline_at=deadline(now, timeout_s),
    )
    return Step(fresh, Reason.RESUBMITTED)


def observation(job: Job, submission_revision: int) -> Observation:
    """What became of one submission, as far as its first claim goes."""
    if job.submission_revision != submission_revision:
        return "changed"
    if job.claimed_at is not None:
        return "claimed"
    if job.state not in TERMINAL:
        return "pending"
    return "expired" if job.ended_by == Reason.EXPIRED else "terminated"


def stale(message: str) -> Refusal:
    """The worker looks for another Job."""
    return Refusal("WORKLOAD_CANDIDATE_STALE", message)


def used(execution_id: str) -> Refusal:
    """The worker drops this execution id."""
    return Refusal("WORKLOAD_EXECUTION_USED", f"Execution id {execution_id} was used before; choose a new one.")


def worker_conflict(message: str) -> Refusal:
    return Refusal("WORKLOAD_CONFLICT", message)


def replaced(job_id: str, execution_id: str) -> Refusal:
    return worker_conflict(f"Execution {execution_id} doesn't hold Job {job_id} any more.")


def forbidden(execution_id: str) -> Refusal:
    return Refusal("WORKLOAD_FORBIDDEN", f"Execution {execution_id} belongs to another Pod.")


def _own(job: Job, execution_id: str, pod_uid: str) -> Execution:
    if job.execution is None or job.execution.id != execution_id:
        raise replaced(job.id, execution_id)
    if job.execution.worker.pod_uid != pod_uid:
        raise forbidden(execution_id)
    return job.execution


def _again(job: Job, reason: Reason, message: str | None, *, accepting: bool, now: int) -> Step:
    """Back to the queue after a pause, unless somebody wants the Job or its Deployment to end."""
    if job.cancel_requested_at is not None:
        return Step(_ended(job, "terminated", Reason.TERMINATED, now), Reason.TERMINATED, message)
    if not accepting:
        return Step(_ended(job, "terminated", Reason.DEPLOYMENT_DELETED, now), Reason.DEPLOYMENT_DELETED, message)
    pause = min(_FIRST_RETRY_MS << min(job.retries, 16), _LONGEST_RETRY_MS)
    retrying = replace(job, state="retrying", retries=job.retries + 1, not_before=now + pause)
    return Step(retrying, reason, message)


def _ended(job: Job, state: State, by: Reason, now: int) -> Job:
    if job.state in TERMINAL:
        raise AssertionError(f"Job {job.id} is {job.state}, and a terminal state is written once")
    return replace(job, state=state, completed_at=now, ended_by=by)


def _released(job: Job, now: int) -> Job:
    last = job.execution.id if job.execution is not None else job.previous_execution_id
    cleaned_at = now if job.state in TERMINAL else None
    return replace(job, execution=None, previous_execution_id=last, cleaned_at=cleaned_at)
