"""Rows as domain objects, and back."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, cast

from sqlalchemy import Row

from anycloud_deployment.domain.jobs import Execution, Job, Reason, Worker
from anycloud_deployment.domain.model import (
    Block,
    Deployment,
    DockerOptions,
    Natives,
    Probe,
    Resources,
    Spec,
)

AnyRow = Row[Any]


def deployment(row: AnyRow) -> Deployment:
    return Deployment(
        id=row.id,
        name=row.name,
        node_pool_id=row.node_pool_id,
        node_pool_name=row.node_pool_name,
        created_by=row.created_by,
        created_at=row.created_at,
        updated_at=row.updated_at,
        generation=row.generation,
        replicas=row.replicas,
        slots=row.slots,
        applied=row.applied,
        applied_template=row.applied_template,
        rolled_out=row.rolled_out,
        natives=Natives(row.namespace, row.namespace_uid, row.service_account_uid, row.secret_uid, row.deployment_uid),
        block=None if row.block_reason is None else Block(row.block_reason, row.block_fatal),
        visible=row.visible,
        jobs_submitted=row.jobs_submitted,
        deletion_requested_at=row.deletion_requested_at,
        deleted_at=row.deleted_at,
    )


def settings(spec: Spec) -> str:
    """All of a spec but its environment, as JSON."""
    return json.dumps({key: value for key, value in dataclasses.asdict(spec).items() if key != "env"})


def spec(settings: str, env: dict[str, str]) -> Spec:
    read = json.loads(settings)
    options = read.pop("options")
    probe = read.pop("probe")
    return Spec(
        image=read["image"],
        command=_words(read["command"]),
        env=env,
        secrets=tuple(read["secrets"]),
        options=DockerOptions(**{**options, "binds": _words(options["binds"])}),
        probe=None if probe is None else Probe(**{**probe, "command": tuple(probe["command"])}),
        replicas=read["replicas"],
        slots=read["slots"],
    )


def resources(text: str) -> Resources:
    return Resources(**json.loads(text))


def job(row: AnyRow) -> Job:
    return Job(
        id=row.id,
        deployment_id=row.deployment_id,
        submission_revision=row.submission_revision,
        state=row.state,
        claim_deadline_at=row.claim_deadline_at,
        claimed_at=row.claimed_at,
        not_before=row.not_before,
        retries=row.retries,
        previous_execution_id=row.previous_execution_id,
        execution=_execution(row),
        cancel_requested_at=row.cancel_requested_at,
        completed_at=row.completed_at,
        cleaned_at=row.cleaned_at,
        ended_by=None if row.ended_by is None else Reason(row.ended_by),
        message=row.message,
    )


def job_values(job: Job) -> dict[str, Any]:
    """The columns that a transition may change."""
    return {
        "submission_revision": job.submission_revision,
        "state": job.state,
        "waiting": job.waiting,
        "not_before": job.not_before,
        "retries": job.retries,
        "claim_deadline_at": job.claim_deadline_at,
        "claimed_at": job.claimed_at,
        "cancel_requested_at": job.cancel_requested_at,
        "previous_execution_id": job.previous_execution_id,
        "completed_at": job.completed_at,
        "cleaned_at": job.cleaned_at,
        "ended_by": job.ended_by,
        "message": job.message,
        **_execution_values(job.execution),
    }


def _execution(row: AnyRow) -> Execution | None:
    if row.execution_id is None:
        return None
    worker = Worker(
        pod_uid=row.pod_uid,
        pod_name=row.pod_name,
        generation=row.generation,
        node=row.node,
        node_uid=row.node_uid,
        attempt=row.attempt,
        restarts=row.restarts,
    )
    return Execution(row.execution_id, worker, row.execution_claimed_at, row.outcome)


def _execution_values(execution: Execution | None) -> dict[str, Any]:
    worker = execution.worker if execution is not None else None
    return {
        "execution_id": execution.id if execution is not None else None,
        "execution_claimed_at": execution.claimed_at if execution is not None else None,
        "outcome": execution.outcome if execution is not None else None,
        "pod_uid": worker.pod_uid if worker is not None else None,
        "pod_name": worker.pod_name if worker is not None else None,
        "generation": worker.generation if worker is not None else None,
        "node": worker.node if worker is not None else None,
        "node_uid": worker.node_uid if worker is not None else None,
        "attempt": worker.attempt if worker is not None else None,
        "restarts": worker.restarts if worker is not None else None,
    }


def _words(value: Any) -> tuple[str, ...] | None:
    return None if value is None else tuple(cast(list[str], value))
