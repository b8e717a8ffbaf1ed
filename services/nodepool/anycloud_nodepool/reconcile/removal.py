"""The end of a pool: its VMs, what it has in the cluster, its network, and its hold on cluster and credential."""

from __future__ import annotations

from dataclasses import replace

from anycloud_common.holds import count
from anycloud_common.kube import KubeError, names
from anycloud_common.reconcile import Blocked, Done, Outcome, Requeue
from anycloud_common.store import Tx

from anycloud_nodepool.domain import attempts as rules
from anycloud_nodepool.domain import naming
from anycloud_nodepool.domain.model import Loss, ResourceState, Stage
from anycloud_nodepool.domain.ports import ClusterUnavailable
from anycloud_nodepool.reconcile import namespace
from anycloud_nodepool.reconcile.scope import Scope
from anycloud_nodepool.store import pools
from anycloud_nodepool.store.tables import PREFIX


async def give_up_vms(scope: Scope) -> Outcome:
    """From here on each VM goes the way of one that was lost."""
    for attempt in scope.attempts:
        if attempt.working:
            scope.put(rules.lost(attempt, Loss.DELETED, "its node pool is being deleted"))
    await scope.flush()
    return Done()


async def wait_for_vms(scope: Scope) -> Outcome:
    """An uncertain answer of the provider keeps the VM's attempt open, and the pool deleting."""
    resources = scope.tools.resources.known(scope.id)
    for attempt in scope.attempts:
        if attempt.open:
            fact = resources.get(attempt.id)
            if fact is not None and fact.failure:
                scope.findings.notes.append(f"VM {attempt.node_name} can't be ended: {fact.failure}")
            return Blocked(f"{attempt.node_name} is being released")
    if any(attempt.stage is not Stage.CLOSED for attempt in scope.attempts):
        return Blocked("Nodes of released VMs are being removed")
    return Done()


async def remove_namespace(scope: Scope) -> Outcome:
    """Looks for references once more right before. Another's Namespace of that name is left, and noted."""
    pool = scope.pool
    name = names.pool_namespace(pool.cluster_id, pool.id)
    if pool.namespace_uid is None:
        if pool.namespace_error:
            scope.findings.notes.append(f"Namespace {name} doesn't belong to Anycloud and was left in place.")
        return Done()
    if not scope.sighted:
        return Requeue(1.0)
    if await scope.tools.store.read(lambda conn: count(conn, PREFIX, pools.KIND, scope.id)):
        return Blocked("something still refers to the node pool")
    try:
        if not await scope.tools.kube.delete("Namespace", name, None, pool.namespace_uid):
            found = await scope.tools.kube.get("Namespace", name)
            if found is not None and found["metadata"]["uid"] == pool.namespace_uid:
                return namespace.wait_until_gone(scope, found)
    except KubeError as failure:
        return scope.trouble(failure)
    scope.pool = replace(pool, namespace=None, namespace_uid=None, policy_uid=None)
    scope.tell("namespace-removed", name)
    await scope.flush()
    return Done()


async def release_network(scope: Scope) -> Outcome:
    token = naming.network_token(scope.id, scope.tools.incarnation)
    fact = scope.tools.resources.known(scope.id).get(token)
    if fact is None or fact.state not in (ResourceState.RELEASING, ResourceState.RELEASED):
        try:
            fact = await scope.tools.ledger.release(token)
        except ClusterUnavailable as failure:
            return scope.trouble(failure)
        scope.tools.resources.learn(scope.id, fact)
        scope.tell("network-releasing")
        await scope.flush()
    if fact.state is ResourceState.RELEASED:
        return Done()
    if fact.failure:
        scope.findings.notes.append(f"The network can't be removed: {fact.failure}")
    return Blocked("the network is being released")


async def let_go(scope: Scope) -> Outcome:
    """The pool's last write also gives back its hold on cluster and credential."""
    scope.pool = replace(scope.pool, deleted_at=scope.now.ms)

    def release(tx: Tx) -> None:
        mine = scope.tools.admissions.of_owner(tx.conn, pools.KIND, scope.id)
        scope.tools.admissions.releasing(tx, [row.admission.id for row in mine])

    await scope.finish(release)
    scope.tools.resources.forget(scope.id)
    return Done()
