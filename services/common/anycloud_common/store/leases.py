"""Row leases: who works on an object now, and writes that fail harmlessly once somebody else does.

A reconciler takes the lease, acts outside, and writes `WHERE guarded(…)`. Zero rows written means that another holder
has the object: the result is dropped and nothing is undone, as the new holder works with the same outside things.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from sqlalchemy import Column, ColumnElement, String, Table, Text, and_, cast, or_, select, true, update

if TYPE_CHECKING:
    from anycloud_common.store.writer import Tx


def columns() -> tuple[Column[str], Column[str]]:
    """The two columns of a table whose rows are leased; both null while nobody holds the row."""
    return Column("lock_owner", Text), Column("lock_token", Text)


def take(tx: Tx, table: Table, row_id: str, *, by_force: bool = False) -> str | None:
    """A new token for the row, or None when a living owner holds it or there is no such row.

    `by_force` takes it from a living owner too (a delete that overrules a create), whose guarded writes then write
    nothing.
    """
    living = select(cast(tx.owners.c.owner_epoch, String)).where(
        or_(tx.owners.c.expires_at.is_(None), tx.owners.c.expires_at > tx.now)
    )
    free = true() if by_force else or_(table.c.lock_owner.is_(None), table.c.lock_owner.not_in(living))
    token = secrets.token_hex(8)
    statement = update(table).where(table.c.id == row_id, free).values(lock_owner=str(tx.owner_epoch), lock_token=token)
    return token if tx.conn.execute(statement).rowcount == 1 else None


def guarded(table: Table, row_id: str, token: str) -> ColumnElement[bool]:
    """The WHERE clause of every write by the lease's holder."""
    return and_(table.c.id == row_id, table.c.lock_token == token)


def release(tx: Tx, table: Table, row_id: str, token: str) -> bool:
    """Gives the lease back; False when it was somebody else's already."""
    statement = update(table).where(guarded(table, row_id, token)).values(lock_owner=None, lock_token=None)
    return tx.conn.execute(statement).rowcount == 1
