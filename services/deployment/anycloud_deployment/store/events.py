"""The append-only log of what happened to Deployments, Jobs and Secrets, and who asked for it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from anycloud_common.store import Tx
from sqlalchemy import Connection, delete, func, insert, select

from anycloud_deployment.store.tables import events, executions

KEPT_MS = 30 * 24 * 3600 * 1000
KEPT_EACH = 1000
_PRUNED_AT_ONCE = 500
_ADD = insert(events)


@dataclass(frozen=True)
class Actor:
    """Who caused something: a principal's id, a Pod's UID, or this service itself."""

    id: str
    request_id: str | None = None


SERVICE = Actor("deployment")


@dataclass(frozen=True)
class Event:
    id: int
    at: int
    actor: str
    state: str | None
    reason: str
    detail: Mapping[str, Any]


def append(
    tx: Tx, kind: str, object_id: str, reason: str, actor: Actor, *, state: str | None = None, **detail: Any
) -> None:
    """One event; details that are None are left out."""
    append_all(tx, [row(tx, kind, object_id, reason, actor, state=state, **detail)])


def append_all(tx: Tx, rows: Iterable[dict[str, Any]]) -> None:
    """Several at once, as `row` makes them."""
    tx.conn.execute(_ADD, list(rows))


def row(
    tx: Tx, kind: str, object_id: str, reason: str, actor: Actor, *, state: str | None = None, **detail: Any
) -> dict[str, Any]:
    told = {key: value for key, value in detail.items() if value is not None}
    return {
        "kind": kind,
        "object_id": object_id,
        "at": tx.now,
        "actor": actor.id,
        "request_id": actor.request_id,
        "state": state,
        "reason": reason,
        "detail": json.dumps(told) if told else None,
    }


def newest(conn: Connection, kind: str, object_id: str, limit: int) -> tuple[list[Event], int]:
    """The newest events of an object, newest first, and how many it has in all."""
    mine = (events.c.kind == kind, events.c.object_id == object_id)
    found = conn.execute(select(events).where(*mine).order_by(events.c.id.desc()).limit(limit))
    listed = [
        Event(row.id, row.at, row.actor, row.state, row.reason, json.loads(row.detail) if row.detail else {})
        for row in found
    ]
    return listed, conn.execute(select(func.count()).select_from(events).where(*mine)).scalar_one()


def prune(tx: Tx) -> bool:
    """Drops a bounded number of events and executions that are too old; True when there may be more."""
    old = select(events.c.id).where(events.c.at < tx.now - KEPT_MS).limit(_PRUNED_AT_ONCE)
    dropped = tx.conn.execute(delete(events).where(events.c.id.in_(old))).rowcount
    ended = select(executions.c.id).where(executions.c.ended_at < tx.now - KEPT_MS).limit(_PRUNED_AT_ONCE)
    return dropped + tx.conn.execute(delete(executions).where(executions.c.id.in_(ended))).rowcount > 0


def crowded(conn: Connection) -> list[tuple[str, str]]:
    """Kind and id of objects that have more events than are kept."""
    each = select(events.c.kind, events.c.object_id).group_by(events.c.kind, events.c.object_id)
    return [(row.kind, row.object_id) for row in conn.execute(each.having(func.count() > KEPT_EACH))]


def shorten(tx: Tx, kind: str, object_id: str) -> None:
    """Drops a bounded number of an object's surplus events."""
    mine = (events.c.kind == kind, events.c.object_id == object_id)
    oldest_kept = select(events.c.id).where(*mine).order_by(events.c.id.desc()).offset(KEPT_EACH - 1).limit(1)
    surplus = select(events.c.id).where(*mine, events.c.id < oldest_kept.scalar_subquery()).limit(_PRUNED_AT_ONCE)
    tx.conn.execute(delete(events).where(events.c.id.in_(surplus)))
