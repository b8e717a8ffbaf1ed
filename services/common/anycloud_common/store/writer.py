"""The thread that writes: what is queued goes into one transaction, each function inside a SAVEPOINT of its own."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Table
from sqlalchemy.exc import DBAPIError

from anycloud_common.store.backend import Backend
from anycloud_common.store.changes import ChangeLog
from anycloud_common.store.errors import StoreBusy, StoreUnavailable
from anycloud_common.store.ownership import OWNER_LEASE_MS, RENEW_EVERY, renew

GROUP = 64  # functions in one transaction at most
QUEUE = 1024  # functions waiting at most

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Owner:
    """Who this process is in the database: its epoch, and the table of living owners.

    renew: whether its row expires (there may be other replicas), and is renewed by the writer.
    """

    epoch: int
    table: Table
    renew: bool


class Tx:
    """What a function given to `Store.write` works with. Valid inside that function only.

    conn: for statements. It must not be committed or rolled back.
    now: epoch ms, one reading for all functions of a group.
    """

    def __init__(
        self, conn: Connection, now: int, owner: Owner, changes: ChangeLog, followers: list[Callable[[], None]]
    ) -> None:
        self.conn = conn
        self.now = now
        self.owner_epoch = owner.epoch
        self.owners = owner.table
        self.wake_ups: list[Callable[[], None]] = []
        self._changes = changes
        self._followers = followers

    def after_commit(self, wake_up: Callable[[], None]) -> None:
        """Calls it on the event loop after COMMIT, in the order of the commits; never when nothing was committed."""
        self.wake_ups.append(wake_up)

    def change(self, kind: str, id: str, version: int = 0) -> None:
        """Appends to the service's change feed, in this transaction; after COMMIT those who follow it are woken."""
        self._changes.append(self.conn, kind, id, version)
        self.wake_ups += self._followers
        self._followers = []


@dataclass
class _Job:
    """A queued function and where its answer goes."""

    fn: Callable[[Tx], Any]
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[Any]
    result: Any = None
    error: BaseException | None = None
    wake_ups: list[Callable[[], None]] = field(default_factory=list)

    def deliver(self) -> None:
        """On the event loop: wake-ups first, then the answer, which its awaiter sees a turn later."""
        for wake_up in self.wake_ups:
            try:
                wake_up()
            except Exception:
                log.exception("A wake-up after COMMIT failed")
        if self.answer.done():  # its caller was cancelled
            return
        if self.error is not None:
            self.answer.set_exception(self.error)
        else:
            self.answer.set_result(self.result)


class _GroupLostError(Exception):
    """The transaction is gone or can't go on; nothing of the group is committed."""


class _OutcomeUnknownError(Exception):
    """COMMIT failed in a way that leaves open whether the group is committed."""


