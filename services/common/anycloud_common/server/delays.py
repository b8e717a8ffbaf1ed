"""Slows down whoever guesses tokens, by source address."""

from __future__ import annotations

from collections import OrderedDict, deque

from anycloud_common.clock import Clock

FREE_FAILURES = 5
WINDOW = 60.0
FIRST_DELAY = 0.2
LONGEST_DELAY = 5.0
_DOUBLINGS = 5  # 0.2 s doubled five times is beyond the longest delay
_ADDRESSES = 4096


class FailureDelays:
    """Remembers the failed bearer checks of the last minute; of at most 4096 addresses, those that failed last."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures: OrderedDict[str, deque[float]] = OrderedDict()

    def failed(self, address: str) -> float:
        """Counts one more failure, and gives the seconds that its answer has to wait."""
        now = self._clock.monotonic()
        times = self._failures.setdefault(address, deque(maxlen=FREE_FAILURES + _DOUBLINGS + 1))
        self._failures.move_to_end(address)
        if len(self._failures) > _ADDRESSES:
            self._failures.popitem(last=False)
        while times and times[0] <= now - WINDOW:
            times.popleft()
        times.append(now)
        beyond = len(times) - FREE_FAILURES
        return min(FIRST_DELAY * 2 ** (beyond - 1), LONGEST_DELAY) if beyond > 0 else 0.0
