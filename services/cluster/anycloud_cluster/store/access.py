"""Who may use a hosted API, and their tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from anycloud_common.store import Tx
from sqlalchemy import ColumnElement, Connection, delete, insert, select

from anycloud_cluster.domain.access import LASTING_TOKENS, Account
from anycloud_cluster.store.tables import TOKEN, USER

Ended = Callable[[bytes], None]
"""Told the hash of a token that isn't valid any more."""

TOKEN_ENDED = "token"  # noqa: S105 - kind in the change feed; the id is the hash of a token that ended, in hex


def users(conn: Connection) -> Sequence[Account]:
    rows = conn.execute(select(USER).order_by(USER.c.created_at, USER.c.id))
    return [Account(row.id, row.username) for row in rows]


def is_granted(conn: Connection, user_id: str) -> bool:
    return conn.execute(select(USER.c.id).where(USER.c.id == user_id)).first() is not None


def grant(tx: Tx, account: Account) -> None:
    """Granting twice renews the user name."""
    tx.conn.execute(delete(USER).where(USER.c.id == account.user_id))
    tx.conn.execute(insert(USER).values(id=account.user_id, username=account.username, created_at=tx.now))


def revoke(tx: Tx, user_id: str, ended: Ended) -> None:
    """The account and all its tokens; one that isn't there is success."""
    tx.conn.execute(delete(USER).where(USER.c.id == user_id))
    _end(tx, TOKEN.c.user_id == user_id, ended)


def holder(conn: Connection, digest: bytes, now: int) -> Account | None:
    """Whose token has this hash, if it still lives."""
    row = conn.execute(select(TOKEN).where(TOKEN.c.hash == digest)).first()
    if row is None or (row.expires_at is not None and row.expires_at <= now):
        return None
    return Account(row.user_id, row.username)


def add(tx: Tx, account: Account, digest: bytes, expires_at: int | None, ended: Ended) -> None:
    """Stores the hash of a new token, and ends what has expired or is one too many."""
    _end(tx, TOKEN.c.expires_at <= tx.now, ended)
    tx.conn.execute(
        insert(TOKEN).values(
            hash=digest,
            user_id=account.user_id,
            username=account.username,
            created_at=tx.now,
            expires_at=expires_at,
        )
    )
    lasting = select(TOKEN.c.hash).where(TOKEN.c.user_id == account.user_id, TOKEN.c.expires_at.is_(None))
    oldest = lasting.order_by(TOKEN.c.created_at.desc()).offset(LASTING_TOKENS)
    _end(tx, TOKEN.c.hash.in_(tx.conn.execute(oldest).scalars().all()), ended)


def end_all(tx: Tx, user_id: str, ended: Ended) -> None:
    """Ends every token of the account."""
    _end(tx, TOKEN.c.user_id == user_id, ended)


def _end(tx: Tx, where: ColumnElement[bool], ended: Ended) -> None:
    """Others hear of it through the feed; `ended` is told after the commit."""
    digests = tx.conn.execute(select(TOKEN.c.hash).where(where)).scalars().all()
    tx.conn.execute(delete(TOKEN).where(where))
    for digest in digests:
        tx.change(TOKEN_ENDED, digest.hex())
        tx.after_commit(partial(ended, digest))
