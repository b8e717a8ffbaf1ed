"""Deployments as messages."""

from __future__ import annotations

from collections.abc import Sequence

from anycloudapi.common.v1 import types_pb2
from anycloudapi.deployment.v1 import deployments_pb2 as pb
from anycloudapi.deployment.v1 import states_pb2

from anycloud_deployment.domain.jobs import Job
from anycloud_deployment.domain.model import Deployment, JobCounts, PodFact, Probe, Revision
from anycloud_deployment.domain.observe import Status, Upgrade

_STATES = {
    "starting": pb.Deployment.Status.STATE_STARTING,
    "running": pb.Deployment.Status.STATE_RUNNING,
    "failed": pb.Deployment.Status.STATE_FAILED,
    "terminated": pb.Deployment.Status.STATE_TERMINATED,
    "unknown": pb.Deployment.Status.STATE_UNKNOWN,
}
_UPGRADE_STATES = {
    "starting": pb.Deployment.Status.Upgrade.STATE_STARTING,
    "running": pb.Deployment.Status.Upgrade.STATE_RUNNING,
    "failed": pb.Deployment.Status.Upgrade.STATE_FAILED,
}
JOB_STATES = {
    "queued": states_pb2.WORKLOAD_STATE_QUEUED,
    "retrying": states_pb2.WORKLOAD_STATE_RETRYING,
    "running": states_pb2.WORKLOAD_STATE_RUNNING,
    "completed": states_pb2.WORKLOAD_STATE_COMPLETED,
    "errored": states_pb2.WORKLOAD_STATE_ERRORED,
    "invalid": states_pb2.WORKLOAD_STATE_INVALID,
    "terminated": states_pb2.WORKLOAD_STATE_TERMINATED,
}
_SHOWN = 10


def summary(deployment: Deployment, revision: Revision, counts: JobCounts) -> pb.Deployment:
    """Stored facts alone. Of the environment only the names, and of Secrets no more."""
    spec = revision.spec
    return pb.Deployment(
        id=deployment.id,
        name=deployment.name,
        image=spec.image,
        node_pool_id=deployment.node_pool_id,
        target=pb.Deployment.Target(kind=pb.Deployment.Target.KIND_NODE_POOL, node_pool_id=deployment.node_pool_id),
        command=None if spec.command is None else types_pb2.StringList(values=spec.command),
        env_keys=sorted(spec.env),
        secret_names=spec.secrets,
        readiness_probe=None if spec.probe is None else _probe(spec.probe),
        replicas=spec.replicas,
        max_concurrent_jobs_per_replica=spec.slots,
        gpu_count=revision.resources.gpus,
        generation=deployment.generation,
        jobs=pb.Deployment.Jobs(
            queued=counts.queued,
            running=counts.running,
            retrying=counts.retrying,
            terminal=counts.terminal,
            unreleased=counts.unreleased,
        ),
        created_at=deployment.created_at,
        updated_at=deployment.updated_at,
        deleted_at=deployment.deleted_at,
        deletion_requested_at=deployment.deletion_requested_at,
    )


def observed(message: pb.Deployment, deployment: Deployment, status: Status, blocking: Sequence[Job]) -> pb.Deployment:
    """The summary with what was seen of its Pod."""
    message.status.CopyFrom(_status(deployment, status, blocking))
    if status.observed:
        message.workload.CopyFrom(_workload(status, status.pod))
    return message


def _status(deployment: Deployment, status: Status, blocking: Sequence[Job]) -> pb.Deployment.Status:
    kinds = pb.Deployment.Status
    pod = status.pod
    return kinds(
        state=_STATES[status.state],
        releasing=status.releasing,
        ready=status.ready,
        reason=status.reason,
        observation=kinds.OBSERVATION_OBSERVED if status.observed else kinds.OBSERVATION_UNAVAILABLE,
        observation_error=status.error,
        observed_at=status.at,
        requested_generation=deployment.generation,
        applied_generation=deployment.applied,
        pod_generation=None if pod is None else pod.generation,
        pod_name=None if pod is None else pod.name,
        pod_uid=None if pod is None else pod.uid,
        container_id=None if pod is None else pod.container_id,
        container_ready=None if pod is None else pod.ready,
        application_ready=status.application_ready,
        probe_configured=None if pod is None else pod.probed,
        ready_replicas=status.ready_replicas,
        blocking_jobs=kinds.BlockingJobs(total=len(blocking), jobs=[_job(job) for job in blocking[:_SHOWN]]),
        upgrade=None if status.upgrade is None else _upgrade(status.upgrade),
    )


def _workload(status: Status, pod: PodFact | None) -> pb.Deployment.Workload:
    if pod is None:
        return pb.Deployment.Workload(container_ready=False, pending_reason=status.pending_reason)
    return pb.Deployment.Workload(
        container_id=pod.container_id,
        container_ready=pod.ready,
        observed_generation=pod.generation,
        pending_reason=status.pending_reason,
        pod_name=pod.name,
        pod_uid=pod.uid,
    )


def _upgrade(upgrade: Upgrade) -> pb.Deployment.Status.Upgrade:
    return pb.Deployment.Status.Upgrade(number=upgrade.number, state=_UPGRADE_STATES[upgrade.state])


def _job(job: Job) -> pb.Deployment.Status.Job:
    execution = job.execution
    return pb.Deployment.Status.Job(
        id=job.id,
        state=JOB_STATES[job.state],
        execution_id=None if execution is None else execution.id,
        generation=None if execution is None else execution.worker.generation,
    )


def _probe(probe: Probe) -> pb.ReadinessProbe:
    return pb.ReadinessProbe(
        exec=pb.ReadinessProbe.Exec(command=probe.command),
        initial_delay_seconds=probe.initial_delay_seconds,
        period_seconds=probe.period_seconds,
        timeout_seconds=probe.timeout_seconds,
        success_threshold=probe.success_threshold,
        failure_threshold=probe.failure_threshold,
    )
