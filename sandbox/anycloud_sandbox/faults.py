"""Faults on demand: what to hit (`match`), what happens (`effect`), and how often (`times`).

A call describes itself by a few fields (area, action, provider, name, …); a fault hits it when each of the fault's
`match` values, which may hold `*`, equals the call's field of that name.
"""

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from anycloud_sandbox.state import Json, State

ERRORS = {"capacity": 503, "quota": 403, "auth": 401, "throttled": 429, "conflict": 409}
ERRORS |= {"not_found": 404, "unreachable": 503, "invalid": 400}  # class of an error: its HTTP status
MACHINES = ("never-boots", "never-joins")  # of a machine, when it is created
NODES = ("not-ready", "silent", "zero-gpus")  # of a Node, as long as they are there
MOMENTS = ("cut", "compact")  # of live watches and their history, at the moment they are added
OTHERS = ("slow", "lost", "down", "pull-failure", "crash-loop", "refused", "denied")
EFFECTS = sorted((*ERRORS, *MACHINES, *NODES, *MOMENTS, *OTHERS))


class WorldError(Exception):
    """An answer of the outside world that is not a success, by the class in which gateways sort it."""

    def __init__(self, kind: str, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.kind, self.message, self.status = kind, message, status or ERRORS[kind]


@dataclass
class Fault:
    id: str
    match: dict[str, str]
    effect: str
    times: int | None  # None: until it is removed
    seconds: float
    message: str


class Faults:
    """The faults in force. `on_change` is told of each that comes or goes."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.all = {key: Fault(**value) for key, value in state.load("faults").items()}
        self.on_change: list[Callable[[Fault], None]] = []

    def add(self, body: Json) -> Json:
        effect, match, times = body.get("effect"), body.get("match") or {}, body.get("times")
        if effect not in EFFECTS or not isinstance(match, dict) or not isinstance(times, int | None):
            raise WorldError("invalid", f"match is an object, times a number, effect one of {', '.join(EFFECTS)}")
        texts = {str(name): str(value) for name, value in match.items()}
        message = str(body.get("message") or f"injected: {effect}")
        fault = Fault("fault-" + secrets.token_hex(4), texts, effect, times, float(body.get("seconds", 1)), message)
        self._put(fault, effect not in MOMENTS)
        return vars(fault)

    def remove(self, fault_id: str) -> Json:
        if fault_id not in self.all:
            raise WorldError("not_found", f"no fault {fault_id}")
        self._put(self.all[fault_id], False)
        return {}

    def holds(self, effect: str, **fields: Any) -> Fault | None:
        """The first fault of that effect that hits."""
        for fault in self.all.values():
            pairs = ((str(fields.get(name, "")), wanted) for name, wanted in fault.match.items())
            if fault.effect == effect and all(fnmatchcase(text, wanted) for text, wanted in pairs):
                return fault
        return None

    def take(self, effect: str, **fields: Any) -> Fault | None:
        """As `holds`, and uses it up once."""
        found = self.holds(effect, **fields)
        if found and found.times is not None:
            found.times -= 1
            self._put(found, found.times > 0)
        return found

    async def before(self, **fields: Any) -> str:
        """Waits and raises as the faults on a call want it; `lost`, `down`: its answer, or all of it, must be."""
        if slow := self.take("slow", **fields):
            await asyncio.sleep(slow.seconds)
        for kind in ERRORS if self.all else ():
            if fault := self.take(kind, **fields):
                raise WorldError(kind, fault.message)
        return "down" if self.holds("down", **fields) else "lost" if self.take("lost", **fields) else ""

    def _put(self, fault: Fault, keep: bool) -> None:
        self.all[fault.id] = fault
        self._state.put("faults", fault.id, {**vars(fault)} if keep else None)
        if not keep:
            del self.all[fault.id]
        for function in self.on_change:
            function(fault)
