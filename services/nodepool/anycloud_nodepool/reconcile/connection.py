"""Hourly: is it still the recorded cluster, with a supported version, and may we do what we need?"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from anycloud_common.kube import KubeError
from anycloud_common.reconcile import Outcome, Requeue

from anycloud_nodepool.domain.ports import ClusterUnavailable
from anycloud_nodepool.reconcile.scope import RETRY_S, Scope

EVERY_MS: Final = 3_600_000
AGAIN_MS: Final = 30_000  # while something is wrong, which a person may be mending


async def check(scope: Scope) -> Outcome:
    """Keeps the last result, which says whether VMs may be bought."""
    wait = AGAIN_MS if scope.pool.connection_problem else EVERY_MS
    age = scope.now.ms - scope.pool.checked_at
    if age >= wait:
        try:
            await _ask(scope)
        except (KubeError, ClusterUnavailable) as failure:
            return scope.trouble(failure)
    if scope.pool.connection_problem:
        return scope.diagnose(scope.pool.connection_problem)
    return Requeue(max(RETRY_S, (scope.pool.checked_at + wait - scope.now.ms) / 1000))


async def _ask(scope: Scope) -> None:
    cluster = await scope.tools.clusters.find(scope.pool.cluster_id)
    if cluster is None:
        problem: str | None = f"There is no cluster {scope.pool.cluster_id}."
    else:
        problem = " ".join(await scope.tools.kube.problems(cluster.identity)) or None
    scope.pool = replace(scope.pool, checked_at=scope.now.ms, connection_problem=problem)
    await scope.flush()
