"""How long the cluster could be read in all."""

from __future__ import annotations

from anycloud_common.store import Tx
from sqlalchemy import Connection, insert, select, update

from anycloud_nodepool.store.tables import SIGHT


def read(conn: Connection) -> int:
    """In ms."""
    return int(conn.execute(select(SIGHT.c.seen_ms)).scalar() or 0)


def write(tx: Tx, seen_ms: int) -> None:
    if tx.conn.execute(update(SIGHT).values(seen_ms=seen_ms)).rowcount == 0:
        tx.conn.execute(insert(SIGHT).values(id=1, seen_ms=seen_ms))
