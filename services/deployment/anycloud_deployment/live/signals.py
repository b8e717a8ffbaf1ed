"""Waiting for something that another call commits: one key a thing, everyone who waits for it is woken."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from anycloud_common.clock import Clock

from anycloud_deployment.live.within import within


class Signals:
    """Take a `Watch` first, read the database then, and wait last: a change after the read is never missed."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._watches: dict[str, set[Watch]] = {}

    def tell(self, key: str) -> None:
        """Wakes everyone who watches the key."""
        for watch in self._watches.get(key, ()):
            watch.changed.set()

    @contextmanager
    def watch(self, key: str) -> Iterator[Watch]:
        watch = Watch(self._clock)
        self._watches.setdefault(key, set()).add(watch)
        try:
            yield watch
        finally:
            watches = self._watches[key]
            watches.discard(watch)
            if not watches:
                del self._watches[key]


class Watch:
    """One waiter for one key."""

    def __init__(self, clock: Clock) -> None:
        self.changed = asyncio.Event()
        self._clock = clock

    async def wait(self, seconds: float) -> bool:
        """False when nothing was told within so many seconds. Clears what was told."""
        told = await within(self._clock, seconds, self.changed.wait())
        self.changed.clear()
        return told is True
