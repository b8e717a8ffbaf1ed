"""The pool's Namespace, which nodepool alone makes and repairs."""

from __future__ import annotations

from anycloud_common.reconcile import Blocked, Done, Outcome

from anycloud_deployment.domain.observe import NO_POOL_NAMESPACE
from anycloud_deployment.reconcile.scope import Scope


async def learn(scope: Scope) -> Outcome:
    """Reads the Namespace from nodepool. Nothing is written into one that isn't the pool's own."""
    pool = await scope.tools.pools.find(scope.deployment.node_pool_id)
    if pool is None:
        return scope.block(f"Node pool {scope.deployment.node_pool_id} doesn't exist any more.", fatal=True)
    if pool.namespace_error:
        return scope.block(pool.namespace_error, fatal=True)
    if not pool.namespace:
        return Blocked(NO_POOL_NAMESPACE)
    known = scope.deployment.natives
    if (known.namespace, known.namespace_uid) != (pool.namespace, pool.namespace_uid):
        await scope.save(
            namespace=pool.namespace,
            namespace_uid=pool.namespace_uid,
            # In a Namespace that was made anew there is nothing of ours.
            service_account_uid=None,
            secret_uid=None,
            deployment_uid=None,
        )
    return Done()
