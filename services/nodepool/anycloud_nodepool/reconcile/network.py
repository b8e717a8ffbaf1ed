"""The pool's own network: lets VMs out, and nothing in."""

from __future__ import annotations

from anycloud_common.reconcile import Done, Outcome, Requeue

from anycloud_nodepool.domain import attempts as rules
from anycloud_nodepool.domain import naming
from anycloud_nodepool.domain.model import ResourceFact, ResourceState
from anycloud_nodepool.domain.ports import ClusterUnavailable, LedgerRefused, NetworkOrder
from anycloud_nodepool.reconcile.scope import Scope


async def ensure(scope: Scope) -> Outcome:
    """Has it made before the first VM is bought. A refusal counts as one of the provider's."""
    token = naming.network_token(scope.id, scope.tools.incarnation)
    fact = scope.tools.resources.known(scope.id).get(token)
    if scope.network_ready or not may_buy(scope):
        return Done()
    if fact is not None and fact.state is ResourceState.FAILED:
        _count(scope, fact)
        await scope.flush()
        if scope.pool.parked:
            return Done()
        if scope.now.ms < scope.pool.retry_at:
            return wait_for_provider(scope)
    elif fact is not None:
        return Done()  # being made: the feed tells when it is there
    try:
        await _order(scope, token, fact)
    except (ClusterUnavailable, LedgerRefused) as failure:
        return scope.trouble(failure)
    return Done()


def may_buy(scope: Scope) -> bool:
    """Whether the pool may have anything made outside at all."""
    return scope.sighted and scope.pool.parked is None and scope.pool.connection_problem is None


def wait_for_provider(scope: Scope) -> Outcome:
    """Nothing is asked of the provider before its time."""
    seconds = (scope.pool.retry_at - scope.now.ms) / 1000
    scope.findings.notes.append(
        f"The provider refused a VM or network ({scope.pool.provider_failures} in a row): {scope.pool.provider_error}"
    )
    return Requeue(seconds)


def _count(scope: Scope, fact: ResourceFact) -> None:
    if fact.failed_at >= scope.pool.failed_at:
        scope.pool = rules.count_failure(scope.pool, fact.failure or "the provider gave no reason", scope.now)


async def _order(scope: Scope, token: str, before: ResourceFact | None) -> None:
    pool = scope.pool
    order = NetworkOrder(
        token=token,
        pool_id=pool.id,
        credential_id=pool.credential_id,
        region=pool.region,
        zone=pool.zone,
        name=pool.id,
        attempt=before.attempt + 1 if before is not None else 1,
    )
    fact = await scope.tools.ledger.network(order)
    scope.tools.resources.learn(scope.id, fact)
    scope.network_ready = fact.state is ResourceState.RUNNING
