"""Ages for people, durations from people."""

from __future__ import annotations

import re

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)([smhd]?)")


def age(since_ms: float, now_ms: int) -> str:
    """How long ago, in the largest whole unit: `12s`, `5m`, `3h`, `2d`. A clock that runs ahead gives `0s`."""
    return length(now_ms - since_ms)


def length(milliseconds: float) -> str:
    """A span in its largest whole unit."""
    seconds = max(0, int(milliseconds // 1000))
    for unit in ("d", "h", "m"):
        if seconds >= _UNITS[unit]:
            return f"{seconds // _UNITS[unit]}{unit}"
    return f"{seconds}s"


def moment(epoch_ms: float) -> str:
    """A point in time, UTC, to the second: `2026-10-01 12:00:05`."""
    from datetime import UTC, datetime

    return datetime.fromtimestamp(epoch_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def parse(text: str) -> float:
    """Seconds of `90`, `90s`, `1.5m`, `2h` or `1d`. ValueError for anything else."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ValueError(text)
    return float(match[1]) * _UNITS[match[2]]
