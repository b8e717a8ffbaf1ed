"""What a request for a Job with an image of its own asks for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from anycloudapi.deployment.v1 import states_pb2
from anycloudapi.deployment.v1 import workloads_pb2 as pb

from anycloud_deployment.domain.model import Spec
from anycloud_deployment.domain.spec import check_spec
from anycloud_deployment.rpc import specs, submissions
from anycloud_deployment.rpc.refusals import rejected
from anycloud_deployment.store.job_reads import Submission

_LONGEST_S = 2**31 - 1
_VM_SETTINGS = (
    "gpu_type",
    "credential_name",
    "checkpoint_storage_credential_name",
    "input_storage_credential_name",
    "output_storage_credential_name",
)


@dataclass(frozen=True)
class Wanted:
    """An image Job as asked for. `time_limit_s` counts from the start of its container."""

    submission: Submission
    node_pool: str
    spec: Spec
    time_limit_s: int | None


def wanted(request: pb.SubmitWorkloadRequest) -> Wanted:
    """Raises Refusal for what isn't such a Job, and for settings that it can't have."""
    target = request.image_target
    _check_type(request)
    if not target.HasField("node_pool"):
        raise rejected(
            f"nodePool is missing: this API buys no VM for a single Job, so image {target.image[:80]} has nothing to "
            "run on; name a node pool, or create a Deployment of the image and submit the Job to it."
        )
    _refuse(_vm_settings(target), f"can't be given together with nodePool {target.node_pool[:80]}, which decides it")
    _refuse(_unsupported(request), "isn't supported for a Job on a node pool; leave it out")
    return Wanted(
        submission=submissions.submission(request, None),
        node_pool=target.node_pool,
        spec=check_spec(_spec(target), ours=False),
        time_limit_s=_time_limit(request),
    )


def _check_type(request: pb.SubmitWorkloadRequest) -> None:
    if request.HasField("workload_type") and request.workload_type != states_pb2.WORKLOAD_TYPE_JOB:
        kind = states_pb2.WorkloadType.Name(request.workload_type).removeprefix("WORKLOAD_TYPE_").lower()
        raise rejected(f"workloadType is {kind}, which this API doesn't run; it must be job.")


def _spec(target: pb.SubmitWorkloadRequest.ImageTarget) -> Spec:
    return Spec(
        image=target.image,
        command=tuple(target.command.values) if target.HasField("command") else None,
        env=dict(target.env),
        secrets=tuple(target.secrets),
        options=specs.docker_options(target.docker_options),
    )


def _time_limit(request: pb.SubmitWorkloadRequest) -> int | None:
    if not request.HasField("time_limit"):
        return None
    if not 1 <= request.time_limit <= _LONGEST_S:
        raise rejected(f"timeLimit is {request.time_limit}; it must be 1 to {_LONGEST_S} seconds.")
    return request.time_limit


def _vm_settings(target: pb.SubmitWorkloadRequest.ImageTarget) -> Iterable[str]:
    """Names of the settings, as on the wire, that choose a VM or a bucket for one Job."""
    for name in _VM_SETTINGS:
        if target.HasField(name):  # type: ignore[arg-type]  # all of them are optional fields
            yield target.DESCRIPTOR.fields_by_name[name].json_name
    for field, _ in target.cloud_config.ListFields():
        yield f"cloudConfig.{field.json_name}"


def _unsupported(request: pb.SubmitWorkloadRequest) -> Iterable[str]:
    given = {
        "gpusPerNode": request.HasField("gpus_per_node"),
        "launch": request.launch == pb.SubmitWorkloadRequest.LAUNCH_DISTRIBUTED,
        "mounts": bool(request.mounts),
        "nodes": request.nodes > 1,
        "resumable": request.resumable,
    }
    return (name for name, there in given.items() if there)


def _refuse(names: Iterable[str], why: str) -> None:
    for name in names:
        raise rejected(f"{name} {why}.")
