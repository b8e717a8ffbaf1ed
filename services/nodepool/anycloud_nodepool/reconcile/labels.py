"""GPU Nodes that joined without the label by which the device plugin finds them get it."""

from __future__ import annotations

from anycloud_common.kube import names
from anycloud_common.reconcile import Done, Outcome

from anycloud_nodepool.domain.model import NodeFact
from anycloud_nodepool.reconcile.scope import Scope


async def repair(scope: Scope) -> Outcome:
    if not scope.pool.nvidia:
        return Done()
    unlabelled = [
        node
        for node in scope.matched.of.values()
        if node.labels.get(names.LABEL_ACCELERATOR) != names.ACCELERATOR_NVIDIA
    ]
    done, failures = await scope.each(unlabelled, lambda node: _label(scope, node))
    for node, _ in done:
        scope.tell("node-labelled", node.name)
    await scope.flush()
    return scope.trouble(failures[0]) if failures else Done()


async def _label(scope: Scope, node: NodeFact) -> None:
    change = {"metadata": {"labels": {names.LABEL_ACCELERATOR: names.ACCELERATOR_NVIDIA}}}
    await scope.tools.kube.patch("Node", node.name, node.uid, change)
