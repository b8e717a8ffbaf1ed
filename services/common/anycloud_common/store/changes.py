"""The change feed's table: which objects of a service changed, in the order of the commits.

A row is written in the transaction of the change itself; as write transactions follow each other, also those of
several replicas, a lower seq never becomes visible after a higher one. `anycloud_common.feed` serves and reads it.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Integer,
    MetaData,
    Table,
    Text,
    delete,
    func,
    insert,
    select,
)

KEPT = 10_000  # the newest rows that are kept; a reader further behind lists again
_PRUNE_EVERY = 100


def change_table(service: str, metadata: MetaData) -> Table:
    """`<service>_change`: seq (never reused), kind, id, version (the object's own revision, 0 where it has none)."""
    name = f"{service}_change"
    if name in metadata.tables:
        return metadata.tables[name]
    return Table(
        name,
        metadata,
        Column("seq", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
        Column("kind", Text, nullable=False),
        Column("id", Text, nullable=False),
        Column("version", BigInteger, nullable=False),
        sqlite_autoincrement=True,
    )


class ChangeLog:
    """Appends to one service's change table and keeps it short. Used by the writer thread alone."""

    def __init__(self, service: str) -> None:
        self._table = change_table(service, MetaData())
        self._insert = insert(self._table)
        self._until_prune = _PRUNE_EVERY

    def append(self, conn: Connection, kind: str, object_id: str, version: int) -> None:
        conn.execute(self._insert, {"kind": kind, "id": object_id, "version": version})
        self._until_prune -= 1
        if self._until_prune <= 0:
            self._until_prune = _PRUNE_EVERY
            self._prune(conn)

    def _prune(self, conn: Connection) -> None:
        newest = conn.execute(select(func.max(self._table.c.seq))).scalar_one()
        conn.execute(delete(self._table).where(self._table.c.seq <= newest - KEPT))
