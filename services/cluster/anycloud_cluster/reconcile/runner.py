"""One pass over one cluster: takes its lease, runs the phases that are due, and stores how far it came."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from anycloud_common.kube import KubeError
from anycloud_common.reconcile import Blocked, Done, Outcome, Requeue
from anycloud_common.store import leases
from anycloud_providers.protocol import ProviderError

from anycloud_cluster.domain.cluster import CREATE_PHASES, DELETE_PHASES, Intent, State, next_phase
from anycloud_cluster.domain.ports import OutsideError, SignInRefused
from anycloud_cluster.domain.resource import SIGN_IN_REQUIRED, backoff
from anycloud_cluster.reconcile import create, delete
from anycloud_cluster.reconcile.work import Next, Permanent, Superseded, Tools, Wait, Work
from anycloud_cluster.store import clusters
from anycloud_cluster.store.tables import CLUSTER

log = logging.getLogger(__name__)

_LEASED_S: Final = 5.0
_BACKOFF_S: Final = (2.0, 60.0)
# Reasons that may pass by themselves, however long it takes.
_TRANSIENT: Final = frozenset({"unreachable", "throttled", "capacity", "conflict"})
# A server that has just started doesn't know all kinds yet.
_KUBE_TRANSIENT: Final = frozenset({"unreachable", "throttled", "conflict", "not_found"})
_PATIENCE_MS: Final = 30 * 60_000  # for one step
DELETE_FAILED: Final = "Delete failed: "


class ClusterReconciler:
    """`handle` is the pass. `finished` is called with the id of a cluster whose last phase is complete."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self.finished: Callable[[str], None] = lambda cluster_id: None

    async def handle(self, cluster_id: str) -> Outcome:
        found = await self._tools.store.look(lambda conn: clusters.by_id(conn, cluster_id))
        if found is None or not found.phase or found.blocked or found.state is State.FAILED:
            return Done()
        lease = await self._tools.store.write(lambda tx: leases.take(tx, CLUSTER, cluster_id))
        if lease is None:
            return Requeue(_LEASED_S)
        try:
            return await self._under_lease(cluster_id, lease)
        finally:
            await self._tools.store.write(lambda tx: leases.release(tx, CLUSTER, cluster_id, lease))

    async def _under_lease(self, cluster_id: str, lease: str) -> Outcome:
        found = await self._tools.store.look(lambda conn: clusters.by_id(conn, cluster_id))
        if found is None:
            return Done()
        work = Work(self._tools, found, lease)
        try:
            return await self._phases(work)
        except Superseded:
            return Done()

    async def _phases(self, work: Work) -> Outcome:
        while work.cluster.phase:
            try:
                step = await _run(work)
            except Permanent as error:
                return await self._failed(work, str(error))
            except SignInRefused as error:
                return await self._blocked(work, str(error))
            except (OutsideError, ProviderError, KubeError) as error:
                return await self._repeated(work, error)
            if isinstance(step, Wait):
                return await self._waiting(work, step)
            await self._advance(work)
        self.finished(work.cluster.id)
        return Done()

    async def _waiting(self, work: Work, step: Wait) -> Outcome:
        if self._overdue(work):
            return await self._failed(work, _overdue(work, step.error))
        if step.error is not None and step.error != work.cluster.last_error:
            await work.save(last_error=step.error)
        return Requeue(step.seconds)

    def _overdue(self, work: Work) -> bool:
        """A creation that doesn't get on has failed, so that it can be deleted. What a deletion waits for is tried for
        ever: it still costs."""
        creating = work.cluster.intent is Intent.CREATE
        return creating and self._tools.clock.now_ms() - work.cluster.phase_since > _PATIENCE_MS

    async def _advance(self, work: Work) -> None:
        cluster = work.cluster
        creating = cluster.intent is Intent.CREATE
        phases = tuple(CREATE_PHASES) if creating else DELETE_PHASES
        following = next_phase(phases, cluster.phase)
        changes: dict[str, Any] = {"phase": following, "failures": 0, "last_error": None}
        changes["phase_since"] = self._tools.clock.now_ms()
        if creating:
            changes |= {"state": CREATE_PHASES[following]} if following else _RUNNING
        elif not following:
            changes |= _ENDED
        reason = f"{cluster.intent}.{cluster.phase}"
        await work.record(reason, f"Step {cluster.phase} is complete.", **changes)

    async def _failed(self, work: Work, reason: str) -> Outcome:
        text = f"{DELETE_FAILED}{reason}" if work.cluster.deleting else reason
        changes: dict[str, Any] = {"state": State.FAILED, "last_error": text, "interrupted": False}
        await work.record(f"{work.cluster.intent}.failed", text, **changes)
        return Done()

    async def _blocked(self, work: Work, reason: str) -> Outcome:
        text = f"{SIGN_IN_REQUIRED}{reason}"
        await work.record(f"{work.cluster.intent}.blocked", text, blocked=True, last_error=text)
        return Blocked(text)

    async def _repeated(self, work: Work, error: OutsideError | ProviderError | KubeError) -> Outcome:
        kind, message = (error.reason if isinstance(error, KubeError) else error.kind), error.message
        if kind not in (_KUBE_TRANSIENT if isinstance(error, KubeError) else _TRANSIENT):
            return await self._failed(work, f"Step {work.cluster.phase} failed ({kind}): {message}")
        if self._overdue(work):
            return await self._failed(work, _overdue(work, message))
        failures = work.cluster.failures + 1
        log.info(
            "step is tried again", extra={"cluster": work.cluster.id, "phase": work.cluster.phase, "reason": message}
        )
        await work.save(failures=failures, last_error=message)
        return Requeue(backoff(_BACKOFF_S, failures))


async def _run(work: Work) -> Next | Wait:
    phases: Mapping[str, create.Phase] = create.PHASES if work.cluster.intent is Intent.CREATE else delete.PHASES
    return await phases[work.cluster.phase](work)


def _overdue(work: Work, error: str | None) -> str:
    minutes = _PATIENCE_MS // 60_000
    reason = error or work.cluster.last_error or "nothing was reported"
    return f"Step {work.cluster.phase} took longer than {minutes} minutes: {reason}"


_RUNNING: Final[Mapping[str, Any]] = {
    "state": State.RUNNING,
    "intent": Intent.NONE,
    "interrupted": False,
    "sealed_github_token": None,
}
_ENDED: Final[Mapping[str, Any]] = {"state": State.TERMINATED, "intent": Intent.NONE, "releasing": False}
