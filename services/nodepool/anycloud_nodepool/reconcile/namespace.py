"""The pool's Namespace and its default egress policy: made for the first hold, kept as they are to be."""

from __future__ import annotations

from dataclasses import replace

from anycloud_common.kube import Foreign, KubeError, names
from anycloud_common.reconcile import Done, Outcome, Requeue

from anycloud_nodepool.domain import egress
from anycloud_nodepool.reconcile.scope import REFUSED_RETRY_S, Scope

_SOON_S = 0.5
_STUCK_S = 5.0


async def keep(scope: Scope) -> Outcome:
    """Makes them when something wants to live there, and repairs them."""
    if not scope.sighted or not (scope.owners or scope.pool.namespace_uid):
        return Done()
    try:
        return await _keep(scope)
    except Foreign as foreign:
        error = f"{foreign}, so nothing can run on this node pool. Remove it with `{foreign.remedy}`."
        scope.pool = replace(scope.pool, policy_uid=None, namespace_error=error)
        if foreign.kind == "Namespace":
            scope.pool = replace(scope.pool, namespace=None, namespace_uid=None)
        await scope.flush()
        scope.findings.notes.append(error)
        return Requeue(REFUSED_RETRY_S)
    except KubeError as failure:
        return scope.trouble(failure)


async def _keep(scope: Scope) -> Outcome:
    pool = scope.pool
    live = scope.tools.view.policy(names.pool_namespace(pool.cluster_id, pool.id), egress.POLICY)
    wanted = egress.policy(pool.cluster_id, pool.id)
    if pool.namespace_uid and live and live["metadata"]["uid"] == pool.policy_uid:
        if egress.differs(live, wanted):
            scope.tell("policy-repaired")
            await _apply(scope, wanted, live["metadata"]["uid"])
        return Done()
    waiting = await _ensure_namespace(scope)
    return waiting or await _make_policy(scope, wanted)


async def _ensure_namespace(scope: Scope) -> Outcome | None:
    """Makes the Namespace if there is none of ours; when to look again while an earlier one is on its way out."""
    pool = scope.pool
    body = egress.namespace(pool.cluster_id, pool.id)
    if pool.namespace_uid:
        found = await scope.tools.kube.get("Namespace", body["metadata"]["name"])
        if found is not None and found["metadata"]["uid"] == pool.namespace_uid:
            return wait_until_gone(scope, found) if found["metadata"].get("deletionTimestamp") else None
    try:
        made = await scope.tools.kube.ensure("Namespace", body, egress.owner(pool.cluster_id, pool.id))
    except KubeError as failure:
        if failure.reason == "conflict":
            return Requeue(_SOON_S)
        raise
    metadata = made["metadata"]
    scope.pool = replace(
        pool, namespace=metadata["name"], namespace_uid=metadata["uid"], namespace_error=None, policy_uid=None
    )
    scope.tell("namespace-made", metadata["name"])
    await scope.flush()
    return None


def wait_until_gone(scope: Scope, leaving: egress.Object) -> Outcome:
    """When to look again for a Namespace that is being deleted. Where something holds it, that is noted: only a person
    can tell what else is to be done."""
    held_by = egress.leftovers(leaving)
    if held_by is None:
        return Requeue(_SOON_S)
    name = leaving["metadata"]["name"]
    scope.findings.notes.append(f"Namespace {name} is being deleted and can't go: {held_by}")
    return Requeue(_STUCK_S)


async def _make_policy(scope: Scope, wanted: egress.Object) -> Outcome:
    """The role has neither `get` nor `delete` on NetworkPolicies, so what exists is known by watching alone."""
    pool = scope.pool
    namespace, name = wanted["metadata"]["namespace"], wanted["metadata"]["name"]
    live = scope.tools.view.policy(namespace, name)
    if live is None:
        try:
            live = await scope.tools.kube.create("NetworkPolicy", wanted)
        except KubeError as failure:
            if failure.reason in ("conflict", "not_found"):  # it is there, not seen yet; or its Namespace goes
                return Requeue(_SOON_S)
            raise
    elif not egress.is_ours(live, pool.cluster_id, pool.id):
        raise Foreign("NetworkPolicy", namespace, name)
    scope.pool = replace(scope.pool, policy_uid=live["metadata"]["uid"], namespace_error=None)
    await scope.flush()
    return Done()


async def _apply(scope: Scope, wanted: egress.Object, uid: str) -> None:
    await scope.tools.kube.apply("NetworkPolicy", {**wanted, "metadata": {**wanted["metadata"], "uid": uid}})
