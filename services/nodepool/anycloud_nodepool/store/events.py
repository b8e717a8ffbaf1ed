"""The append-only log of what happened to node pools, and who asked for it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from anycloud_common.store import Tx
from sqlalchemy import Connection, delete, insert, select

from anycloud_nodepool.store.tables import EVENT

KEPT_MS = 30 * 24 * 3600 * 1000
KEPT_EACH = 1000


@dataclass(frozen=True)
class Actor:
    """Who caused something: a principal's id, or this service itself."""

    id: str
    request_id: str | None = None


SERVICE = Actor("nodepool")


@dataclass(frozen=True)
class Event:
    """`reason` is a named constant, `message` what else is to say."""

    reason: str
    message: str = ""


@dataclass(frozen=True)
class Logged:
    at: int
    reason: str
    actor: str
    message: str


def append(tx: Tx, pool_id: str, events: Iterable[Event], actor: Actor = SERVICE) -> None:
    """Logs events of one pool, and drops what is too old or too much of it."""
    rows = [
        {
            "pool_id": pool_id,
            "at": tx.now,
            "reason": event.reason,
            "actor": actor.id,
            "request_id": actor.request_id,
            "message": event.message,
        }
        for event in events
    ]
    if rows:
        tx.conn.execute(insert(EVENT), rows)
        _prune(tx, pool_id)


def listed(conn: Connection, pool_id: str) -> list[Logged]:
    """In order."""
    rows = conn.execute(select(EVENT).where(EVENT.c.pool_id == pool_id).order_by(EVENT.c.seq))
    return [Logged(row.at, row.reason, row.actor, row.message) for row in rows]


def _prune(tx: Tx, pool_id: str) -> None:
    mine = EVENT.c.pool_id == pool_id
    first_surplus = select(EVENT.c.seq).where(mine).order_by(EVENT.c.seq.desc()).offset(KEPT_EACH).limit(1)
    surplus = EVENT.c.seq <= first_surplus.scalar_subquery()
    tx.conn.execute(delete(EVENT).where(mine, surplus | (EVENT.c.at < tx.now - KEPT_MS)))
