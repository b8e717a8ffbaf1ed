"""Watches: replay from a version, then live events; bookmarks; 410 when the version is too old."""

import asyncio

import orjson
from aiohttp import web

from anycloud_sandbox.kube.objects import RESOURCES, KubeError, Selector
from anycloud_sandbox.kube.store import Event, Store
from anycloud_sandbox.state import Json, State

BOOKMARK_SECONDS, LONGEST_SECONDS = 20.0, 3600.0
JSON = {"Content-Type": "application/json"}  # exactly this: some clients parse errors of no other spelling
END, CUT = b"", b"cut"  # last lines of a watch: it ends, or its connection breaks
Queue = asyncio.Queue[bytes]


class Watches:
    """All live watches of a cluster, each a queue of lines."""

    def __init__(self, state: State, store: Store) -> None:
        self._state, self._store = state, store
        self._queues: dict[str, dict[Queue, Selector]] = {plural: {} for plural in RESOURCES}
        store.followers.append(self._follow)

    def _follow(self, event: Event) -> None:
        for queue, wanted in self._queues[event.key[0]].items():
            if line := _line_for(event, wanted):
                queue.put_nowait(line)

    def end(self, last: bytes, plural: str | None = None) -> None:
        for name, queues in self._queues.items():
            for queue in queues if plural in (None, name) else ():
                queue.put_nowait(last)

    async def serve(self, request: web.Request, plural: str, wanted: Selector) -> web.StreamResponse:
        store, since, queue = self._store, int(request.query.get("resourceVersion") or 0), Queue()
        self._state.commit()  # what followers were told and what is replayed here must meet exactly
        oldest = store.log[0].version if store.log else store.version + 1
        if since and not oldest - 1 <= since <= store.version:
            gone = KubeError(410, "Expired", f"too old resource version: {since} ({oldest})").status()
            lines: list[bytes | None] = [_line("ERROR", gone), END]
        elif since:
            recent = (event for event in store.log if event.version > since and event.key[0] == plural)
            lines = [_line_for(event, wanted) for event in recent]
        else:
            lines = [_line("ADDED", obj) for obj in store.all(plural) if wanted(obj)]
        for line in lines:
            if line is not None:
                queue.put_nowait(line)
        self._queues[plural][queue] = wanted
        try:
            return await self._stream(request, plural, queue)
        finally:
            del self._queues[plural][queue]

    async def _stream(self, request: web.Request, plural: str, queue: Queue) -> web.StreamResponse:
        response, now, lines = web.StreamResponse(headers=JSON), asyncio.get_running_loop().time, list[bytes]()
        await response.prepare(request)
        end = now() + float(request.query.get("timeoutSeconds") or LONGEST_SECONDS)
        while END not in lines and CUT not in lines:
            lines = []
            try:
                async with asyncio.timeout(min(max(end - now(), 0), BOOKMARK_SECONDS)):
                    lines.append(await queue.get())
            except TimeoutError:
                self._state.commit()
                if queue.empty() and request.query.get("allowWatchBookmarks"):
                    head = {"kind": RESOURCES[plural].kind, "apiVersion": RESOURCES[plural].api_version}
                    lines.append(_line("BOOKMARK", {**head, "metadata": {"resourceVersion": str(self._store.version)}}))
                lines += [END] if now() >= end else []
            while not queue.empty():
                lines.append(queue.get_nowait())
            if CUT in lines and request.transport:
                request.transport.abort()
            elif chunk := b"".join(lines):
                await response.write(chunk)
        return response


def _line(kind: str, obj: Json) -> bytes:
    return orjson.dumps({"type": kind, "object": obj}) + b"\n"


def _line_for(event: Event, wanted: Selector) -> bytes | None:
    """What a watch with this selector is told; what leaves the selection is deleted for it."""
    now, before = wanted(event.object), event.before is not None and wanted(event.before)
    if event.type == "DELETED" or not now:
        return _line("DELETED", event.object) if now or before else None
    return _line("MODIFIED" if before else "ADDED", event.object)
