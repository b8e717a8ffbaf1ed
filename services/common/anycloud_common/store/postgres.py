"""PostgreSQL as the store's database: one database, a schema for each service, any number of replicas."""

from __future__ import annotations

import psycopg
from psycopg.pq import TransactionStatus
from sqlalchemy import Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool, QueuePool

READERS = 4

# A silent network must not hold the writer for longer than a lease lives.
_TIMEOUTS = {"connect_timeout": 5, "tcp_user_timeout": 10_000}

_NOW = text("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint")


class PostgresBackend:
    """Write transactions of a service follow each other, also those of other replicas: each takes the service's
    advisory lock and holds it to COMMIT. So functions may read, decide and write as on SQLite, and a change's `seq`
    becomes visible in order."""

    at_hand = False

    def __init__(self, url: str, service: str) -> None:
        self._writer = postgres_engine(url, service)
        self._readers = postgres_engine(url, service, readers=READERS)
        lock = text("SELECT pg_advisory_xact_lock(hashtextextended(:name, 0))").bindparams(name=f"anycloud {service}")
        event.listen(self._writer, "begin", lambda conn: conn.execute(lock))

    def connect_writer(self) -> Connection:
        return self._writer.connect()

    def connect_reader(self) -> Connection:
        return self._readers.connect()

    def now_ms(self, conn: Connection) -> int:
        return int(conn.execute(_NOW).scalar_one())

    def transaction_stands(self, conn: Connection) -> bool:
        return _status(conn) in (TransactionStatus.INTRANS, TransactionStatus.INERROR)

    def commit_undone(self, conn: Connection, error: DBAPIError) -> bool:
        """A server that refused the COMMIT still talks; when the connection went, it may have committed before."""
        return _status(conn) == TransactionStatus.IDLE

    def is_unavailable(self, error: DBAPIError) -> bool:
        return error.connection_invalidated or isinstance(error.orig, psycopg.OperationalError)

    def close(self) -> None:
        self._readers.dispose()
        self._writer.dispose()


def postgres_engine(url: str, service: str, readers: int = 0) -> Engine:
    """An engine on the service's schema: for one writing connection, or for a pool of read-only ones."""
    options = [f"-csearch_path={service}", "-csynchronous_commit=on"]
    if readers:
        # One snapshot for all that is read on a connection, as in SQLite.
        options += ["-cdefault_transaction_read_only=on", r"-cdefault_transaction_isolation=repeatable\ read"]
    address = make_url(url).set(drivername="postgresql+psycopg")
    arguments = _TIMEOUTS | {"options": " ".join(options)}
    # The parameters of statements stay out of error texts: they may be secrets.
    if not readers:
        return create_engine(address, connect_args=arguments, poolclass=NullPool, hide_parameters=True)
    return create_engine(
        address,
        connect_args=arguments,
        poolclass=QueuePool,
        pool_size=readers,
        max_overflow=0,
        pool_pre_ping=True,
        hide_parameters=True,
    )


def _status(conn: Connection) -> TransactionStatus:
    if conn.invalidated:
        return TransactionStatus.UNKNOWN
    driver = conn.connection.dbapi_connection
    assert isinstance(driver, psycopg.Connection)
    return driver.info.transaction_status
