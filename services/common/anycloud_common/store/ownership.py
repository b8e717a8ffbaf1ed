"""Who runs on a database now: one row for each living owner, told apart by a number that only rises."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Connection, MetaData, Table, delete, func, insert, select, update

OWNER_LEASE_MS = 30_000  # with replicas: an owner whose row wasn't renewed for so long is gone
RENEW_EVERY = 10.0  # seconds


def owner_table(service: str, metadata: MetaData) -> Table:
    """`<service>_owner`: owner_epoch and expires_at (epoch ms of the database's clock; null: until the next start)."""
    name = f"{service}_owner"
    if name in metadata.tables:
        return metadata.tables[name]
    return Table(
        name,
        metadata,
        Column("owner_epoch", BigInteger, primary_key=True, autoincrement=False),
        Column("expires_at", BigInteger),
    )


def raise_epoch(conn: Connection, table: Table, expires_at: int | None, now: int) -> int:
    """Enters a new owner and drops those that are gone; gives its epoch, higher than any before.

    Where the file's lock says that every former owner is gone (`expires_at` None), all leases fall to the new one.
    """
    newest = conn.execute(select(func.max(table.c.owner_epoch))).scalar_one()
    epoch = int(newest or 0) + 1
    conn.execute(delete(table) if expires_at is None else delete(table).where(table.c.expires_at <= now))
    conn.execute(insert(table).values(owner_epoch=epoch, expires_at=expires_at))
    return epoch


def renew(conn: Connection, table: Table, epoch: int, expires_at: int) -> None:
    """Prolongs an owner's row, which is written anew if another owner dropped it as expired."""
    written = conn.execute(update(table).where(table.c.owner_epoch == epoch).values(expires_at=expires_at))
    if written.rowcount == 0:
        conn.execute(insert(table).values(owner_epoch=epoch, expires_at=expires_at))
