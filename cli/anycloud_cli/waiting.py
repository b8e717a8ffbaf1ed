"""Waiting for objects to reach their target; only reads, never ends or restarts anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple, Protocol

from anycloud_cli.client import Client, path
from anycloud_cli.failures import REFUSED, TIMED_OUT, USAGE, Failure
from anycloud_cli.patience import Patience
from anycloud_cli.session import Session
from anycloud_cli.views import workload as workload_view
from anycloud_cli.views.layout import state as shown_state
from anycloud_cli.watching import RIDE_OUT_SECONDS

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 2.0
_HEARTBEAT_SECONDS = 1800.0
Verdict = Literal["waiting", "reached", "ended"]


class Observation(NamedTuple):
    """What one look showed. `news` is compared with the last look's to tell a change; `facts` go into JSON records."""

    state: str
    verdict: Verdict
    detail: str = ""
    facts: dict[str, Any] = {}  # noqa: RUF012  (a NamedTuple's default, never changed)

    @property
    def news(self) -> tuple[str, str]:
        return self.state, self.detail


class Target(Protocol):
    """Something to wait for."""

    reference: str

    def observe(self) -> Observation: ...


class WorkloadTarget:
    """A Job until it is completed; a Service or VM until it runs."""

    def __init__(self, api: Client, workload_id: str) -> None:
        self.reference = workload_id
        self._api = api

    def observe(self) -> Observation:
        answer = self._api.get(path("workloads", self.reference))
        workload = answer["workload"]
        goal = "completed" if workload["workloadType"] == "job" else "running"
        facts = {key: answer[key] for key in ("jobsAhead", "retry") if answer.get(key) is not None}
        name = workload["state"]
        if name == goal:
            return Observation(name, "reached", facts=facts)
        if name in workload_view.TERMINAL:
            reason = workload_view.reason(answer)
            return Observation(name, "ended", reason or "", facts | ({"reason": reason} if reason else {}))
        attempt = f"attempt {facts['retry']['attempt']}" if "retry" in facts else ""
        return Observation(name, "waiting", attempt, facts)


class DeploymentTarget:
    """A Deployment until the Pod on a revision, or on a later one, is ready. Without a revision: on the latest."""

    def __init__(self, api: Client, deployment: str, revision: int | None = None) -> None:
        self.reference = f"deployment/{deployment}"
        self._api = api
        self._deployment = deployment
        self._revision = revision

    def observe(self) -> Observation:
        seen = self._api.get(path("deployments", self._deployment))["deployment"]["status"]
        wanted = self._revision or seen["requestedGeneration"]
        name = shown_state(seen["state"], seen["releasing"])
        facts = {"revision": wanted, "reason": seen["reason"]}
        if seen["ready"] and (seen["podGeneration"] or 0) >= wanted and seen["state"] == "running":
            return Observation(name, "reached", facts=facts)
        ended = seen["state"] == "terminated" or _rollout_failed(seen, wanted)
        return Observation(name, "ended" if ended else "waiting", seen["reason"], facts)


def _rollout_failed(seen: dict[str, Any], wanted: int) -> bool:
    """Whether the wanted revision, or a later one in its place, can't start. Upgrade N is revision N + 1."""
    upgrade = seen["upgrade"]
    if upgrade is None:
        return bool(seen["state"] == "failed")
    return bool(upgrade["state"] == "failed" and upgrade["number"] + 1 >= wanted)


class NodePoolTarget:
    """A node pool until it runs."""

    def __init__(self, api: Client, pool: str) -> None:
        self.reference = f"node-pool/{pool}"
        self._api = api
        self._pool = pool

    def observe(self) -> Observation:
        return _until_running(self._api.get(path("node-pools", self._pool))["nodePool"])


class ClusterTarget:
    """A cluster until it runs."""

    def __init__(self, api: Client, cluster: str) -> None:
        self.reference = f"cluster/{cluster}"
        self._api = api
        self._cluster = cluster

    def observe(self) -> Observation:
        return _until_running(self._api.get(path("clusters", self._cluster))["cluster"])


def _until_running(seen: dict[str, Any]) -> Observation:
    name = shown_state(seen["state"], seen["releasing"])
    verdicts: dict[str, Verdict] = {"running": "reached", "failed": "ended", "terminated": "ended"}
    error = seen["lastError"] or ""
    return Observation(name, verdicts.get(seen["state"], "waiting"), error, {"reason": error} if error else {})


_KINDS: dict[str, Callable[[Client, str], Target]] = {
    "deployment": DeploymentTarget,
    "node-pool": NodePoolTarget,
    "cluster": ClusterTarget,
}


