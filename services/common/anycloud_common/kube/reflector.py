"""A local copy of one collection, kept true by list and watch.

The official client's watch ends with an exception when its connection drops, and what was deleted meanwhile is never
told. So this one lists again after every drop and after a 410, and derives the missed events from the difference.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from types import MappingProxyType

import orjson

from anycloud_common.clock import Clock, SystemClock
from anycloud_common.kube.client import Kube
from anycloud_common.kube.diff import Event, EventType, Key, changes, key_of, keyed
from anycloud_common.kube.errors import KubeError, from_status
from anycloud_common.kube.kinds import KINDS, Object

_log = logging.getLogger(__name__)

_WATCH_S = (240, 300)  # the server ends a watch after that long, differently for each
_IDLE_S = 90.0  # bookmarks come each minute: without any line for so long the connection is dead
_QUICK_S = 1.0  # a watch that ends sooner counts as a failure, or a server that ends each at once would be hammered
_STEADY_S = 5.0  # a watch that broke after so long was a good one, though nothing may have happened
_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 30.0

OnEvent = Callable[[EventType, Object | None, Object | None], None]


class Reflector:
    """Objects of one kind under a selector, and their changes as calls of `on_event(type, old, new)`.

    `on_event` runs on the event loop, after `items` shows the change, and must return soon; events of one object come
    in order, several changes may come as one, and a deletion is told even when it happened while disconnected: `old`
    is then the last state that was seen, else the object's final state. An object whose name was taken by a new one
    is told as deleted, then the new one as added. A listener that raises is logged and told the next event.
    """

    def __init__(
        self,
        kube: Kube,
        kind: str,
        ns: str | None,
        labels: Mapping[str, str] | str | None,
        on_event: OnEvent,
        *,
        clock: Clock | None = None,
        tolerate_s: float = 10.0,
        chance: random.Random | None = None,
    ) -> None:
        self._kube = kube
        self._kind = kind
        self._resource = KINDS[kind].resource
        self._ns = ns
        self._labels = labels
        self._on_event = on_event
        self._clock = clock or SystemClock()
        self._tolerate_s = tolerate_s
        self._chance = chance or random.Random()  # noqa: S311 - jitter, not a secret
        self._items: dict[Key, Object] = {}
        self._version = ""
        self._live = asyncio.Event()
        self._lost_at: float | None = None  # None before the first list, and of no meaning while live
        self._failures = 0
        self.last_error: KubeError | None = None

    @property
    def items(self) -> Mapping[Key, Object]:
        """The objects by (Namespace or "", name). A live view; don't change what is in it."""
        return MappingProxyType(self._items)

    def get(self, name: str, ns: str = "") -> Object | None:
        return self._items.get((ns, name))

    @property
    def synced(self) -> bool:
        """Whether `items` can be relied on: read completely, and not disconnected for longer than tolerated."""
        if self._live.is_set():
            return True
        return self._lost_at is not None and self._clock.monotonic() - self._lost_at <= self._tolerate_s

    async def wait_synced(self) -> None:
        if not self.synced:
            await self._live.wait()

    async def run(self) -> None:
        """Lists and watches until cancelled. Failures are logged, kept in `last_error` and tried again."""
        while True:
            try:
                await self._list()
                while True:
                    await self._watch()
            except KubeError as error:
                self._lost(error)
            await self._clock.sleep(self._wait())

    async def _list(self) -> None:
        objects, version = await self._kube.list(self._kind, self._ns, self._labels)
        listed = keyed(objects)
        events = changes(self._items, listed)
        self._version = version
        for event in events:
            self._tell(event)
        self.last_error = None
        self._live.set()

    async def _watch(self) -> None:
        """One watch, to its proper end. Raises KubeError when it breaks, also for a version that is too old."""
        began = self._clock.monotonic()
        timeout_s = self._chance.randint(*_WATCH_S)
        try:
            async with self._kube.watch(
                self._kind, self._ns, self._labels, resource_version=self._version, timeout_s=timeout_s, idle_s=_IDLE_S
            ) as lines:
                async for line in lines:
                    self._take(*self._parse(line))
                    self._failures = 0
        except KubeError:
            if self._clock.monotonic() - began >= _STEADY_S:
                self._failures = 0
            raise
        if self._clock.monotonic() - began < _QUICK_S:
            raise self._error("it ended at once")
        self._failures = 0

    def _parse(self, line: bytes) -> tuple[str, Object]:
        try:
            message = orjson.loads(line)
            kind, obj = str(message["type"]), message["object"]
            if kind == "ERROR":
                raise from_status(int(obj.get("code") or 500), obj, "watch", self._resource)
            if not obj["metadata"]["resourceVersion"]:
                raise self._error("an event has no resource version")
        except (ValueError, KeyError, TypeError, AttributeError):
            raise self._error("a line is no event") from None
        return kind, obj

    def _take(self, kind: str, obj: Object) -> None:
        self._version = obj["metadata"]["resourceVersion"]
        if kind == "BOOKMARK":
            return
        key = key_of(obj)
        held = {key: self._items[key]} if key in self._items else {}
        if kind != "DELETED":
            for event in changes(held, {key: obj}):
                self._tell(event)
        elif held:
            self._tell(Event("DELETED", obj, None))  # the last state, which may be news

    def _tell(self, event: Event) -> None:
        if event.new is not None:
            self._items[key_of(event.new)] = event.new
        elif event.old is not None:
            del self._items[key_of(event.old)]
        try:
            self._on_event(event.type, event.old, event.new)
        except Exception:
            _log.exception("a listener of %s failed on %s", self._resource, event.type)

    def _lost(self, error: KubeError) -> None:
        _log.warning("lost sight of %s: %s", self._resource, error)
        self.last_error = error
        if self._live.is_set():
            self._lost_at = self._clock.monotonic()
            self._live.clear()

    def _wait(self) -> float:
        wait = min(_FIRST_WAIT_S * 2.0**self._failures, _LONGEST_WAIT_S) * self._chance.uniform(0.5, 1.0)
        self._failures = min(self._failures + 1, 10)
        return max(wait, self.last_error.retry_after if self.last_error is not None else 0.0)

    def _error(self, text: str) -> KubeError:
        return KubeError("unreachable", f"watch {self._resource}: {text}", verb="watch", resource=self._resource)
