"""What a request to run Jobs asks for."""

from __future__ import annotations

import math
import re
import secrets

from anycloudapi.deployment.v1 import states_pb2
from anycloudapi.deployment.v1 import workloads_pb2 as pb

from anycloud_deployment.domain.refusal import Refusal
from anycloud_deployment.rpc.refusals import REJECTED, rejected
from anycloud_deployment.store.job_reads import Submission

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_LONGEST_S = 9007199254740.99
_WORD_CHARACTERS = 256
_MOST_AT_ONCE = 1000


def targeted(request: pb.SubmitWorkloadRequest) -> Submission:
    """One Job for a Deployment. Raises Refusal for what isn't one, and for settings that such a Job can't have."""
    if request.WhichOneof("target") is None:
        raise rejected("deployment is missing; name the Deployment that runs the Job.")
    if request.HasField("workload_type") and request.workload_type != states_pb2.WORKLOAD_TYPE_JOB:
        raise rejected("workloadType must be job: a Deployment runs Jobs only.")
    _refuse_unsupported(request)
    target = request.deployment_target
    return submission(request, timeout(target.timeout, REJECTED) if target.HasField("timeout") else None)


def submission(request: pb.SubmitWorkloadRequest, timeout_s: float | None) -> Submission:
    """What Jobs of both kinds are known by. Raises Refusal."""
    return Submission(
        id=_job_id(request.id if request.HasField("id") else None),
        timeout_s=timeout_s,
        session=_word("session", request.session) if request.HasField("session") else None,
        session_label=_word("sessionLabel", request.session_label) if request.HasField("session_label") else None,
        agent=_word("agent", request.agent) if request.HasField("agent") else None,
    )


def batch(request: pb.SubmitJobsRequest) -> list[Submission]:
    """Many Jobs for one Deployment. Raises Refusal."""
    if not 1 <= len(request.jobs) <= _MOST_AT_ONCE:
        raise rejected(f"jobs has {len(request.jobs)} entries; it needs 1 to {_MOST_AT_ONCE}.")
    return [
        Submission(
            id=_job_id(job.id or None), timeout_s=timeout(job.timeout, REJECTED) if job.HasField("timeout") else None
        )
        for job in request.jobs
    ]


def timeout(seconds: float, code: str) -> float:
    """Seconds until the first claim at the latest. Raises Refusal under that code."""
    if not math.isfinite(seconds) or not 0 <= seconds <= _LONGEST_S:
        raise Refusal(code, f"timeout is {seconds:g}; it must be 0 to {_LONGEST_S} seconds.")
    return seconds


def _job_id(given: str | None) -> str:
    if given is None:
        return f"job-{secrets.token_hex(12)}"
    if not _ID.fullmatch(given):
        rule = "1 to 128 letters, digits, `.`, `_` and `-`, starting with a letter or digit"
        raise rejected(f"id {given[:80]!r} isn't allowed; {rule}.")
    return given


def _word(name: str, text: str) -> str:
    if len(text) > _WORD_CHARACTERS or "\0" in text:
        raise rejected(f"{name} is longer than {_WORD_CHARACTERS} characters, or has a zero byte.")
    return text


def _refuse_unsupported(request: pb.SubmitWorkloadRequest) -> None:
    given = {
        "gpusPerNode": request.HasField("gpus_per_node"),
        "launch": request.launch == pb.SubmitWorkloadRequest.LAUNCH_DISTRIBUTED,
        "mounts": bool(request.mounts),
        "nodes": request.nodes > 1,
        "resumable": request.resumable,
        "timeLimit": request.HasField("time_limit"),
    }
    for name, there in given.items():
        if there:
            raise rejected(f"{name} isn't supported for a Job on a Deployment; it runs in the Deployment's container.")
