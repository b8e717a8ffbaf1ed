"""Takes in what the ledger and the cluster know of the pool's VMs, and judges them by it."""

from __future__ import annotations

from dataclasses import replace

from anycloud_common.reconcile import Done, Outcome, Requeue

from anycloud_nodepool.domain import attempts as rules
from anycloud_nodepool.domain import gpus, naming, nodes
from anycloud_nodepool.domain.model import Attempt, Loss, ResourceState, Stage
from anycloud_nodepool.domain.ports import ClusterUnavailable
from anycloud_nodepool.domain.sight import STORE_EVERY_MS
from anycloud_nodepool.reconcile.scope import Scope

_UNSYNCED_S = 1.0


async def take_in(scope: Scope) -> Outcome:
    """Brings every attempt up to date, counts failures and losses, and finds Nodes that are nobody's."""
    outcome: Outcome = Done()
    try:
        resources = await scope.tools.resources.read(scope.id)
    except ClusterUnavailable as failure:
        outcome = scope.trouble(failure)
        resources = scope.tools.resources.known(scope.id)
    network = resources.get(naming.network_token(scope.id, scope.tools.incarnation))
    scope.network_ready = network is not None and network.state is ResourceState.RUNNING
    if scope.sighted:
        scope.matched = nodes.match(scope.id, scope.tools.view.nodes(scope.id), scope.attempts)
    _advance_all(scope)
    if not scope.pool.deleting:
        _park(scope)
        if problem := nodes.stray_problem(scope.matched.strays):
            scope.diagnose(problem)
        if wrong := list(scope.findings.mismatched.values()):
            scope.diagnose(gpus.mismatch_problem(scope.pool, wrong))
    await _store(scope)
    return outcome if not isinstance(outcome, Done) else _next_look(scope)


def _advance_all(scope: Scope) -> None:
    resources = scope.tools.resources.known(scope.id)
    refused: list[Attempt] = []
    bought: list[Attempt] = []
    for before in scope.attempts:
        if not before.open:
            continue
        node = scope.matched.of.get(before.id)
        devices = gpus.judge(scope.pool, before, node, scope.now.seen_ms) if scope.sighted else None
        attempt = devices.attempt if devices else before
        fit = devices is None or devices.fit
        attempt = rules.advance(attempt, resources.get(before.id), node, fit, scope.now, sighted=scope.sighted)
        if devices and node is not None and devices.mismatch:
            scope.findings.mismatched[before.id] = node
        if devices and node is not None and devices.missing:
            scope.findings.without_devices.append(node)
        if attempt.loss is Loss.REFUSED and before.loss is None:
            refused.append(attempt)
        if attempt.bought_at is not None and before.bought_at is None:
            bought.append(attempt)
        _tell(scope, before, attempt)
        scope.put(attempt)
    scope.pool = rules.count_failures(scope.pool, refused, bought, scope.now)


def _park(scope: Scope) -> None:
    """A pool that was given up stays so."""
    if scope.pool.parked is None:
        parked = rules.parks(rules.latest_of(scope.attempts))
        if parked:
            scope.pool = replace(scope.pool, parked=parked)
            scope.tell("parked", parked)


def _tell(scope: Scope, before: Attempt, after: Attempt) -> None:
    if after.stage is not before.stage:
        detail = f": {after.loss_detail}" if after.stage is Stage.DRAINING and after.loss_detail else ""
        scope.tell(f"vm-{after.stage}", f"{after.node_name}{detail}")
    elif after.node_ready and not before.node_ready:
        scope.tell("vm-ready", after.node_name)
    elif before.node_ready and not after.node_ready:
        scope.tell("vm-not-ready", after.node_name)


async def _store(scope: Scope) -> None:
    if scope.tools.sight.to_store and _deadlines(scope):
        await scope.flush(lambda tx: None)
    else:
        await scope.flush()


def _deadlines(scope: Scope) -> list[int]:
    found = (rules.deadline(attempt) for attempt in scope.attempts if attempt.working)
    devices = (gpus.deadline(attempt) for attempt in scope.attempts if attempt.working)
    return [due for due in (*found, *devices) if due is not None and due > scope.now.seen_ms]


def _next_look(scope: Scope) -> Outcome:
    """The time at which waiting has an end."""
    if not scope.sighted:
        return Requeue(_UNSYNCED_S)
    deadlines = _deadlines(scope)
    if not deadlines:
        return Done()
    return Requeue(min(min(deadlines) - scope.now.seen_ms, STORE_EVERY_MS) / 1000)
