"""How long to wait before a process that ended is started again."""

from __future__ import annotations

_FIRST, _LONGEST = 0.5, 30.0
_GOOD_LIFE = 60.0


class Backoff:
    """0.5 s, doubling to 30 s; anew after a minute of life."""

    def __init__(self) -> None:
        self._next = _FIRST

    def after(self, lived: float) -> float:
        """The pause after a run of that many seconds."""
        if lived >= _GOOD_LIFE:
            self._next = _FIRST
        pause = self._next
        self._next = min(pause * 2, _LONGEST)
        return pause
