"""Buys the VMs that are missing: rows first, then each one's token, then the VM."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from anycloud_common.reconcile import Done, Outcome

from anycloud_nodepool.domain import attempts as rules
from anycloud_nodepool.domain import join, naming
from anycloud_nodepool.domain.attempts import Want
from anycloud_nodepool.domain.model import Attempt, ClusterFact, Loss, Stage
from anycloud_nodepool.domain.ports import ClusterUnavailable, LedgerRefused, MachineOrder
from anycloud_nodepool.reconcile import tokens
from anycloud_nodepool.reconcile.network import may_buy, wait_for_provider
from anycloud_nodepool.reconcile.scope import Scope
from anycloud_nodepool.store import attempts
from anycloud_nodepool.store.attempts import Sealed
from anycloud_nodepool.store.tables import ATTEMPT


async def buy(scope: Scope) -> Outcome:
    """Makes up for what is missing, unless the pool may buy nothing now."""
    if not scope.network_ready or not may_buy(scope):
        return Done()
    wants = [want for want in rules.wants(scope.pool, rules.latest_of(scope.attempts)) if _allowed(scope, want)]
    if scope.now.ms < scope.pool.retry_at:
        return wait_for_provider(scope)
    if wants:
        try:
            cluster = await scope.tools.clusters.find(scope.pool.cluster_id)
        except ClusterUnavailable as failure:
            return scope.trouble(failure)
        if cluster is None:
            return scope.diagnose(f"There is no cluster {scope.pool.cluster_id}.")
        await _add_rows(scope, cluster, wants)
    return await _order_all(scope)


def _allowed(scope: Scope, want: Want) -> bool:
    """Without its add-ons a pool gets no new VM; the ones that it has are replaced all the same."""
    return scope.pool.addon_problem is None or want.replacement > 0


async def _add_rows(scope: Scope, cluster: ClusterFact, wants: Sequence[Want]) -> None:
    first = await scope.tools.store.read(attempts.next_number)
    server = join.Server(cluster.id, cluster.endpoint, cluster.ca)
    made = [_new(scope, server, want, first + index) for index, want in enumerate(wants)]
    for attempt, _ in made:
        scope.tell("vm-buying", attempt.node_name)
    await scope.add(made)


def _new(scope: Scope, server: join.Server, want: Want, number: int) -> tuple[Attempt, Sealed]:
    """An attempt with everything that its VM will be given, frozen."""
    incarnation, cipher = scope.tools.incarnation, scope.tools.cipher
    token = join.Token(naming.token_id(), naming.token_secret())
    attempt = Attempt(
        id=naming.attempt_id(number, incarnation),
        number=number,
        pool_id=scope.id,
        place=want.place,
        replacement=want.replacement,
        node_name=naming.node_name(scope.id, number, incarnation),
        token_id=token.id,
        stage=Stage.BUYING,
        created_at=scope.now.ms,
    )
    user_data = join.user_data(scope.pool, server, attempt.id, attempt.node_name, token)
    sealed = Sealed(
        cipher.seal(token.secret.encode(), ATTEMPT.name, "sealed_token", attempt.id),
        cipher.seal(user_data, ATTEMPT.name, "sealed_user_data", attempt.id),
    )
    return attempt, sealed


async def _order_all(scope: Scope) -> Outcome:
    """Asks the ledger for the VMs that it doesn't know of yet."""
    known = scope.tools.resources.known(scope.id)
    unasked = [a for a in scope.attempts if a.stage is Stage.BUYING and a.id not in known]
    if not unasked:
        return Done()
    secrets = await scope.tools.store.read(partial(attempts.sealed, attempt_ids=[a.id for a in unasked]))
    _, failures = await scope.each(unasked, lambda attempt: _order(scope, attempt, secrets[attempt.id]))
    await scope.flush()
    return scope.trouble(failures[0]) if failures else Done()


async def _order(scope: Scope, attempt: Attempt, sealed: Sealed) -> None:
    attempt = await tokens.make(scope, attempt, sealed)
    scope.put(attempt)
    pool = scope.pool
    order = MachineOrder(
        token=attempt.id,
        pool_id=pool.id,
        credential_id=pool.credential_id,
        region=pool.region,
        zone=pool.zone,
        name=attempt.node_name,
        vm_type=pool.vm_type,
        image="cuda" if pool.nvidia else "default",
        network_token=naming.network_token(pool.id, scope.tools.incarnation),
        labels={"anycloud_node_pool": pool.id, "anycloud_attempt": attempt.id},
        user_data=scope.tools.cipher.open(sealed.user_data, ATTEMPT.name, "sealed_user_data", attempt.id),
    )
    try:
        fact = await scope.tools.ledger.machine(order)
    except LedgerRefused as refusal:
        refused = rules.lost(attempt, Loss.REFUSED, str(refusal))
        scope.put(refused)
        scope.pool = rules.count_failures(scope.pool, [refused], [], scope.now)
        return
    scope.tools.resources.learn(scope.id, fact)
