"""The end of a VM: cordoned, released, and only after its provider confirmed that, forgotten by the cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from anycloud_common.kube import KubeError, names
from anycloud_common.reconcile import Done, Outcome

from anycloud_nodepool.domain import join
from anycloud_nodepool.domain.model import Attempt, NodeFact, ResourceFact, ResourceState, Stage
from anycloud_nodepool.reconcile.scope import Failure, Scope

_ON_ITS_WAY = (ResourceState.RELEASING, ResourceState.RELEASED)


async def release(scope: Scope) -> Outcome:
    """Has the ledger end VMs that are given up. That the cluster can't be reached doesn't keep them."""
    known = scope.tools.resources.known(scope.id)
    leaving = [attempt for attempt in scope.attempts if attempt.stage is Stage.DRAINING]
    to_release = [a for a in leaving if a.id not in known or known[a.id].state not in _ON_ITS_WAY]
    if not to_release:
        return Done()
    await _cordon(scope, to_release)
    done, failures = await scope.each(to_release, lambda attempt: _release(scope, attempt))
    for attempt, fact in done:
        if fact.state is ResourceState.RELEASED:  # there was nothing to end
            scope.put(replace(attempt, stage=Stage.RELEASED, released_at=scope.now.ms))
    await scope.flush()
    return scope.trouble(failures[0]) if failures else Done()


async def clean_up(scope: Scope) -> Outcome:
    """Removes Nodes and Node passwords of VMs whose end is confirmed."""
    if not scope.sighted:
        return Done()
    left = {node.name: node for _, node in scope.matched.left}
    released = [attempt for attempt in scope.attempts if attempt.stage is Stage.RELEASED]
    for attempt in released:
        if attempt.id in scope.matched.of:  # released in this very pass
            left[attempt.node_name] = scope.matched.of[attempt.id]
    _, failures = await scope.each(list(left.values()), lambda node: _remove_node(scope, node))
    gone = [a for a in released if a.node_name not in left and a.token_gone]
    if gone:
        failures += await _remove_passwords(scope, gone)
    if not failures:
        for attempt in gone:
            scope.put(replace(attempt, stage=Stage.CLOSED))
    await scope.flush()
    return scope.trouble(failures[0]) if failures else Done()


async def _release(scope: Scope, attempt: Attempt) -> ResourceFact:
    fact = await scope.tools.ledger.release(attempt.id)
    scope.tools.resources.learn(scope.id, fact)
    return fact


async def _cordon(scope: Scope, leaving: Sequence[Attempt]) -> None:
    """Nothing new is put on Nodes that go. Best effort: their VMs go anyway."""
    nodes = [
        (attempt, scope.matched.of[attempt.id])
        for attempt in leaving
        if attempt.id in scope.matched.of and not attempt.cordoned
    ]
    done, _ = await scope.each(nodes, lambda pair: _cordon_one(scope, pair[1]))
    for (attempt, _), _ in done:
        scope.put(replace(attempt, cordoned=True))
    await scope.flush()


async def _cordon_one(scope: Scope, node: NodeFact) -> None:
    if not node.cordoned:
        await scope.tools.kube.patch("Node", node.name, node.uid, {"spec": {"unschedulable": True}})


async def _remove_node(scope: Scope, node: NodeFact) -> None:
    await scope.tools.kube.delete("Node", node.name, None, node.uid)


async def _remove_passwords(scope: Scope, gone: Sequence[Attempt]) -> list[Failure]:
    """K3s removes them with their Nodes in newer releases only."""
    try:
        secrets = await scope.tools.kube.names("Secret", names.NAMESPACE_SYSTEM)
    except KubeError as failure:
        return [failure]
    passwords = (join.password_secret_name(attempt.node_name) for attempt in gone)
    existing = [(name, secrets[name]) for name in passwords if name in secrets]
    _, failures = await scope.each(
        existing, lambda secret: scope.tools.kube.delete("Secret", secret[0], names.NAMESPACE_SYSTEM, secret[1])
    )
    return failures
