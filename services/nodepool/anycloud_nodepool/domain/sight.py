"""A clock that stands still while the cluster can't be read, so that an outage replaces nothing.

Its reading is stored now and then; after a restart it goes on from there, a little behind rather than ahead.
"""

from __future__ import annotations

from typing import Final

from anycloud_common.clock import Clock

STORE_EVERY_MS: Final = 60_000


class Sight:
    """`seen_ms` is how long the cluster could be read, up to the last `look`."""

    def __init__(self, clock: Clock, seen_ms: int) -> None:
        self._clock = clock
        self._sighted_at: float | None = None
        self.seen_ms = seen_ms
        self._stored_ms = seen_ms

    def look(self, sighted: bool) -> int:
        """Tells whether the cluster can be read now; time since the last look counts if it could then, too."""
        now = self._clock.monotonic()
        if sighted and self._sighted_at is not None:
            self.seen_ms += round((now - self._sighted_at) * 1000)
        self._sighted_at = now if sighted else None
        return self.seen_ms

    @property
    def to_store(self) -> bool:
        """Whether the stored reading has fallen too far behind."""
        return self.seen_ms - self._stored_ms >= STORE_EVERY_MS

    def stored(self, seen_ms: int) -> None:
        self._stored_ms = seen_ms
