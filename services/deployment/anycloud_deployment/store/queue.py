"""What is offered to workers next: one read of a Deployment's queue."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, func, or_, select

from anycloud_deployment.domain.jobs import Candidate
from anycloud_deployment.domain.queue import Queue
from anycloud_deployment.store.tables import deployments, jobs

_WAITING = (
    select(jobs.c.id, jobs.c.submission_revision, jobs.c.previous_execution_id)
    .where(
        jobs.c.deployment_id == bindparam("deployment_id"),
        jobs.c.waiting,
        jobs.c.not_before <= bindparam("now"),
        # The deadline is for the first claim: a retry has none.
        or_(
            jobs.c.claim_deadline_at.is_(None),
            jobs.c.claim_deadline_at > bindparam("now"),
            jobs.c.claimed_at.is_not(None),
        ),
    )
    .order_by(jobs.c.queue_order)
    .limit(bindparam("limit"))
)
_HELD = (
    select(jobs.c.pod_uid, func.count().label("held"))
    .where(jobs.c.deployment_id == bindparam("deployment_id"), jobs.c.pod_uid.is_not(None))
    .group_by(jobs.c.pod_uid)
)
_HOME = select(
    deployments.c.generation,
    deployments.c.slots,
    (deployments.c.visible & deployments.c.deletion_requested_at.is_(None)).label("accepting"),
).where(deployments.c.id == bindparam("deployment_id"))


def read(conn: Connection, deployment_id: str, limit: int, now: int) -> Queue:
    """The oldest `limit` Jobs that may be claimed now, and what each Pod holds."""
    home = conn.execute(_HOME, {"deployment_id": deployment_id}).first()
    if home is None or not home.accepting:
        return Queue(0, 0, {}, ())
    key = {"deployment_id": deployment_id}
    waiting = conn.execute(_WAITING, {**key, "now": now, "limit": limit})
    held = conn.execute(_HELD, key)
    return Queue(
        home.generation,
        home.slots,
        {row.pod_uid: row.held for row in held},
        tuple(Candidate(*row) for row in waiting),
    )
