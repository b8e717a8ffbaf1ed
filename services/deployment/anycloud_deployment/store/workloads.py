"""Workloads of all kinds: Jobs of Deployments, and Jobs that bring their own image."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, cast

from anycloud_common import paging
from anycloud_common.paging import Listed, Page, Source
from sqlalchemy import BigInteger, Column, Connection, Table, literal, select

from anycloud_deployment.store import image_jobs, job_reads, tables
from anycloud_deployment.store.filters import Asked, Filter, conditions
from anycloud_deployment.store.image_jobs import StoredImageJob
from anycloud_deployment.store.job_reads import Submitted
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
    return paging.read(conn, sources(wanted.asked), page, _workload, wanted.values())


@lru_cache
def sources(asked: Asked) -> list[Source]:
    sources = [_jobs(table, asked) for table in (tables.jobs, tables.history)]
    if "deployment_id" not in asked:
        sources.append(_image_jobs(asked))
    return sources


def _jobs(table: Table, asked: Asked) -> Source:
    c = table.c
    searched = (c.id, c.deployment_id, c.session, c.session_label, c.agent, c.message)
    return Source(select(table).where(*conditions(table, asked, searched)), (c.created_at, c.queue_order, c.id))


def _image_jobs(asked: Asked) -> Source:
    table = tables.image_jobs
    c = table.c
    searched = (c.id, c.image, c.node_pool_name, c.session, c.session_label, c.agent, c.message)
    rows = select(*image_jobs.COLUMNS, _NO_QUEUE).where(c.visible, *conditions(table, asked, searched))
    return Source(rows, (c.created_at, _NO_QUEUE, c.id), hidden=None if asked else ~c.visible)


def _workload(row: AnyRow) -> Workload:
    return image_jobs.stored(row) if "run" in row._mapping else job_reads.submitted(row)
