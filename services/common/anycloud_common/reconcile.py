"""Reconcilers: each key marked dirty is handled again and again until its handler has nothing left to do.

Nothing polls: a pass begins when a key was marked or when the time came that its last pass asked for.
All calls belong on one event loop.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from anycloud_common.clock import Clock

_FIRST_BACKOFF = 1.0
_LONGEST_BACKOFF = 60.0

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Done:
    """Nothing left to do until the key is marked again."""


@dataclass(frozen=True)
class Requeue:
    """Another pass is due after so many seconds, or earlier if the key is marked."""

    after: float


@dataclass(frozen=True)
class Blocked:
    """It can't go on: `reason` says what is missing. Another pass comes after `retry` seconds, None: when marked."""

    reason: str
    retry: float | None = None


Outcome = Done | Requeue | Blocked
_Subject = TypeVar("_Subject")


async def in_order(phases: Iterable[Callable[[_Subject], Awaitable[Outcome]]], subject: _Subject) -> Outcome:
    """Goes through phases until one has to wait; gives what that one said."""
    for phase in phases:
        outcome = await phase(subject)
        if not isinstance(outcome, Done):
            return outcome
    return Done()


class WorkQueue:
    """Keys with the time at which each is due. A key waits once however often it was marked, at the earliest of the
    times; it is never given out while it is being handled, and a mark made meanwhile makes it due again afterwards."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due: dict[str, float] = {}
        self._running: set[str] = set()
        # Entries whose time isn't that of `_due` any more are dropped when they come up.
        self._heap: list[tuple[float, int, str]] = []
        self._order = itertools.count()
        self._changed = asyncio.Event()

    def mark(self, key: str, after: float = 0.0) -> None:
        """Makes the key due in so many seconds, unless it is due earlier already."""
        due = self._clock.monotonic() + after
        if key in self._due and self._due[key] <= due:
            return
        self._due[key] = due
        if key not in self._running:
            self._push(key)

    def take(self) -> str | None:
        """The key that has been due longest, which now counts as being handled; None when none is due."""
        now = self._clock.monotonic()
        while self._heap and self._heap[0][0] <= now:
            due, _, key = heapq.heappop(self._heap)
            if self._due.get(key) == due and key not in self._running:
                self.begin(key)
                return key
        return None

    def begin(self, key: str) -> None:
        """Counts the key as being handled, due or not. Raises RuntimeError when it is already."""
        if key in self._running:
            raise RuntimeError(f"{key} is being handled")
        self._due.pop(key, None)
        self._running.add(key)

    def finish(self, key: str) -> None:
        """The key's handling has ended."""
        self._running.discard(key)
        if key in self._due:
            self._push(key)

    async def next(self) -> str:
        """Waits for `take`. For one consumer."""
        while (key := self.take()) is None:
            await self._wait()
        return key

    def _push(self, key: str) -> None:
        heapq.heappush(self._heap, (self._due[key], next(self._order), key))
        self._changed.set()

    async def _wait(self) -> None:
        """Until something was pushed or the earliest entry is due."""
        self._changed.clear()
        waits: list[asyncio.Future[Any]] = [asyncio.ensure_future(self._changed.wait())]
        if self._heap:
            delay = self._heap[0][0] - self._clock.monotonic()
            waits.append(asyncio.ensure_future(self._clock.sleep(delay)))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()


class Reconciler:
    """Handles the keys of one kind of object, several at once, each key one pass at a time.

    An exception in a pass is logged, and the key comes again after 1 s, doubling to 60 s; other keys go on.
    observe: called after each pass with the reconciler's name, "done", "requeue", "blocked" or "error", and seconds.
    """

    def __init__(
        self,
        name: str,
        handle: Callable[[str], Awaitable[Outcome]],
        clock: Clock,
        workers: int = 4,
        observe: Callable[[str, str, float], None] | None = None,
    ) -> None:
        self.name = name
        self.blocked: dict[str, str] = {}  # key to reason, as of its last pass
        self._handle = handle
        self._clock = clock
        self._workers = workers
        self._observe = observe
        self._queue = WorkQueue(clock)
        self._failures: dict[str, int] = {}

    def mark(self, key: str, after: float = 0.0) -> None:
        """Asks for a pass over the key in so many seconds; what it sees is read after this call."""
        self._queue.mark(key, after)

    async def run(self) -> None:
        """Handles keys until cancelled; then the passes under way are cancelled too."""
        slots = asyncio.Semaphore(self._workers)
        async with asyncio.TaskGroup() as passes:
            while True:
                await slots.acquire()
                key = await self._queue.next()
                passes.create_task(self._guarded_pass(key, slots), name=f"{self.name} {key}")

    async def step(self, key: str) -> Outcome:
        """One pass over the key now, for tests: its outcome counts as in `run`, its exception is raised."""
        self._queue.begin(key)
        try:
            return await self._pass(key)
        finally:
            self._queue.finish(key)

    async def _guarded_pass(self, key: str, slots: asyncio.Semaphore) -> None:
        started = self._clock.monotonic()
        outcome = "error"
        try:
            outcome = type(await self._pass(key)).__name__.lower()
        except Exception:
            delay = self._back_off(key)
            log.exception("%s: the pass over %s failed; the next one is in %g s", self.name, key, delay)
        finally:
            self._queue.finish(key)
            slots.release()
        self._report(outcome, started)

    async def _pass(self, key: str) -> Outcome:
        outcome = await self._handle(key)
        self._failures.pop(key, None)
        previous = self.blocked.pop(key, None)
        match outcome:
            case Requeue(after):
                self._queue.mark(key, after)
            case Blocked(reason, retry):
                self.blocked[key] = reason
                if reason != previous:
                    log.info("%s: %s is blocked: %s", self.name, key, reason)
                if retry is not None:
                    self._queue.mark(key, retry)
            case Done():
                pass
        return outcome

    def _back_off(self, key: str) -> float:
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay = min(_LONGEST_BACKOFF, _FIRST_BACKOFF * (1 << min(failures, 10)))
        self._queue.mark(key, delay)
        return delay

    def _report(self, outcome: str, started: float) -> None:
        if self._observe is None:
            return
        try:
            self._observe(self.name, outcome, self._clock.monotonic() - started)
        except Exception:
            log.exception("%s: a pass couldn't be counted", self.name)
