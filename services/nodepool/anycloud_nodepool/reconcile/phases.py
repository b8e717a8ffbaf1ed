"""The steps of a pool's life, in their order. A living pool goes through all of them in each pass; a dying one until
one has to wait."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from anycloud_common.reconcile import Blocked, Done, Outcome, Requeue

from anycloud_nodepool.reconcile import (
    addons,
    buying,
    connection,
    ending,
    labels,
    namespace,
    network,
    observe,
    removal,
    tokens,
)
from anycloud_nodepool.reconcile.scope import RETRY_S, LeaseLost, Scope, Tools, load

Phase = Callable[[Scope], Awaitable[Outcome]]

LIVING: Sequence[Phase] = (
    observe.take_in,
    tokens.remove,
    ending.release,
    ending.clean_up,
    labels.repair,
    connection.check,
    addons.install,
    network.ensure,
    buying.buy,
    tokens.renew,
    namespace.keep,
)
# What an ending pool still does with its VMs, whatever else has to wait.
RELEASING: Sequence[Phase] = (
    removal.give_up_vms,
    observe.take_in,
    tokens.remove,
    ending.release,
    ending.clean_up,
)
ENDING: Sequence[Phase] = (
    removal.wait_for_vms,
    removal.remove_namespace,
    removal.release_network,
    removal.let_go,
)


class PoolPass:
    """Handles one pool, for a Reconciler."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    async def __call__(self, pool_id: str) -> Outcome:
        facts = await self._tools.store.read(lambda conn: load(conn, pool_id))
        if facts is None or not facts.pool.visible or facts.pool.deleted_at is not None:
            return Done()
        scope = Scope(self._tools, facts)
        try:
            outcome = await (self._end(scope) if facts.pool.deleting else _all(scope, LIVING))
            await scope.finish()
        except LeaseLost:
            return Requeue(RETRY_S)
        return outcome

    async def _end(self, scope: Scope) -> Outcome:
        outcome = await _all(scope, RELEASING)
        for phase in ENDING:
            waiting = await phase(scope)
            if not isinstance(waiting, Done):
                return _sooner(outcome, waiting)
        return Done()


async def _all(scope: Scope, phases: Sequence[Phase]) -> Outcome:
    outcome: Outcome = Done()
    for phase in phases:
        outcome = _sooner(outcome, await phase(scope))
    return outcome


def _sooner(one: Outcome, other: Outcome) -> Outcome:
    """Of two outcomes what is to happen first; a reason for waiting outlives plain waiting."""
    times = [time for time in (_time(one), _time(other)) if time is not None]
    soonest = min(times) if times else None
    for outcome in (one, other):
        if isinstance(outcome, Blocked):
            return Blocked(outcome.reason, soonest)
    return Done() if soonest is None else Requeue(soonest)


def _time(outcome: Outcome) -> float | None:
    match outcome:
        case Requeue(after):
            return after
        case Blocked(_, retry):
            return retry
    return None
