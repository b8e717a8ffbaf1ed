"""Row leases: who works on an object now, and writes that fail harmlessly once somebody else does.

A reconciler takes the lease, acts outside, and writes `WHERE guarded(…)`. Zero rows written means that another holder
has the object: the result is dropped and nothing is undone, as the new holder works with the same outside things.
"""

from __future__ import annotations

import secrets
from functools import lru_cache
from typing import TYPE_CHECKING

from sqlalchemy import (
    Column,
    ColumnElement,
    String,
    Table,
    Text,
    Update,
    and_,
    bindparam,
    cast,
    or_,
    select,
    true,
    update,
)

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
    token = secrets.token_hex(8)
    given = {"row": row_id, "now": tx.now, "owner": str(tx.owner_epoch), "token": token}
    return token if tx.conn.execute(_taking(table, tx.owners, by_force), given).rowcount == 1 else None


def guarded(table: Table, row_id: str, token: str) -> ColumnElement[bool]:
    """The WHERE clause of every write by the lease's holder."""
    return and_(table.c.id == row_id, table.c.lock_token == token)


def release(tx: Tx, table: Table, row_id: str, token: str) -> bool:
    """Gives the lease back; False when it was somebody else's already."""
    return tx.conn.execute(_giving_back(table), {"row": row_id, "token": token}).rowcount == 1


@lru_cache
def _taking(table: Table, owners: Table, by_force: bool) -> Update:
    living = select(cast(owners.c.owner_epoch, String)).where(
        or_(owners.c.expires_at.is_(None), owners.c.expires_at > bindparam("now"))
    )
    free = true() if by_force else or_(table.c.lock_owner.is_(None), table.c.lock_owner.not_in(living))
    mine = update(table).where(table.c.id == bindparam("row"), free)
    return mine.values(lock_owner=bindparam("owner"), lock_token=bindparam("token"))


@lru_cache
def _giving_back(table: Table) -> Update:
    mine = update(table).where(table.c.id == bindparam("row"), table.c.lock_token == bindparam("token"))
    return mine.values(lock_owner=None, lock_token=None)
