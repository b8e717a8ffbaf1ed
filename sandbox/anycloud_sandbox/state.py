"""What outlives a kill (JSON documents in one SQLite file, written in groups), and faults on demand."""

import asyncio
import fcntl
import secrets
import sqlite3
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import orjson

Json = dict[str, Any]
TABLE = "CREATE TABLE IF NOT EXISTS doc (space TEXT, key TEXT, value BLOB, PRIMARY KEY (space, key)) WITHOUT ROWID"
ERRORS = {"capacity": 503, "quota": 403, "auth": 401, "throttled": 429, "conflict": 409}
ERRORS |= {"not_found": 404, "unreachable": 503, "invalid": 400}  # class of an error: its HTTP status
MACHINES = ("never-boots", "never-joins")  # of a machine, when it is created
NODES = ("not-ready", "silent", "zero-gpus")  # of a Node, as long as they are there
MOMENTS = ("cut", "compact")  # of live watches and their history, at the moment they are added
OTHERS = ("slow", "lost", "down", "pull-failure", "crash-loop", "refused", "denied")
EFFECTS = sorted((*ERRORS, *MACHINES, *NODES, *MOMENTS, *OTHERS))


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


class WorldError(Exception):
    """An answer of the outside world that is not a success, by the class in which gateways sort it."""

    def __init__(self, kind: str, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.kind, self.message, self.status = kind, message, status or ERRORS[kind]


class Faults:
    """What to hit (`match`), what happens (`effect`), and how often (`times`; None: until it is removed).

    A call describes itself by a few fields (area, action, provider, name, …); a fault hits it when each of its `match`
    values, which may hold `*`, equals the call's field of that name. `on_change` is told of each that comes or goes.
    """

    def __init__(self, state: State) -> None:
        self._state, self.all = state, state.load("faults")
        self.on_change: list[Callable[[Json], None]] = []

    def add(self, body: Json) -> Json:
        effect, match, times = body.get("effect"), body.get("match") or {}, body.get("times")
        if effect not in EFFECTS or not isinstance(match, dict) or not isinstance(times, int | None):
            raise WorldError("invalid", f"match is an object, times a number, effect one of {', '.join(EFFECTS)}")
        fault = {"id": "fault-" + secrets.token_hex(4), "effect": effect, "match": match, "times": times}
        fault |= {"seconds": body.get("seconds", 1), "message": body.get("message") or f"injected: {effect}"}
        return self._put(fault, effect not in MOMENTS)

    def remove(self, fault_id: str) -> Json:
        if fault_id not in self.all:
            raise WorldError("not_found", f"no fault {fault_id}")
        return self._put(self.all[fault_id], False)

    def holds(self, effect: str, **fields: Any) -> Json | None:
        """The first fault of that effect that hits."""
        for fault in self.all.values():
            pairs = ((str(fields.get(name, "")), str(wanted)) for name, wanted in fault["match"].items())
            if fault["effect"] == effect and all(fnmatchcase(text, wanted) for text, wanted in pairs):
                return fault
        return None

    def take(self, effect: str, **fields: Any) -> Json | None:
        """As `holds`, and uses it up once."""
        found = self.holds(effect, **fields)
        if found and found["times"] is not None:
            found["times"] -= 1
            self._put(found, found["times"] > 0)
        return found

    async def before(self, **fields: Any) -> str:
        """Waits and raises as the faults on a call want it; `lost`, `down`: its answer, or all of it, must be."""
        if slow := self.take("slow", **fields):
            await asyncio.sleep(slow["seconds"])
        for kind in ERRORS if self.all else ():
            if fault := self.take(kind, **fields):
                raise WorldError(kind, fault["message"])
        return "down" if self.holds("down", **fields) else "lost" if self.take("lost", **fields) else ""

    def _put(self, fault: Json, keep: bool) -> Json:
        self.all[fault["id"]] = fault
        self._state.put("faults", fault["id"], fault if keep else None)
        if not keep:
            del self.all[fault["id"]]
        for function in self.on_change:
            function(fault)
        return fault
