"""SQLite as the store's database: one file a service, in WAL mode, synced at every commit."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool, QueuePool

from anycloud_common.clock import Clock

READERS = 4
_BUSY_SECONDS = 5.0  # only a foreign tool can hold the file's lock: the service's own writer is alone

# Errors that say something about disk or file. A statement's own faults (constraints, syntax) aren't among them.
_UNAVAILABLE = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
    }
)
# A commit is in the log once its last frame was written whole: a write that failed is before that. A failed sync, or
# anything unheard of, may be after it.
_COMMIT_NOT_WRITTEN = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE})


class SqliteBackend:
    at_hand = True

    def __init__(self, path: Path, clock: Clock) -> None:
        self._clock = clock
        self._writer = _engine(f"file:{quote(str(path))}?mode=rw", "BEGIN IMMEDIATE", writer=True)
        self._readers = _engine(f"file:{quote(str(path))}?mode=ro", "BEGIN", writer=False)

    def connect_writer(self) -> Connection:
        return self._writer.connect()

    def connect_reader(self) -> Connection:
        return self._readers.connect()

    def now_ms(self, conn: Connection) -> int:
        return self._clock.now_ms()

    def transaction_stands(self, conn: Connection) -> bool:
        return _driver(conn).in_transaction

    def commit_undone(self, conn: Connection, error: DBAPIError) -> bool:
        return _driver(conn).in_transaction or _code(error) in _COMMIT_NOT_WRITTEN

    def is_unavailable(self, error: DBAPIError) -> bool:
        return _code(error) & 0xFF in _UNAVAILABLE

    def close(self) -> None:
        self._readers.dispose()
        self._writer.dispose()


def _engine(uri: str, begin: str, *, writer: bool) -> Engine:
    def connect() -> sqlite3.Connection:
        # isolation_level None: Python's driver begins and commits nothing by itself.
        conn = sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            if writer:
                conn.execute("PRAGMA journal_mode=WAL")
                conn.execute("PRAGMA synchronous=FULL")
            else:
                conn.execute("PRAGMA query_only=ON")
            conn.execute("PRAGMA foreign_keys=ON")
        except BaseException:
            conn.close()
            raise
        return conn

    # The parameters of statements stay out of error texts: they may be secrets.
    if writer:
        engine = create_engine("sqlite://", creator=connect, poolclass=NullPool, hide_parameters=True)
    else:
        engine = create_engine(
            "sqlite://",
            creator=connect,
            poolclass=QueuePool,
            pool_size=READERS + 1,  # the threads', and the event loop's own
            max_overflow=0,
            hide_parameters=True,
        )

    @event.listens_for(engine, "begin")
    def _begin(conn: Connection) -> None:
        conn.exec_driver_sql(begin)

    return engine


def _driver(conn: Connection) -> sqlite3.Connection:
    driver = conn.connection.dbapi_connection
    assert isinstance(driver, sqlite3.Connection)
    return driver


def _code(error: DBAPIError) -> int:
    """SQLite's extended error code; 0 for an error of the driver itself."""
    return int(getattr(error.orig, "sqlite_errorcode", 0))
