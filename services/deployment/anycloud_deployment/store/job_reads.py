"""Reading Jobs, both those that aren't cleaned up yet and those in the history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, func, select

from anycloud_deployment.domain.jobs import Job
from anycloud_deployment.store import rows
from anycloud_deployment.store.tables import history, jobs

_CHUNK = 400  # ids in one statement

_JOB = select(jobs).where(jobs.c.id == bindparam("id"))
_PAST_JOB = select(history).where(history.c.id == bindparam("id"))
_JOBS = select(jobs).where(jobs.c.id.in_(bindparam("ids", expanding=True)))
_PAST_JOBS = select(history).where(history.c.id.in_(bindparam("ids", expanding=True)))


@dataclass(frozen=True)
class Submission:
    """A Job as its submitter asked for it."""

    id: str
    timeout_s: float | None = None
    session: str | None = None
    session_label: str | None = None
    agent: str | None = None


@dataclass(frozen=True)
class Submitted:
    """A Job with what was asked for."""

    job: Job
    submission: Submission
    created_by: str
    created_at: int
    queue_order: int


def find(conn: Connection, job_id: str) -> Submitted | None:
    """Any Job, over or not."""
    row = conn.execute(_JOB, {"id": job_id}).first() or conn.execute(_PAST_JOB, {"id": job_id}).first()
    return None if row is None else submitted(row)


def find_open(conn: Connection, job_id: str) -> Job | None:
    """A Job that isn't over or not cleaned up yet."""
    row = conn.execute(_JOB, {"id": job_id}).first()
    return None if row is None else rows.job(row)


def holding(conn: Connection, deployment_id: str, but_generation: int | None = None) -> list[Job]:
    """Jobs that hold a slot, oldest claim first; without those on one revision."""
    statement = select(jobs).where(jobs.c.deployment_id == deployment_id, jobs.c.execution_id.is_not(None))
    if but_generation is not None:
        statement = statement.where(jobs.c.generation != but_generation)
    return [rows.job(row) for row in conn.execute(statement.order_by(jobs.c.execution_claimed_at, jobs.c.id))]


def ahead_of(conn: Connection, stored: Submitted) -> int | None:
    """How many Jobs of the same queue were there before; None unless the Job is queued."""
    if stored.job.state != "queued":
        return None
    earlier = select(func.count()).where(
        jobs.c.deployment_id == stored.job.deployment_id, jobs.c.waiting, jobs.c.queue_order < stored.queue_order
    )
    return conn.execute(earlier).scalar_one()


def with_ids(conn: Connection, job_ids: Sequence[str]) -> dict[str, Submitted]:
    """Jobs that have one of these ids."""
    found: dict[str, Submitted] = {}
    for start in range(0, len(job_ids), _CHUNK):
        chunk = {"ids": list(job_ids[start : start + _CHUNK])}
        for statement in (_JOBS, _PAST_JOBS):
            found |= {row.id: submitted(row) for row in conn.execute(statement, chunk)}
    return found


def submitted(row: rows.AnyRow) -> Submitted:
    timeout_s = None if row.timeout_s is None else float(row.timeout_s)
    submission = Submission(row.id, timeout_s, row.session, row.session_label, row.agent)
    return Submitted(rows.job(row), submission, row.created_by, row.created_at, row.queue_order)
