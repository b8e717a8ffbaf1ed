"""The change feed's source, as gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from functools import partial
from typing import Any

import grpc
from anycloudapi.common.internal.v1 import feed_pb2
from anycloudapi.common.internal.v1.feed_pb2_grpc import FeedServiceServicer
from sqlalchemy import Connection

from anycloud_common.feed.reads import Change, ChangeReader, OutOfRange
from anycloud_common.store import Store

Context = grpc.aio.ServicerContext[Any, Any]
ListRefs = Callable[[Connection, Collection[str]], Iterable[tuple[str, str]]]


class FeedServicer(FeedServiceServicer):
    """Serves the changes of the service named `prefix`.

    `list_refs(conn, kinds)` gives (kind, id) of every object of these kinds, in the read transaction it is given.
    """

    def __init__(self, store: Store, prefix: str, list_refs: ListRefs) -> None:
        self._store = store
        self._reader = ChangeReader(prefix)
        self._list_refs = list_refs
        self._streams: set[asyncio.Event] = set()
        store.on_change(self._wake)

    async def Watch(self, request: feed_pb2.WatchRequest, context: Context) -> AsyncIterator[feed_pb2.WatchResponse]:
        await _check(request.kinds, context)
        kinds = set(request.kinds)
        seq = request.since_seq
        changed = asyncio.Event()
        self._streams.add(changed)
        try:
            while True:
                changed.clear()  # before the read: a commit during it wakes again
                batch = await self._store.read(partial(self._reader.after, seq=seq, kinds=kinds))
                if batch.changes:
                    yield feed_pb2.WatchResponse(changes=[_message(change) for change in batch.changes])
                seq = batch.seq
                if not batch.more:
                    await changed.wait()
        except OutOfRange as error:
            await context.abort(grpc.StatusCode.OUT_OF_RANGE, str(error))
        finally:
            self._streams.discard(changed)

    async def List(self, request: feed_pb2.ListRequest, context: Context) -> feed_pb2.ListResponse:
        await _check(request.kinds, context)

        def listed(conn: Connection) -> feed_pb2.ListResponse:
            refs = self._list_refs(conn, set(request.kinds))
            return feed_pb2.ListResponse(
                seq=self._reader.newest(conn), refs=[feed_pb2.Ref(kind=kind, id=id) for kind, id in refs]
            )

        return await self._store.read(listed)

    def _wake(self) -> None:
        for changed in self._streams:
            changed.set()


def _message(change: Change) -> feed_pb2.Change:
    return feed_pb2.Change(seq=change.seq, kind=change.kind, id=change.id, version=change.version)


async def _check(kinds: Collection[str], context: Context) -> None:
    if not kinds:
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "no kinds are named")
