"""Reading a service's change table."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import Connection, MetaData, Table, func, select

from anycloud_common.store import change_table

BATCH = 500  # changes in one message at most


class OutOfRange(Exception):
    """What follows the asked seq isn't known here any more, or not yet."""


@dataclass(frozen=True)
class Change:
    seq: int
    kind: str
    id: str
    version: int


@dataclass(frozen=True)
class Batch:
    """Changes in order. Everything up to `seq` is in it; `more`: there is more to read at once."""

    changes: list[Change]
    seq: int
    more: bool


class ChangeReader:
    """Reads `<service>_change` inside the caller's read transaction."""

    def __init__(self, service: str) -> None:
        self._table: Table = change_table(service, MetaData())

    def newest(self, conn: Connection) -> int:
        """The seq of the last change; 0 before the first."""
        return int(conn.execute(select(func.coalesce(func.max(self._table.c.seq), 0))).scalar_one())

    def after(self, conn: Connection, seq: int, kinds: Collection[str]) -> Batch:
        """Changes of these kinds after `seq`. Raises OutOfRange."""
        newest = self.newest(conn)
        oldest = conn.execute(select(func.min(self._table.c.seq))).scalar_one()
        if seq > newest or (oldest is not None and seq < oldest - 1):
            raise OutOfRange(f"changes {oldest} to {newest} are kept, and those after {seq} were asked for")
        table = self._table
        rows = conn.execute(
            select(table).where(table.c.seq > seq, table.c.kind.in_(kinds)).order_by(table.c.seq).limit(BATCH)
        )
        changes = [Change(row.seq, row.kind, row.id, row.version) for row in rows]
        more = len(changes) == BATCH
        return Batch(changes, changes[-1].seq if more else newest, more)
