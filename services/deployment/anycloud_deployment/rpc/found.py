"""The workload that a request names."""

from __future__ import annotations

from sqlalchemy import Connection

from anycloud_deployment.domain.refusal import Refusal
from anycloud_deployment.store import job_reads
from anycloud_deployment.store.job_reads import Submitted


def workload(conn: Connection, workload_id: str) -> Submitted:
    """Raises Refusal for an id that nothing has."""
    stored = job_reads.find(conn, workload_id)
    if stored is None:
        raise missing(workload_id)
    return stored


def missing(workload_id: str) -> Refusal:
    return Refusal("WORKLOAD_MANAGEMENT_NOT_FOUND", f"Workload {workload_id[:80]} doesn't exist.")
