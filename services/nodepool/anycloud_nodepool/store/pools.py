"""Rows of node pools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from anycloud_common import paging
from anycloud_common.paging import WHOLE, Listed, Page, Source
from anycloud_common.store import Tx
from sqlalchemy import ColumnElement, Connection, Row, bindparam, delete, insert, select, update

from anycloud_nodepool.domain.model import Counts, Pool, State
from anycloud_nodepool.store.tables import POOL

KIND = "node-pool"
_PLAIN = tuple(field.name for field in fields(Pool) if field.name not in ("state", "counts"))

_LISTED = select(POOL).where(POOL.c.visible, POOL.c.deleted_at.is_(None))
_ORDER = (POOL.c.created_at, POOL.c.id)
# The sources of the lists.
ALL = Source(_LISTED, _ORDER)
OF_CLUSTER = Source(_LISTED.where(POOL.c.cluster_id == bindparam("cluster_id")), _ORDER)


def insert_new(tx: Tx, pool: Pool) -> None:
    tx.conn.execute(insert(POOL).values(name_key=pool.name.lower(), **columns(pool)))


def columns(pool: Pool) -> dict[str, Any]:
    """What is stored of a pool."""
    counts = pool.counts
    return {
        **{name: getattr(pool, name) for name in _PLAIN},
        "state": pool.state.value,
        "ready_count": counts.ready,
        "starting_count": counts.starting,
        "draining_count": counts.draining,
    }


def changes(before: Pool, after: Pool) -> dict[str, Any]:
    """Columns in which two states of one pool differ."""
    old = columns(before)
    return {name: value for name, value in columns(after).items() if old[name] != value}


def get(conn: Connection, pool_id: str) -> Pool | None:
    """Of any visibility, deleted ones too."""
    return _one(conn, POOL.c.id == pool_id)


def find(conn: Connection, id_or_name: str) -> Pool | None:
    """The pool of that id, deleted or not; else the live one of that name."""
    by_id = _one(conn, POOL.c.id == id_or_name, POOL.c.visible)
    if by_id is not None:
        return by_id
    return _one(conn, POOL.c.name_key == id_or_name.lower(), POOL.c.visible, POOL.c.deleted_at.is_(None))


def listed(conn: Connection, cluster_id: str | None = None, page: Page = WHOLE) -> Listed[Pool]:
    """Those that aren't deleted, newest first; of one cluster, or of all."""
    if cluster_id is None:
        return paging.read(conn, [ALL], page, _pool)
    return paging.read(conn, [OF_CLUSTER], page, _pool, {"cluster_id": cluster_id})


def live_ids(conn: Connection) -> list[str]:
    """Of visible pools that aren't deleted."""
    return list(conn.execute(select(POOL.c.id).where(POOL.c.visible, POOL.c.deleted_at.is_(None))).scalars())


def ids_of(conn: Connection, column: str, values: Sequence[str] | None) -> list[str]:
    """Ids of live pools of these clusters (`cluster_id`) or credentials (`credential_id`); None: of any."""
    where: list[ColumnElement[bool]] = [POOL.c.visible, POOL.c.deleted_at.is_(None)]
    if values is not None:
        where.append(POOL.c[column].in_(values))
    return list(conn.execute(select(POOL.c.id).where(*where)).scalars())


def taken(conn: Connection, name: str) -> bool:
    """Whether a live pool has this name, whatever the case, or any pool has it as its id."""
    live = (POOL.c.name_key == name.lower()) & POOL.c.deleted_at.is_(None)
    return conn.execute(select(POOL.c.id).where(live | (POOL.c.id == name)).limit(1)).first() is not None


def write(tx: Tx, pool_id: str, values: Mapping[str, Any]) -> None:
    tx.conn.execute(update(POOL).where(POOL.c.id == pool_id).values(values))


def drop_invisible(tx: Tx, pool_id: str) -> None:
    """Removes the row of a pool that never became visible."""
    tx.conn.execute(delete(POOL).where(POOL.c.id == pool_id, POOL.c.visible.is_(False)))


def _one(conn: Connection, *where: ColumnElement[bool]) -> Pool | None:
    row = conn.execute(select(POOL).where(*where)).first()
    return None if row is None else _pool(row)


def _pool(row: Row[Any]) -> Pool:
    values = row._mapping
    counts = Counts(row.ready_count, row.starting_count, row.draining_count)
    return Pool(**{name: values[name] for name in _PLAIN}, state=State(row.state), counts=counts)
