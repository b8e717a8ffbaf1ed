"""Everything that must outlive a kill: JSON documents in one SQLite file, kept in memory and written in groups."""

import asyncio
import fcntl
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import orjson

Json = dict[str, Any]
TABLE = "CREATE TABLE IF NOT EXISTS doc (space TEXT, key TEXT, value BLOB, PRIMARY KEY (space, key)) WITHOUT ROWID"


class Pace(NamedTuple):
    """How fast the world moves."""

    delay: float = 1.0  # scales each wait that stands for a real one; 0 for none
    lease_seconds: float = 40.0  # a Node whose heartbeat is older counts as lost


class State:
    """Documents by (space, key). `commit` writes what was put since the last one, in one transaction.

    WAL without fsync: a killed process loses nothing that was committed (the pages are the kernel's by then);
    a power cut may, which a sandbox can afford. A second process on the directory gets BlockingIOError.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = (directory / "sandbox.lock").open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._db = sqlite3.connect(directory / "sandbox.sqlite", isolation_level=None)
        for statement in ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = OFF", TABLE):
            self._db.execute(statement)
        self._dirty: dict[tuple[str, str], Json | None] = {}
        self._after: list[Callable[[], None]] = []

    def load(self, space: str) -> dict[str, Json]:
        rows = self._db.execute("SELECT key, value FROM doc WHERE space = ?", (space,))
        return {key: orjson.loads(value) for key, value in rows}

    def put(self, space: str, key: str, value: Json | None) -> None:
        """Writes (or with None removes) a document at the next commit: at the latest in this turn of the loop."""
        if not self._dirty:
            asyncio.get_running_loop().call_soon(self.commit)
        self._dirty[space, key] = value

    def after_commit(self, function: Callable[[], None]) -> None:
        """Called once, after the commit that holds what was put so far: nobody is told of what a kill could undo."""
        self._after.append(function)

    def commit(self) -> None:
        rows = [(*at, None if value is None else orjson.dumps(value)) for at, value in self._dirty.items()]
        self._dirty = {}
        if rows:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany("INSERT OR REPLACE INTO doc VALUES (?, ?, ?)", [row for row in rows if row[2]])
            self._db.executemany("DELETE FROM doc WHERE space = ? AND key = ?", [row[:2] for row in rows if not row[2]])
            self._db.execute("COMMIT")
        after, self._after = self._after, []
        for function in after:
            function()
