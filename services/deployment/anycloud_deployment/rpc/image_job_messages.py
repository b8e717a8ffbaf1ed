"""Image Jobs as messages."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from anycloudapi.common.v1 import types_pb2
from anycloudapi.deployment.v1 import states_pb2
from anycloudapi.deployment.v1 import workloads_pb2 as pb

from anycloud_deployment.domain.model import DockerOptions, Resources
from anycloud_deployment.rpc.workload_messages import event
from anycloud_deployment.store.events import Event
from anycloud_deployment.store.image_jobs import StoredImageJob

STATES = {
    "queued": states_pb2.WORKLOAD_STATE_QUEUED,
    "downloading": states_pb2.WORKLOAD_STATE_DOWNLOADING,
    "starting": states_pb2.WORKLOAD_STATE_STARTING,
    "running": states_pb2.WORKLOAD_STATE_RUNNING,
    "finalizing": states_pb2.WORKLOAD_STATE_FINALIZING,
    "completed": states_pb2.WORKLOAD_STATE_COMPLETED,
    "errored": states_pb2.WORKLOAD_STATE_ERRORED,
    "failed": states_pb2.WORKLOAD_STATE_FAILED,
    "terminated": states_pb2.WORKLOAD_STATE_TERMINATED,
}


def workload(stored: StoredImageJob) -> pb.Workload:
    """Placement and cost stay unset: its VMs are the pool's. Of the environment nothing is told."""
    job, spec = stored.job, stored.spec
    return pb.Workload(
        id=job.id,
        state=STATES[job.state],
        workload_type=states_pb2.WORKLOAD_TYPE_JOB,
        submission_revision=job.submission_revision,
        claimed=job.running_since is not None,
        node_pool_id=job.node_pool_id,
        node_pool_name=job.node_pool_name,
        user_id=stored.created_by,
        session=stored.submission.session,
        session_label=stored.submission.session_label,
        agent=stored.submission.agent,
        started_at=stored.created_at,
        completed_at=job.completed_at,
        cleaned_at=job.cleaned_at,
        cleanup_error=job.block,
        image=spec.image,
        command=None if spec.command is None else types_pb2.StringList(values=spec.command),
        docker_command=shlex.join(spec.command or ()),
        docker_options=_options(spec.options, stored.resources),
        secret_names=types_pb2.StringList(values=spec.secrets) if spec.secrets else None,
    )


def listed(stored: StoredImageJob, caller: str) -> pb.ListedWorkload:
    return pb.ListedWorkload(
        workload=workload(stored),
        is_owned_by_caller=stored.created_by == caller,
        latest_message=stored.job.message,
    )


def status(stored: StoredImageJob, log: Sequence[Event], total: int) -> pb.WorkloadStatus:
    liveness = pb.WorkloadStatus.LIVENESS_NONE
    if stored.job.over:
        liveness = pb.WorkloadStatus.LIVENESS_DOWN
    elif stored.job.state == "running":
        liveness = pb.WorkloadStatus.LIVENESS_UP
    return pb.WorkloadStatus(
        status=liveness,
        workload=workload(stored),
        events=[event(stored.job.id, one, STATES) for one in log],
        events_total=total,
    )


def _options(options: DockerOptions, resources: Resources) -> types_pb2.DockerOptions:
    """As given, with the GPUs that were admitted."""
    return types_pb2.DockerOptions(
        binds=None if options.binds is None else types_pb2.StringList(values=options.binds),
        cpus=options.cpus,
        gpus=str(resources.gpus) if resources.gpus else None,
        memory=options.memory,
        privileged=options.privileged,
        runtime=options.runtime,
        shm_size=options.shm_size,
    )
