"""A service's database: writes in groups by one thread, reads beside it, and proof that this process owns it."""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection, MetaData
from sqlalchemy.exc import DBAPIError

from anycloud_common.clock import Clock
from anycloud_common.store import heads
from anycloud_common.store.backend import Backend
from anycloud_common.store.errors import StoreOpenError, StoreUnavailable
from anycloud_common.store.lock import FileLock, lock_path
from anycloud_common.store.ownership import OWNER_LEASE_MS, owner_table, raise_epoch
from anycloud_common.store.sqlite import READERS, SqliteBackend
from anycloud_common.store.writer import Owner, Tx, Writer

T = TypeVar("T")

_EX_SOFTWARE = 70  # sysexits.h

log = logging.getLogger(__name__)


def end_process(reason: str) -> None:
    """Ends the process at once; what is unanswered stays unanswered, and the next start reads what was committed."""
    log.critical("Ending the process: %s", reason)
    logging.shutdown()
    os._exit(_EX_SOFTWARE)


class Store:
    """Made by `open` or `open_postgres`. All of its methods but `close` belong on the event loop."""

    def __init__(
        self, backend: Backend, service: str, head: str | None, lock: FileLock | None, fatal: Callable[[str], None]
    ) -> None:
        """Use `open`. head: the revision that the database must have; None skips the check. lock: of the file; where
        there is none, other replicas may run on the database too."""
        self._backend = backend
        self._lock = lock
        conn = backend.connect_writer()
        try:
            owner = _own(backend, conn, service, head, shared=lock is None)
        except BaseException:
            conn.close()
            raise
        self.owner_epoch = owner.epoch
        self._writer = Writer(backend, conn, owner, service, fatal)
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix=f"read-{service}")

    @classmethod
    def open(
        cls,
        path: Path,
        service: str,
        clock: Clock,
        *,
        migrations: Path | None = None,
        check_head: bool = True,
        fatal: Callable[[str], None] = end_process,
    ) -> Store:
        """Opens `<service>.sqlite`, which the migrator made, and takes it for this process's life.

        migrations: where the service's Alembic files are, if not in its package. `check_head=False` is for databases
        without migrations (`scratch.py`). Raises StoreOpenError.
        """
        if not path.exists():
            raise StoreOpenError(f"There is no {service} database at {path}; anycloud-migrate makes it.")
        head = heads.expected_head(service, migrations) if check_head else None
        lock = FileLock(lock_path(path), f"The {service} database")
        backend = SqliteBackend(path, clock)
        try:
            return cls(backend, service, head, lock, fatal)
        except BaseException as error:
            backend.close()
            lock.release()
            if isinstance(error, DBAPIError | sqlite3.Error):
                reason = error.orig if isinstance(error, DBAPIError) else error
                raise StoreOpenError(f"The {service} database at {path} can't be opened: {reason}.") from error
            raise

    @classmethod
    def open_postgres(
        cls,
        url: str,
        service: str,
        *,
        migrations: Path | None = None,
        check_head: bool = True,
        fatal: Callable[[str], None] = end_process,
    ) -> Store:
        """Opens the service's schema of a PostgreSQL database, beside other replicas. Time is the server's.

        url: `postgresql://user:password@host/database`. The rest is as in `open`.
        """
        from anycloud_common.store.postgres import PostgresBackend

        head = heads.expected_head(service, migrations) if check_head else None
        backend = PostgresBackend(url, service)
        try:
            return cls(backend, service, head, None, fatal)
        except DBAPIError as error:
            backend.close()
            reason = " ".join(str(error.orig).split())
            raise StoreOpenError(f"The {service} schema on PostgreSQL can't be opened: {reason}.") from error
        except BaseException:
            backend.close()
            raise

    async def write(self, fn: Callable[[Tx], T]) -> T:
        """Runs `fn` in the writer thread and returns its result once it is committed, synced to disk.

        `fn` is synchronous and touches the database only. Its exception undoes it alone and is raised here. A caller
        that is cancelled doesn't cancel its function. Raises StoreBusy (not run) or StoreUnavailable (rolled back).
        """
        answer: asyncio.Future[T] = self._writer.submit(fn)
        return await answer

    async def read(self, fn: Callable[[Connection], T]) -> T:
        """Runs `fn` in a thread, on one snapshot that holds everything whose write has been answered.

        Raises StoreUnavailable when the database can't be read.
        """
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._read, fn)

    async def look(self, fn: Callable[[Connection], T]) -> T:
        """As `read`, for a few rows by their keys: on SQLite here and now, as handing it to a thread takes several
        times as long as such a read. Whoever might read many rows would hold up everything else."""
        return self._read(fn) if self._backend.at_hand else await self.read(fn)

    def _read(self, fn: Callable[[Connection], T]) -> T:
        try:
            with self._backend.connect_reader() as conn:
                return fn(conn)
        except DBAPIError as error:
            if self._backend.is_unavailable(error):
                raise StoreUnavailable(f"The database can't be read: {error.orig}.") from error
            raise

    def on_change(self, wake_up: Callable[[], None]) -> None:
        """Calls it on the event loop after each commit that appended to the change feed."""
        self._writer.followers.append(wake_up)

    @property
    def waiting(self) -> int:
        """How many writes are queued now, for metrics."""
        return self._writer.waiting

    def close(self) -> None:
        """Commits what is queued, ends the threads, gives the file free. May be called twice."""
        self._writer.close()
        self._readers.shutdown()
        self._backend.close()
        if self._lock is not None:
            self._lock.release()
            self._lock = None


def _own(backend: Backend, conn: Connection, service: str, head: str | None, *, shared: bool) -> Owner:
    """Checks that the tables are this build's own and enters this process as the owner."""
    table = owner_table(service, MetaData())
    with conn.begin():
        if head is not None:
            heads.check_head(conn, service, head)
        now = backend.now_ms(conn)
        epoch = raise_epoch(conn, table, now + OWNER_LEASE_MS if shared else None, now)
    return Owner(epoch, table, renew=shared)
