"""The change feed's reader: turns another service's changes into dirty marks of its own, none ever missed.

Marks and cursor are committed together. Whatever ends a connection, the next one goes on from the committed cursor;
where the source can't tell what happened since, everything is marked.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

import grpc
from anycloudapi.common.internal.v1 import feed_pb2
from sqlalchemy import Connection, delete, insert, select

from anycloud_common.clock import Clock
from anycloud_common.feed.tables import named
from anycloud_common.store import Store, StoreBusy, StoreUnavailable, Tx

if TYPE_CHECKING:
    from anycloudapi.common.internal.v1.feed_pb2_grpc import FeedServiceAsyncStub

_LIST_S = 10.0
_FIRST_BACKOFF_S = 0.1
_LONGEST_BACKOFF_S = 2.0

log = logging.getLogger(__name__)

Wake = Callable[[Sequence[str]], None]


class Mark(Protocol):
    """The service's own marking, inside the transaction that moves the cursor."""

    def __call__(self, conn: Connection, kind: str, ids: list[str] | None) -> list[str]:
        """Stores that own objects standing on these foreign ones are dirty, and gives the keys of those marked.

        `ids` None: all own objects that stand on any of this kind, also on ones that the source no longer has.
        """
        ...


class FeedConsumer:
    """Follows the feed of the service `source` for some kinds; one consumer for each source.

    `wake(keys)` is called after the commit with the keys that `mark` gave, on the event loop.
    """

    def __init__(
        self,
        store: Store,
        prefix: str,
        source: str,
        stub: FeedServiceAsyncStub,
        *,
        kinds: Collection[str],
        mark: Mark,
        wake: Wake,
        clock: Clock,
    ) -> None:
        self._store = store
        self._cursor = named(prefix)
        self._source = source
        self._stub = stub
        self._kinds = sorted(kinds)
        self._mark = mark
        self._wake = wake
        self._clock = clock
        self._backoff = _FIRST_BACKOFF_S

    async def run(self) -> None:
        """Follows until cancelled; a source or a store that is away is tried again, after 0.1 s doubling to 2 s."""
        while True:
            try:
                await self._follow()
            except grpc.aio.AioRpcError as error:
                log.info("the feed of %s broke off: %s", self._source, error.code().name)
            except (StoreBusy, StoreUnavailable):
                log.warning("marks from the feed of %s couldn't be stored", self._source)
            await self._clock.sleep(self._backoff)
            self._backoff = min(_LONGEST_BACKOFF_S, self._backoff * 2)

    async def _follow(self) -> None:
        """Lists where there is no cursor, then watches. Ends with the connection, by an exception or without."""
        seq = await self._store.read(self._read_cursor)
        if seq is None:
            seq = await self._list()
        call = self._stub.Watch(feed_pb2.WatchRequest(since_seq=seq, kinds=self._kinds))
        try:
            async for response in call:
                await self._store.write(partial(self._take, response.changes))
                self._backoff = _FIRST_BACKOFF_S
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.OUT_OF_RANGE:
                raise
            # Committed before listing: the source could reach this seq again later, with other changes.
            await self._store.write(self._drop_cursor)
        finally:
            call.cancel()

    async def _list(self) -> int:
        response = await self._stub.List(feed_pb2.ListRequest(kinds=self._kinds), timeout=_LIST_S)
        await self._store.write(partial(self._take_list, response))
        return response.seq

    def _take(self, changes: Sequence[feed_pb2.Change], tx: Tx) -> None:
        changed: dict[str, dict[str, None]] = {}  # of each kind the ids, each once, in order
        for change in changes:
            changed.setdefault(change.kind, {})[change.id] = None
        keys = [key for kind, ids in changed.items() for key in self._mark(tx.conn, kind, list(ids))]
        self._moved(tx, changes[-1].seq, keys)

    def _take_list(self, response: feed_pb2.ListResponse, tx: Tx) -> None:
        keys: list[str] = []
        for kind in self._kinds:
            keys += self._mark(tx.conn, kind, None)
            listed = [ref.id for ref in response.refs if ref.kind == kind]
            if listed:
                keys += self._mark(tx.conn, kind, listed)
        self._moved(tx, response.seq, list(dict.fromkeys(keys)))

    def _moved(self, tx: Tx, seq: int, keys: list[str]) -> None:
        self._drop_cursor(tx)
        tx.conn.execute(insert(self._cursor).values(source=self._source, seq=seq, kinds=",".join(self._kinds)))
        if keys:
            tx.after_commit(partial(self._wake, keys))

    def _read_cursor(self, conn: Connection) -> int | None:
        """None at the very first, and when the kinds are others now: changes of a new kind were never sent."""
        row = conn.execute(select(self._cursor).where(self._cursor.c.source == self._source)).first()
        return row.seq if row is not None and row.kinds == ",".join(self._kinds) else None

    def _drop_cursor(self, tx: Tx) -> None:
        tx.conn.execute(delete(self._cursor).where(self._cursor.c.source == self._source))
