"""What the store needs to know about a kind of database."""

from __future__ import annotations

from typing import Protocol

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError


class Backend(Protocol):
    """SQLite (`sqlite.py`) or PostgreSQL (`postgres.py`)."""

    at_hand: bool
    """Whether a row is read faster than a thread is woken."""

    def connect_writer(self) -> Connection:
        """The one connection that writes; its `begin()` opens a transaction that may write at once."""
        ...

    def connect_reader(self) -> Connection:
        """A read-only connection out of a small pool; everything read on it until it is closed is one snapshot."""
        ...

    def now_ms(self, conn: Connection) -> int:
        """The time by which leases and deadlines of this database are judged."""
        ...

    def transaction_stands(self, conn: Connection) -> bool:
        """After an error inside a transaction: whether it is still there, so that a SAVEPOINT can be gone back to."""
        ...

    def commit_undone(self, conn: Connection, error: DBAPIError) -> bool:
        """After an error in COMMIT: True when surely nothing was committed, False when that can't be known."""
        ...

    def is_unavailable(self, error: DBAPIError) -> bool:
        """Whether an error is the database's state (disk full, connection lost), not a fault of the statement."""
        ...

    def close(self) -> None: ...
