"""The add-ons of GPU pools: installed before the first VM is bought, looked at again in every later pass."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from anycloud_common.kube import KubeError
from anycloud_common.reconcile import Blocked, Done, Outcome, Requeue

from anycloud_nodepool.domain import addons, gpus
from anycloud_nodepool.domain.addons import Addon, Installation, Verdict
from anycloud_nodepool.domain.ports import ClusterUnavailable, Object
from anycloud_nodepool.reconcile.scope import Scope

EVERY_S: Final = 300.0
_SOON_S: Final = 0.5
_NOT_YET: Final = "The NVIDIA add-on isn't installed yet."


async def install(scope: Scope) -> Outcome:
    """Nothing of it is touched for a CPU pool. A problem keeps the pool from buying its first VMs, and from nothing
    else."""
    if not scope.pool.nvidia or not scope.sighted:
        return Done()
    try:
        outcome, problem = await _install_all(scope)
    except (KubeError, ClusterUnavailable) as failure:
        outcome = scope.trouble(failure)
        problem = outcome.reason if isinstance(outcome, Blocked) else scope.pool.addon_problem or _NOT_YET
    scope.pool = replace(scope.pool, addon_problem=problem)
    await scope.flush()
    return outcome


async def _install_all(scope: Scope) -> tuple[Outcome, str | None]:
    """What is to happen next, and what keeps the add-on from being complete."""
    cluster = await scope.tools.clusters.find(scope.pool.cluster_id)
    if cluster is None:
        return Done(), f"There is no cluster {scope.pool.cluster_id}."
    installation = Installation(cluster.id, cluster.identity)
    states = []
    for addon in addons.nvidia(installation):
        live = await scope.tools.kube.get(addon.kind, addon.name, addon.namespace)
        states.append(addons.describe(addon, live))
        match addons.judge(addon, live, installation):
            case Verdict.FOREIGN:
                problem = addons.foreign_problem(addon)
                return scope.diagnose(problem), problem
            case Verdict.RECREATE if live is not None and not await _removed(scope, addon, live):
                return Requeue(_SOON_S), _NOT_YET
            case Verdict.CREATE | Verdict.RECREATE:
                await scope.tools.kube.ensure(addon.kind, addon.body, installation.owner)
                scope.tell("addon-installed", str(addon))
            case Verdict.REWRITE if live is not None:
                metadata = {**addon.body["metadata"], "uid": live["metadata"]["uid"]}
                await scope.tools.kube.apply(addon.kind, {**addon.body, "metadata": metadata})
                scope.tell("addon-rewritten", str(addon))
    if scope.findings.without_devices:
        scope.diagnose(gpus.missing_problem(scope.findings.without_devices, ", ".join(states)))
    return Requeue(EVERY_S), None


async def _removed(scope: Scope, addon: Addon, live: Object) -> bool:
    uid = live["metadata"]["uid"]
    if await scope.tools.kube.delete(addon.kind, addon.name, addon.namespace, uid):
        return True
    left = await scope.tools.kube.get(addon.kind, addon.name, addon.namespace)
    return left is None or left["metadata"]["uid"] != uid
