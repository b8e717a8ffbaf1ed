"""An append-only log of what happened to a service's objects, and who asked for it: 30 days or 1,000 an object."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from sqlalchemy import BigInteger, Column, Connection, Index, Integer, MetaData, Table, Text, delete, insert, select

from anycloud_common.store import Tx

KEPT_MS: Final = 30 * 24 * 3600 * 1000
KEPT_EACH: Final = 1000


@dataclass(frozen=True)
class Actor:
    """Who caused something: a principal's id, or a service itself."""

    id: str
    request_id: str | None = None


@dataclass(frozen=True)
class Event:
    """`reason` is a named constant, `message` what else is to say."""

    reason: str
    message: str = ""


@dataclass(frozen=True)
class Logged:
    """An event as it was stored. `at` is epoch ms, `actor` an Actor's id."""

    at: int
    reason: str
    actor: str
    request_id: str | None
    message: str


def event_table(service: str, metadata: MetaData) -> Table:
    """`<service>_event`."""
    name = f"{service}_event"
    return Table(
        name,
        metadata,
        Column("seq", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
        Column("object_id", Text, nullable=False),
        Column("at", BigInteger, nullable=False),
        Column("reason", Text, nullable=False),
        Column("actor", Text, nullable=False),
        Column("request_id", Text),
        Column("message", Text, nullable=False),
        Index(f"{name}_object_id", "object_id", "seq"),
    )


class EventLog:
    """Reads and writes one service's event table."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def append(self, tx: Tx, object_id: str, events: Iterable[Event], actor: Actor) -> None:
        """Logs events of one object, and drops what is too old or too much of it."""
        rows = [
            {
                "object_id": object_id,
                "at": tx.now,
                "reason": event.reason,
                "actor": actor.id,
                "request_id": actor.request_id,
                "message": event.message,
            }
            for event in events
        ]
        if rows:
            tx.conn.execute(insert(self._table), rows)
            self._prune(tx, object_id)

    def of(self, conn: Connection, object_id: str) -> list[Logged]:
        """All of one object, oldest first."""
        columns = self._table.c
        rows = conn.execute(select(self._table).where(columns.object_id == object_id).order_by(columns.seq))
        return [Logged(row.at, row.reason, row.actor, row.request_id, row.message) for row in rows]

    def _prune(self, tx: Tx, object_id: str) -> None:
        columns = self._table.c
        mine = columns.object_id == object_id
        first_surplus = select(columns.seq).where(mine).order_by(columns.seq.desc()).offset(KEPT_EACH).limit(1)
        surplus = columns.seq <= first_surplus.scalar_subquery()
        tx.conn.execute(delete(self._table).where(mine, surplus | (columns.at < tx.now - KEPT_MS)))
