"""Jobs as messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from anycloudapi.deployment.v1 import states_pb2
from anycloudapi.deployment.v1 import workloads_pb2 as pb
from google.protobuf.struct_pb2 import Struct

from anycloud_deployment.domain.jobs import TERMINAL, Job, Observation
from anycloud_deployment.rpc.summaries import JOB_STATES
from anycloud_deployment.store.events import Event
from anycloud_deployment.store.job_reads import Submitted

_OBSERVATIONS = {
    "pending": pb.SubmissionObservation.OUTCOME_PENDING,
    "claimed": pb.SubmissionObservation.OUTCOME_CLAIMED,
    "expired": pb.SubmissionObservation.OUTCOME_EXPIRED,
    "terminated": pb.SubmissionObservation.OUTCOME_TERMINATED,
    "changed": pb.SubmissionObservation.OUTCOME_CHANGED,
}


@dataclass(frozen=True)
class Home:
    """The pool of a Job's Deployment."""

    node_pool_id: str
    node_pool_name: str


def admission(job: Job) -> pb.Admission:
    return pb.Admission(id=job.id, submission_revision=job.submission_revision, claim_deadline_at=job.claim_deadline_at)


def workload(stored: Submitted, home: Home | None) -> pb.Workload:
    """Container configuration and placement stay unset: they are the Deployment's."""
    job = stored.job
    return pb.Workload(
        id=job.id,
        state=JOB_STATES[job.state],
        workload_type=states_pb2.WORKLOAD_TYPE_JOB,
        submission_revision=job.submission_revision,
        claimed=job.claimed_at is not None,
        claim_deadline_at=job.claim_deadline_at,
        deployment_id=job.deployment_id,
        node_pool_id=None if home is None else home.node_pool_id,
        node_pool_name=None if home is None else home.node_pool_name,
        user_id=stored.created_by,
        session=stored.submission.session,
        session_label=stored.submission.session_label,
        agent=stored.submission.agent,
        started_at=stored.created_at,
        completed_at=job.completed_at,
        cleaned_at=job.cleaned_at,
    )


def listed(stored: Submitted, home: Home | None, caller: str) -> pb.ListedWorkload:
    return pb.ListedWorkload(
        workload=workload(stored, home),
        is_owned_by_caller=stored.created_by == caller,
        latest_message=stored.job.message,
    )


def status(
    stored: Submitted, home: Home | None, log: Sequence[Event], total: int, ahead: int | None
) -> pb.WorkloadStatus:
    state = stored.job.state
    liveness = pb.WorkloadStatus.LIVENESS_NONE
    if state == "running":
        liveness = pb.WorkloadStatus.LIVENESS_UP
    elif state in TERMINAL:
        liveness = pb.WorkloadStatus.LIVENESS_DOWN
    return pb.WorkloadStatus(
        status=liveness,
        workload=workload(stored, home),
        events=[event(stored.job.id, one, JOB_STATES) for one in log],
        events_total=total,
        jobs_ahead=ahead,
        retry=_retry(stored.job),
    )


def observation(job: Job, outcome: Observation) -> pb.SubmissionObservation:
    return pb.SubmissionObservation(
        outcome=_OBSERVATIONS[outcome],
        claimed=outcome == "claimed",
        submission_revision=job.submission_revision,
        claim_deadline_at=job.claim_deadline_at,
    )


def _retry(job: Job) -> pb.WorkloadStatus.Retry | None:
    """Not before its pause is over; then as soon as a worker takes it."""
    if job.state != "retrying":
        return None
    return pb.WorkloadStatus.Retry(attempt=job.retries, earliest_at=job.not_before, latest_at=job.not_before)


def event(
    job_id: str, logged: Event, states: Mapping[str, states_pb2.WorkloadState.ValueType]
) -> pb.WorkloadStatus.Event:
    """`states` are those that Jobs of its kind have."""
    metadata = Struct()
    metadata.update({"reason": logged.reason, **logged.detail})
    state = states[logged.state] if logged.state is not None else states_pb2.WORKLOAD_STATE_QUEUED
    return pb.WorkloadStatus.Event(
        id=logged.id, workload_id=job_id, created_at=logged.at, state=state, metadata=metadata
    )
