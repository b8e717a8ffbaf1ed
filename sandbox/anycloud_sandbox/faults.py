"""Faults on demand: what to hit (`match`), what happens (`effect`), and how often (`times`).

A call describes itself by a few fields (area, action, provider, name, …); a fault hits it when each of the fault's
`match` values, which may hold `*`, equals the call's field of that name.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from aiohttp import web

from anycloud_sandbox.state import Json, State

ERROR_STATUS = {
    "capacity": 503,
    "quota": 403,
    "auth": 401,
    "throttled": 429,
    "conflict": 409,
    "not_found": 404,
    "unreachable": 503,
    "invalid": 400,
}
EFFECTS = {
    **{name: f"the call fails with class {name}, before any work" for name in ERROR_STATUS},
    "slow": "the call takes `seconds` longer",
    "lost": "the work is done, then the connection breaks instead of an answer",
    "never-boots": "a machine that is created stays pending",
    "never-joins": "a machine that is created runs, but nothing on it starts",
    "not-ready": "a Node reports Ready=False while the fault lasts",
    "silent": "a Node's agent stops its heartbeat while the fault lasts",
    "zero-gpus": "a Node reports no allocatable GPU while the fault lasts",
    "pull-failure": "the image can't be pulled",
    "crash-loop": "the container's command is replaced by one that exits 1",
    "down": "the Kubernetes API drops every connection",
    "cut": "live watches that match break once, at the moment the fault is added",
    "compact": "the Kubernetes API forgets its watch history, so that older versions answer 410",
    "refused": "GitHub does not know the token",
    "denied": "a SelfSubjectAccessReview answers no",
}


class WorldError(Exception):
    """An answer of the outside world that is not a success, by the class in which gateways sort it."""

    def __init__(self, kind: str, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.kind, self.message, self.status = kind, message, status or ERROR_STATUS[kind]

    def response(self) -> web.Response:
        headers = {"Retry-After": "1"} if self.kind == "throttled" else {}
        body = {"class": self.kind, "message": self.message}
        return web.json_response(body, status=self.status, headers=headers)


@dataclass
class Fault:
    id: str
    match: Mapping[str, str]
    effect: str
    times: int | None  # None: until it is removed
    seconds: float
    message: str

    def hits(self, fields: Mapping[str, Any]) -> bool:
        return all(fnmatchcase(str(fields.get(name, "")), wanted) for name, wanted in self.match.items())

    def document(self) -> Json:
        return {**vars(self), "match": dict(self.match)}


class Faults:
    """The faults in force. `on_change` is told of each that comes or goes."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.all = {key: Fault(**value) for key, value in state.load("faults").items()}
        self.on_change: list[Callable[[Fault], None]] = []

    def add(self, body: Json) -> Fault:
        effect, match, times = body.get("effect"), body.get("match", {}), body.get("times")
        if effect not in EFFECTS:
            raise WorldError("invalid", f"effect must be one of {', '.join(sorted(EFFECTS))}")
        if not isinstance(match, dict) or not (times is None or (isinstance(times, int) and times > 0)):
            raise WorldError("invalid", "match is an object of texts, times a positive number or absent")
        fault = Fault(
            id="fault-" + secrets.token_hex(4),
            match={str(name): str(value) for name, value in match.items()},
            effect=effect,
            times=times,
            seconds=float(body.get("seconds", 1)),
            message=str(body.get("message") or f"injected: {EFFECTS[effect]}"),
        )
        if effect not in ("cut", "compact"):
            self._keep(fault)
        self._tell(fault)
        return fault

    def remove(self, fault_id: str) -> None:
        fault = self.all.pop(fault_id, None)
        if fault is None:
            raise WorldError("not_found", f"no fault {fault_id}")
        self._state.put("faults", fault_id, None)
        self._tell(fault)

    def take(self, effect: str, **fields: Any) -> Fault | None:
        """The first fault of that effect that hits, used up once."""
        found = self.holds(effect, **fields)
        if found and found.times is not None:
            found.times -= 1
            if found.times:
                self._keep(found)
            else:
                self.remove(found.id)
        return found

    def holds(self, effect: str, **fields: Any) -> Fault | None:
        """As `take`, for states that last: nothing is used up."""
        return next((fault for fault in self.all.values() if fault.effect == effect and fault.hits(fields)), None)

    async def before(self, **fields: Any) -> bool:
        """Waits and raises as the faults on a call want it; true when its answer must get lost."""
        if not self.all:
            return False
        if slow := self.take("slow", **fields):
            await asyncio.sleep(slow.seconds)
        for kind in ERROR_STATUS:
            if fault := self.take(kind, **fields):
                raise WorldError(kind, fault.message)
        return self.take("lost", **fields) is not None

    def _keep(self, fault: Fault) -> None:
        self.all[fault.id] = fault
        self._state.put("faults", fault.id, fault.document())

    def _tell(self, fault: Fault) -> None:
        for function in self.on_change:
            function(fault)
