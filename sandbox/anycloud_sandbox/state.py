"""Everything that must outlive a kill: JSON documents in one SQLite file, kept in memory and written in groups."""

from __future__ import annotations

import asyncio
import fcntl
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

Json = dict[str, Any]


class StateInUse(Exception):
    """Another sandbox serves this state directory."""


class State:
    """Documents by (space, key). `commit` writes what was put since the last one, in one transaction.

    WAL without fsync: a killed process loses nothing that was committed (the pages are the kernel's by then);
    a power cut may, which a sandbox can afford.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = os.open(directory / "sandbox.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise StateInUse(f"another sandbox serves {directory}") from error
        self._db = sqlite3.connect(directory / "sandbox.sqlite", isolation_level=None)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = OFF")
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS doc (space TEXT, key TEXT, value BLOB, PRIMARY KEY (space, key)) WITHOUT ROWID"
        )
        (directory / "sandbox.sqlite").chmod(0o600)
        self._dirty: dict[tuple[str, str], Json | None] = {}
        self._after: list[Callable[[], None]] = []
        self._scheduled = False

    def load(self, space: str) -> dict[str, Json]:
        rows = self._db.execute("SELECT key, value FROM doc WHERE space = ? ORDER BY key", (space,))
        return {key: orjson.loads(value) for key, value in rows}

    def put(self, space: str, key: str, value: Json | None) -> None:
        """Writes (or with None removes) a document at the next commit: at the latest in this turn of the loop."""
        self._dirty[(space, key)] = value
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self.commit)

    def clear(self, space: str) -> None:
        """Drops a space and those below it."""
        self.commit()
        self._db.execute("DELETE FROM doc WHERE space = ? OR space LIKE ?", (space, f"{space}/%"))

    def after_commit(self, function: Callable[[], None]) -> None:
        """Called once, after the commit that holds what was put so far: nobody is told of what a kill could undo."""
        self._after.append(function)

    def commit(self) -> None:
        self._scheduled = False
        dirty, self._dirty = self._dirty, {}
        if dirty:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany(
                "DELETE FROM doc WHERE space = ? AND key = ?", [at for at, value in dirty.items() if value is None]
            )
            self._db.executemany(
                "INSERT OR REPLACE INTO doc VALUES (?, ?, ?)",
                [(*at, orjson.dumps(value)) for at, value in dirty.items() if value is not None],
            )
            self._db.execute("COMMIT")
        after, self._after = self._after, []
        for function in after:
            function()

    def close(self) -> None:
        self.commit()
        self._db.close()
        os.close(self._lock)
