"""The log file of each process, and the last words in it."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

_ROTATE_BYTES = 16 << 20
_KEPT = 3
_TAIL_BYTES = 64 << 10
_EXCEPTION = re.compile(r"^(?:[A-Za-z_][\w.]*): (?=\S)")
_BAD = ("critical", "error", "fatal")


class LogFile:
    """Where one process writes; `begun` is where its present run began."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.begun = 0

    def rotate(self) -> None:
        """Puts a file that has grown large aside. For between two runs. Raises OSError."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._size() > _ROTATE_BYTES:
            self._put_aside()

    def open(self) -> int:
        """A descriptor for a new run, behind what is there. Raises OSError."""
        self.rotate()
        self.begun = self._size()
        return os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def last_words(self) -> str | None:
        """The sentence with which the present run ended: its last error, else its last line."""
        try:
            with self.path.open("rb") as file:
                file.seek(max(self.begun, self._size() - _TAIL_BYTES))
                lines = file.read().decode("utf-8", "replace").splitlines()
        except OSError:
            return None
        spoken = [_speech(line) for line in lines if line.strip()]
        errors = [text for bad, text in spoken if bad]
        return errors[-1] if errors else next((text for _, text in reversed(spoken)), None)

    def _size(self) -> int:
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0

    def _put_aside(self) -> None:
        for number in range(_KEPT, 0, -1):
            older = self.path.with_name(f"{self.path.name}.{number}")
            newer = self.path if number == 1 else self.path.with_name(f"{self.path.name}.{number - 1}")
            if newer.exists():
                newer.replace(older)


def _speech(line: str) -> tuple[bool, str]:
    """Whether a line tells of an error, and its sentence: of a JSON line the exception's or event's text."""
    try:
        record = json.loads(line)
        event, trace = str(record["event"]), str(record.get("traceback", ""))
        bad = record.get("level") in _BAD
    except (ValueError, KeyError, TypeError):
        return False, line.strip()
    return bad, _raised(trace) or event


def _raised(trace: str) -> str:
    """The first line of an exception's text: it stands behind the last frame, which is indented."""
    _, frame, rest = trace.rpartition('\n  File "')
    behind = [line for line in rest.splitlines()[1:] if not line.startswith(" ")] if frame else trace.splitlines()[-1:]
    return _EXCEPTION.sub("", behind[0].strip()) if behind else ""