def target(api: Client, reference: str) -> Target:
    """What `deployment/ID`, `node-pool/ID`, `cluster/ID` or a Job's id stands for."""
    kind, separator, name = reference.partition("/")
    if not separator:
        return WorkloadTarget(api, reference)
    if kind not in _KINDS or not name:
        said = f"{reference!r} isn't a Job's id, deployment/ID, node-pool/ID or cluster/ID."
        raise Failure(said, exit_code=USAGE)
    return _KINDS[kind](api, name)


@contextmanager
def observing() -> Iterator[None]:
    """Whatever fails inside means that the state can't be observed."""
    try:
        yield
    except Failure as failure:
        raise Failure(failure.message, exit_code=USAGE, next_command=failure.next_command) from failure


def follow(session: Session, targets: Sequence[Target], timeout: float | None = None) -> int:
    """Waits for all. The exit code: 0 all reached, 1 one ended otherwise, 4 the time is over first.

    Raises Failure with exit code 2 when a target can't be observed."""
    with observing():
        return _Follower(session, targets, timeout).run()


class _Follower:
    def __init__(self, session: Session, targets: Sequence[Target], timeout: float | None) -> None:
        self._session = session
        self._clock = session.clock
        self._pending = list(targets)
        self._seen: dict[str, Observation] = {}
        self._deadline = None if timeout is None else self._clock.monotonic() + timeout
        self._spoken = self._clock.monotonic()
        self._code = 0

    def run(self) -> int:
        pause = _FIRST_PAUSE
        while True:
            changed = [self._look(waited) for waited in list(self._pending)]
            if not self._pending:
                return self._code
            pause = _FIRST_PAUSE if any(changed) else min(pause * 1.5, _LONGEST_PAUSE)
            if self._clock.monotonic() - self._spoken >= _HEARTBEAT_SECONDS:
                self._heartbeat()
            if not self._sleep(pause):
                return self._out_of_time()

    def _look(self, waited: Target) -> bool:
        """Observes one target; True when something is new."""
        first = waited.reference not in self._seen
        patience = Patience(self._clock, 0.0 if first else self._bearable(), self._complain)
        seen = patience.read(waited.observe)
        last = self._seen.get(waited.reference)
        self._seen[waited.reference] = seen
        changed = last is None or last.news != seen.news
        if changed:
            self._tell("state", waited, seen)
        if seen.verdict != "waiting":
            self._pending.remove(waited)
            self._code = max(self._code, REFUSED if seen.verdict == "ended" else 0)
            self._result(waited, seen, seen.verdict)
        return changed

    def _bearable(self) -> float:
        left = RIDE_OUT_SECONDS if self._deadline is None else self._deadline - self._clock.monotonic()
        return min(left, RIDE_OUT_SECONDS)

    def _sleep(self, pause: float) -> bool:
        """False when the time given is over."""
        left = pause if self._deadline is None else self._deadline - self._clock.monotonic()
        if left <= 0:
            return False
        self._clock.sleep(min(pause, left))
        return True

    def _out_of_time(self) -> int:
        for waited in self._pending:
            self._result(waited, self._seen[waited.reference], "timeout")
        states = ", ".join(f"{waited.reference} ({self._seen[waited.reference].state})" for waited in self._pending)
        self._session.out.note(f"The time given is over; what wasn't reached goes on: {states}.")
        return self._code or TIMED_OUT

    def _tell(self, kind: str, waited: Target, seen: Observation) -> None:
        self._spoken = self._clock.monotonic()
        if self._session.out.as_json:
            self._record(kind, ref=waited.reference, state=seen.state, **seen.facts)
            return
        still = "still " if kind == "heartbeat" else ""
        ahead = workload_view.queue(seen.facts)
        extra = f" · {ahead}" if ahead and seen.state == "queued" else ""
        detail = f": {seen.detail}" if seen.detail else ""
        self._session.out.lines([f"{waited.reference}  {still}{seen.state}{extra}{detail}"])

    def _result(self, waited: Target, seen: Observation, outcome: str) -> None:
        if self._session.out.as_json:
            self._record("result", ref=waited.reference, state=seen.state, outcome=outcome, **seen.facts)

    def _heartbeat(self) -> None:
        for waited in self._pending:
            self._tell("heartbeat", waited, self._seen[waited.reference])

    def _complain(self, failure: Failure) -> None:
        if self._session.out.as_json:
            self._record("observer", message=failure.message)
        else:
            self._session.complain(failure)

    def _record(self, kind: str, **fields: Any) -> None:
        self._session.out.record({"type": kind, "at": self._clock.now_ms(), **fields})
