"""Riding out a restart of the API."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from anycloud_cli.clock import Clock
from anycloud_cli.failures import Failure, passing

T = TypeVar("T")
_PAUSES = (0.5, 1.0, 2.0, 4.0, 5.0)


def _silent(_failure: Failure) -> None:
    pass


class Patience:
    """Repeats requests that fail for a reason that passes. A limit of 0 s gives up at once.

    `complain` hears of the first failure of a series."""

    def __init__(self, clock: Clock, limit_seconds: float, complain: Callable[[Failure], None] = _silent) -> None:
        self._clock = clock
        self._limit = limit_seconds
        self._complain = complain

    def read(self, fetch: Callable[[], T], worth: Callable[[Failure], bool] = passing) -> T:
        """The first good answer. Raises what the last attempt raised, or the first failure that isn't worth a wait."""
        begun = self._clock.monotonic()
        attempt = 0
        while True:
            try:
                return fetch()
            except Failure as failure:
                pause = _PAUSES[min(attempt, len(_PAUSES) - 1)]
                if not worth(failure) or self._clock.monotonic() + pause - begun > self._limit:
                    raise
                if attempt == 0:
                    self._complain(failure)
                self._clock.sleep(pause)
                attempt += 1
