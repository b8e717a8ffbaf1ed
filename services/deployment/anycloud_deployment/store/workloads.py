"""Workloads of all kinds: Jobs of Deployments, and Jobs that bring their own image."""

from __future__ import annotations

from typing import Any, cast

from anycloud_common import paging
from anycloud_common.paging import Listed, Page, Source
from sqlalchemy import BigInteger, Column, ColumnElement, Connection, literal, or_, select

from anycloud_deployment.store import image_jobs, job_reads, tables
from anycloud_deployment.store.image_jobs import StoredImageJob
from anycloud_deployment.store.job_reads import Filter, Submitted
from anycloud_deployment.store.rows import AnyRow

Workload = Submitted | StoredImageJob

# Image Jobs wait in no queue; the column is there for the order that all kinds share.
_NO_QUEUE = cast(Column[Any], literal(0, BigInteger).label("queue_order"))


def find(conn: Connection, workload_id: str) -> Workload | None:
    """Any that is visible, over or not."""
    found = job_reads.find(conn, workload_id)
    if found is not None:
        return found
    image_job = image_jobs.find(conn, workload_id)
    return image_job if image_job is not None and image_job.job.visible else None


def listed(conn: Connection, wanted: Filter, page: Page) -> Listed[Workload]:
    """Newest first."""
    sources = job_reads.sources(wanted)
    if wanted.deployment_id is None:
        sources.append(_image_jobs(wanted))
    return paging.read(conn, sources, page, _workload)


def _image_jobs(wanted: Filter) -> Source:
    table = tables.image_jobs
    c = table.c
    equal = {"created_by": wanted.created_by, "session": wanted.session_exact, "agent": wanted.agent}
    conditions: list[ColumnElement[bool]] = [c.visible]
    conditions += [c[name] == value for name, value in equal.items() if value is not None]
    if wanted.since_ms is not None:
        conditions.append(c.created_at >= wanted.since_ms)
    if wanted.session is not None:
        conditions.append(or_(c.session == wanted.session, c.session_label == wanted.session))
    if wanted.states is not None:
        conditions.append(c.state.in_(wanted.states))
    if wanted.text is not None:
        columns = (c.id, c.image, c.node_pool_name, c.session, c.session_label, c.agent, c.message)
        conditions.append(or_(*(column.icontains(wanted.text, autoescape=True) for column in columns)))
    return Source(select(table, _NO_QUEUE).where(*conditions), (c.created_at, _NO_QUEUE, c.id))


def _workload(row: AnyRow) -> Workload:
    return image_jobs.stored(row) if "run" in row._mapping else job_reads.submitted(row)