class Writer:
    """Owns the writing connection and its thread.

    `fatal` is called with a reason when nobody can say whether a group was committed; the process must end there, as
    both a success and a refusal could be a lie. Members of that group get no answer.
    """

    def __init__(
        self, backend: Backend, conn: Connection, owner: Owner, service: str, fatal: Callable[[str], None]
    ) -> None:
        self._backend = backend
        self._conn = conn
        self._owner = owner
        self._changes = ChangeLog(service)
        self.followers: list[Callable[[], None]] = []  # woken on the event loop by commits with changes
        self._fatal = fatal
        self._queue: queue.Queue[_Job | None] = queue.Queue(QUEUE)
        self._renewed = time.monotonic()
        self._closed = threading.Event()
        self._closing = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=f"store-{service}", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """How many functions are queued."""
        return self._queue.qsize()

    def submit(self, fn: Callable[[Tx], Any]) -> asyncio.Future[Any]:
        """Queues a function; its answer comes after COMMIT. Raises StoreBusy, or StoreUnavailable after `close`."""
        loop = asyncio.get_running_loop()
        job = _Job(fn, loop, loop.create_future())
        with self._closing:  # so that no job can be queued behind the end mark
            if self._closed.is_set():
                raise StoreUnavailable("The database is closed.")
            try:
                self._queue.put_nowait(job)
            except queue.Full:
                raise StoreBusy(f"{QUEUE} writes are waiting already.") from None
        return job.answer

    def close(self) -> None:
        """Commits what is queued and ends the thread."""
        with self._closing:
            already = self._closed.is_set()
            self._closed.set()
        if not already:
            self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        try:
            while (group := self._next_group()) is not None:
                self._commit(group)
        except BaseException as error:
            self._closed.set()
            log.critical("The writer of the database can't go on", exc_info=error)
            self._fatal(str(error) if isinstance(error, _OutcomeUnknownError) else f"the writer failed: {error!r}")
        finally:
            with contextlib.suppress(DBAPIError):  # a lost connection can't be closed, and needn't be
                self._conn.close()

    def _next_group(self) -> list[_Job] | None:
        """What is queued now; None at the end. Nobody waits for company: it comes while a COMMIT is being synced.

        A group is empty only when nothing else made the owner's row be renewed in time.
        """
        group: list[_Job] = []
        with contextlib.suppress(queue.Empty):
            job = self._queue.get(timeout=RENEW_EVERY if self._owner.renew else None)
            while job is not None:
                group.append(job)
                if len(group) == GROUP:
                    return group
                job = self._queue.get_nowait()
            if not group:
                return None
            self._queue.put(None)  # the end mark again, for the next call
        return group

    def _commit(self, group: list[_Job]) -> None:
        try:
            self._transact(group)
        except _GroupLostError as lost:
            for job in group:
                job.result, job.wake_ups = None, []
                job.error = StoreUnavailable(f"The database didn't commit: {lost}.")
        _deliver(group)

    def _transact(self, group: list[_Job]) -> None:
        """One transaction. Raises _GroupLostError when surely nothing of it was committed."""
        try:
            transaction = self._conn.begin()
        except DBAPIError as error:
            self._roll_back()
            raise _lost(error) from error
        try:
            now = self._backend.now_ms(self._conn)
            self._renew(now)
            for job in group:
                self._apply(job, now)
        except _GroupLostError:
            self._roll_back()
            raise
        except DBAPIError as error:
            self._roll_back()
            raise _lost(error) from error
        try:
            transaction.commit()
        except DBAPIError as error:
            if not self._backend.commit_undone(self._conn, error):
                raise _OutcomeUnknownError(f"the outcome of COMMIT is unknown: {error.orig}") from error
            self._roll_back()
            raise _lost(error) from error

    def _roll_back(self) -> None:
        try:
            self._conn.rollback()
        except DBAPIError as error:  # then the transaction goes with its connection; the next group opens another
            log.warning("ROLLBACK failed: %s", error.orig)
            self._conn.invalidate()

    def _renew(self, now: int) -> None:
        if self._owner.renew and time.monotonic() - self._renewed >= RENEW_EVERY / 2:
            renew(self._conn, self._owner.table, self._owner.epoch, now + OWNER_LEASE_MS)
            self._renewed = time.monotonic()

    def _apply(self, job: _Job, now: int) -> None:
        """Runs one function. An error in it undoes that function alone, unless it took the transaction with it."""
        driver: Any = self._conn.connection.dbapi_connection
        tx = Tx(self._conn, now, self._owner, self._changes, self.followers)
        try:
            driver.execute("SAVEPOINT one")
            job.result = job.fn(tx)
            driver.execute("RELEASE one")
        except Exception as error:
            if not self._backend.transaction_stands(self._conn):
                raise _lost(error) from error
            self._conn.exec_driver_sql("ROLLBACK TO one")
            self._conn.exec_driver_sql("RELEASE one")
            job.result, job.error = None, self._own_error(error)
        else:
            job.wake_ups = tx.wake_ups

    def _own_error(self, error: Exception) -> Exception:
        if isinstance(error, DBAPIError) and self._backend.is_unavailable(error):
            unavailable = StoreUnavailable(f"The database didn't write: {error.orig}.")
            unavailable.__cause__ = error
            return unavailable
        return error


def _lost(error: Exception) -> _GroupLostError:
    return _GroupLostError(str(error.orig if isinstance(error, DBAPIError) else error))


def _deliver(group: list[_Job]) -> None:
    """Hands the answers to the event loop, in one call for the whole group."""
    for loop, jobs in itertools.groupby(group, key=lambda job: job.loop):
        members = list(jobs)
        try:
            loop.call_soon_threadsafe(_deliver_all, members)
        except RuntimeError:  # the loop is closed: nobody waits any more
            log.info("%d answers of the database came after the end of the event loop", len(members))


def _deliver_all(jobs: list[_Job]) -> None:
    for job in jobs:
        job.deliver()
