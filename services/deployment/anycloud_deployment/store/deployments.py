"""Stored Deployments and their names."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from anycloud_common import paging
from anycloud_common.paging import WHOLE, Listed, Page, Source
from anycloud_common.store import Tx
from sqlalchemy import Connection, bindparam, case, delete, func, insert, select, update

from anycloud_deployment.domain.jobs import TERMINAL
from anycloud_deployment.domain.model import Deployment, JobCounts
from anycloud_deployment.store import rows
from anycloud_deployment.store.tables import deployments, jobs, references, revisions

KIND = "deployment"  # in holds, events and the change feed

_BY_ID = select(deployments).where(deployments.c.id == bindparam("ref"), deployments.c.visible)
_BY_NAME = select(deployments).where(
    deployments.c.name_key == bindparam("ref"), deployments.c.deleted_at.is_(None), deployments.c.visible
)


def _sum(condition: Any) -> Any:
    return func.sum(case((condition, 1), else_=0))


COUNTS = (
    select(
        jobs.c.deployment_id,
        *(_sum(jobs.c.state == state).label(state) for state in ("queued", "running", "retrying")),
        _sum(jobs.c.state.not_in(TERMINAL)).label("open"),
        _sum(jobs.c.execution_id.is_not(None)).label("unreleased"),
    )
    .where(jobs.c.deployment_id.in_(bindparam("ids", expanding=True)))
    .group_by(jobs.c.deployment_id)
)
_ANY = select(deployments).where(deployments.c.id == bindparam("ref"))


_SHOWN = select(deployments).where(deployments.c.visible)
_ORDER = (deployments.c.created_at, deployments.c.id)
# The sources of the lists.
ALL = Source(_SHOWN, _ORDER, hidden=~deployments.c.visible)
ON_POOL = Source(_SHOWN.where(deployments.c.node_pool_id == bindparam("node_pool_id")), _ORDER)


def find(conn: Connection, reference: str) -> Deployment | None:
    """By id, deleted ones too, or by the name of one that isn't deleted."""
    row = conn.execute(_BY_ID, {"ref": reference}).first() or conn.execute(_BY_NAME, {"ref": reference.lower()}).first()
    return None if row is None else rows.deployment(row)


def get(conn: Connection, deployment_id: str) -> Deployment | None:
    """By id, whether visible or not."""
    row = conn.execute(_ANY, {"ref": deployment_id}).first()
    return None if row is None else rows.deployment(row)


def listed(conn: Connection, node_pool_id: str | None = None, page: Page = WHOLE) -> Listed[Deployment]:
    """The visible ones, deleted ones too, newest first."""
    if node_pool_id is None:
        return paging.read(conn, [ALL], page, rows.deployment)
    return paging.read(conn, [ON_POOL], page, rows.deployment, {"node_pool_id": node_pool_id})


def undeleted(conn: Connection, node_pool_ids: Collection[str] | None = None) -> list[str]:
    """Ids of all that aren't deleted, on these pools or on any."""
    statement = select(deployments.c.id).where(deployments.c.deleted_at.is_(None))
    if node_pool_ids is not None:
        statement = statement.where(deployments.c.node_pool_id.in_(node_pool_ids))
    return list(conn.execute(statement.order_by(deployments.c.id)).scalars())


def knows_pool(conn: Connection, node_pool_id: str) -> bool:
    """Whether any Deployment, deleted or not, is or was on that pool."""
    statement = select(deployments.c.id).where(deployments.c.node_pool_id == node_pool_id, deployments.c.visible)
    return conn.execute(statement.limit(1)).first() is not None


def holder_of(conn: Connection, name: str) -> str | None:
    """Id of the Deployment that a new one of this name would be taken for, or None."""
    by_name = select(deployments.c.id).where(deployments.c.name_key == name.lower(), deployments.c.deleted_at.is_(None))
    by_id = select(deployments.c.id).where(deployments.c.id == name.lower())
    return conn.execute(by_name).scalar() or conn.execute(by_id).scalar()


def add(tx: Tx, deployment: Deployment) -> None:
    """A new one, without native objects."""
    tx.conn.execute(
        insert(deployments).values(
            id=deployment.id,
            name=deployment.name,
            name_key=deployment.name.lower(),
            node_pool_id=deployment.node_pool_id,
            node_pool_name=deployment.node_pool_name,
            created_by=deployment.created_by,
            created_at=deployment.created_at,
            updated_at=deployment.updated_at,
            visible=deployment.visible,
            generation=deployment.generation,
            replicas=deployment.replicas,
            slots=deployment.slots,
            block_fatal=False,
            jobs_submitted=0,
        )
    )


def change(tx: Tx, deployment_id: str, **values: Any) -> None:
    """Sets columns, and tells the change feed."""
    tx.conn.execute(update(deployments).where(deployments.c.id == deployment_id).values(**values))
    tx.change(KIND, deployment_id, int(values.get("generation", 0)))


def forget(tx: Tx, deployment_id: str) -> None:
    """Removes one that never became visible; no other."""
    gone = tx.conn.execute(
        delete(deployments).where(deployments.c.id == deployment_id, deployments.c.visible.is_(False))
    )
    if gone.rowcount:
        tx.conn.execute(delete(revisions).where(revisions.c.deployment_id == deployment_id))
        tx.conn.execute(delete(references).where(references.c.deployment_id == deployment_id))


def job_counts(conn: Connection, submitted: dict[str, int]) -> dict[str, JobCounts]:
    """Of each of these Deployments, which are given with how many Jobs were ever submitted to them."""
    found = {row.deployment_id: row for row in conn.execute(COUNTS, {"ids": list(submitted)})}
    counts = {}
    for deployment_id, total in submitted.items():
        row = found.get(deployment_id)
        if row is None:
            counts[deployment_id] = JobCounts(terminal=total)
        else:
            counts[deployment_id] = JobCounts(row.queued, row.running, row.retrying, total - row.open, row.unreleased)
    return counts
