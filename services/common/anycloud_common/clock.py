"""Time as the services see it: injected, so that tests step it instead of waiting."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from typing import Protocol


class Clock(Protocol):
    """Wall time for what is stored, monotonic time for deadlines, and waiting."""

    def now_ms(self) -> int:
        """Wall time in epoch milliseconds."""
        ...

    def monotonic(self) -> float:
        """Seconds since an arbitrary start; never goes back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Waits that many seconds; zero or less only lets other tasks run."""
        ...


class SystemClock:
    """The machine's own time."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))


# Turns of the event loop given to tasks after each wake-up, so that whoever was woken can fall asleep again before
# time goes on. Tasks that wait for a thread or a socket need more than turns: a test awaits `sleeping` for them.
_TURNS = 100


class ManualClock:
    """Time that moves only by `advance`. Counts in whole microseconds, so ten steps of 0.1 s are exactly one second."""

    def __init__(self, start_ms: int = 1_750_000_000_000) -> None:
        self._start_ms = start_ms
        self._elapsed_us = 0
        self._order = itertools.count()
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []
        self._fell_asleep = asyncio.Event()

    def now_ms(self) -> int:
        return self._start_ms + self._elapsed_us // 1000

    def monotonic(self) -> float:
        return self._elapsed_us / 1_000_000

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        due = self._elapsed_us + max(1, round(seconds * 1_000_000))
        heapq.heappush(self._sleepers, (due, next(self._order), woken))
        self._fell_asleep.set()
        await woken

    @property
    def sleepers(self) -> int:
        """How many tasks wait in `sleep` now."""
        return sum(not woken.done() for _, _, woken in self._sleepers)

    async def sleeping(self, count: int) -> None:
        """Returns once at least `count` tasks wait in `sleep`, for tasks that need a thread or socket first."""
        while self.sleepers < count:
            self._fell_asleep.clear()
            await self._fell_asleep.wait()

    async def advance(self, seconds: float) -> None:
        """Moves time by that much. Sleepers wake one by one in order of their due time, those of one time in the order
        in which they fell asleep; each sees its own due time as now, and one that sleeps again within the step wakes
        again within it."""
        target = self._elapsed_us + round(seconds * 1_000_000)
        await _turns()
        while self._sleepers and self._sleepers[0][0] <= target:
            due, _, woken = heapq.heappop(self._sleepers)
            if woken.done():  # its task was cancelled
                continue
            self._elapsed_us = max(self._elapsed_us, due)
            woken.set_result(None)
            await _turns()
        self._elapsed_us = max(self._elapsed_us, target)


async def _turns() -> None:
    for _ in range(_TURNS):
        await asyncio.sleep(0)
