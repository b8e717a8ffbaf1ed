"""Watches: replay from a version, then live events; bookmarks; 410 when the version is too old."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import TYPE_CHECKING

import orjson
from aiohttp import web

from anycloud_sandbox.kube.resources import RESOURCES, KubeError
from anycloud_sandbox.kube.store import Event
from anycloud_sandbox.state import Json

if TYPE_CHECKING:
    from anycloud_sandbox.kube.cluster import Cluster

BOOKMARK_SECONDS = 20.0


class Watches:
    """The live watches of one cluster, fed after each commit."""

    def __init__(self) -> None:
        self._queues: dict[str, dict[asyncio.Queue[bytes | None], Callable[[Json], bool]]] = {}
        self._broken: set[asyncio.Queue[bytes | None]] = set()

    def add(self, plural: str, wanted: Callable[[Json], bool]) -> asyncio.Queue[bytes | None]:
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._queues.setdefault(plural, {})[queue] = wanted
        return queue

    def remove(self, plural: str, queue: asyncio.Queue[bytes | None]) -> None:
        self._queues[plural].pop(queue, None)
        self._broken.discard(queue)

    def follow(self, event: Event) -> None:
        for queue, wanted in self._queues.get(event.key[0], {}).items():
            if line := line_for(event, wanted):
                queue.put_nowait(line)

    def end(self, plural: str | None = None, broken: bool = False) -> None:
        """Ends the watches (of one plural): with a last chunk, or as a connection that breaks."""
        for name, queues in self._queues.items():
            for queue in queues if plural in (None, name) else ():
                if broken:
                    self._broken.add(queue)
                queue.put_nowait(None)

    def is_broken(self, queue: asyncio.Queue[bytes | None]) -> bool:
        return queue in self._broken


def line_for(event: Event, wanted: Callable[[Json], bool]) -> bytes | None:
    """What a watch with this selector is told; leaving the selection is a deletion for it."""
    now = wanted(event.object)
    if event.type == "DELETED":
        return event.line("DELETED") if now else None
    before = event.before is not None and wanted(event.before)
    if now:
        return event.line("MODIFIED" if before else "ADDED")
    return event.line("DELETED") if before else None


async def watch(
    request: web.Request, cluster: Cluster, plural: str, wanted: Callable[[Json], bool]
) -> web.StreamResponse:
    if request.query.get("sendInitialEvents"):
        raise KubeError(422, "Invalid", "sendInitialEvents is forbidden: the sandbox has no streaming lists")
    store, since = cluster.store, request.query.get("resourceVersion") or "0"
    cluster.state.commit()  # what was told to followers and what is replayed below must meet exactly
    if since == "0":
        lines = [orjson.dumps({"type": "ADDED", "object": obj}) + b"\n" for obj in store.list(plural) if wanted(obj)]
    else:
        oldest = store.log[0].version if store.log else store.version + 1
        if not oldest - 1 <= int(since) <= store.version:
            return await _expired(request, f"too old resource version: {since} ({oldest})")
        recent = (event for event in store.log if event.version > int(since) and event.key[0] == plural)
        lines = [line for event in recent if (line := line_for(event, wanted))]
    queue = cluster.watches.add(plural, wanted)
    try:
        return await _stream(request, cluster, plural, lines, queue)
    finally:
        cluster.watches.remove(plural, queue)


async def _stream(
    request: web.Request, cluster: Cluster, plural: str, lines: list[bytes], queue: asyncio.Queue[bytes | None]
) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    if lines:
        await response.write(b"".join(lines))
    loop = asyncio.get_running_loop()
    end = loop.time() + float(request.query.get("timeoutSeconds") or random.uniform(1800, 3600))  # noqa: S311
    bookmarks = request.query.get("allowWatchBookmarks") in ("true", "1", "True")
    ended = False
    while not ended and (left := end - loop.time()) > 0:
        try:
            async with asyncio.timeout(min(left, BOOKMARK_SECONDS)):
                parts = [await queue.get()]
        except TimeoutError:
            cluster.state.commit()
            parts = [_bookmark(plural, cluster.store.version)] if bookmarks and queue.empty() else []
        while not queue.empty():
            parts.append(queue.get_nowait())
        ended = None in parts
        if ended and cluster.watches.is_broken(queue) and request.transport:
            request.transport.abort()
        elif chunk := b"".join(part for part in parts if part):
            await response.write(chunk)
    if bookmarks and not ended:
        await response.write(_bookmark(plural, cluster.store.version))
    return response


def _bookmark(plural: str, version: int) -> bytes:
    resource = RESOURCES[plural]
    meta = {"resourceVersion": str(version)}
    head = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": meta}
    return orjson.dumps({"type": "BOOKMARK", "object": head}) + b"\n"


async def _expired(request: web.Request, text: str) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    await response.write(orjson.dumps({"type": "ERROR", "object": KubeError(410, "Expired", text).status()}) + b"\n")
    return response
