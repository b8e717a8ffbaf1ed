"""The workload that a request names."""

from __future__ import annotations

from sqlalchemy import Connection

from anycloud_deployment.domain.refusal import Refusal
from anycloud_deployment.store import workloads
from anycloud_deployment.store.job_reads import Submitted
from anycloud_deployment.store.workloads import Workload


def workload(conn: Connection, workload_id: str) -> Workload:
    """Raises Refusal for an id that nothing has."""
    stored = workloads.find(conn, workload_id)
    if stored is None:
        raise missing(workload_id)
    return stored


def targeted(conn: Connection, workload_id: str) -> Submitted:
    """A Job that a Deployment's worker claims. Raises Refusal for any other."""
    stored = workload(conn, workload_id)
    if not isinstance(stored, Submitted):
        said = f"Job {workload_id} brings its own image: no worker claims it. Its status says whether it runs."
        raise Refusal("WORKLOAD_MANAGEMENT_CONFLICT", said)
    return stored


def missing(workload_id: str) -> Refusal:
    return Refusal("WORKLOAD_MANAGEMENT_NOT_FOUND", f"Workload {workload_id[:80]} doesn't exist.")
