"""The steps of a Deployment's life, in their order. A pass goes through them until one has to wait."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence

from anycloud_common.kube import Foreign, KubeError
from anycloud_common.reconcile import Done, Outcome, Requeue, in_order

from anycloud_deployment.domain.ports import PoolUnavailable
from anycloud_deployment.reconcile import account, again, environment, namespace, removal, replicas
from anycloud_deployment.reconcile.scope import LeaseLost, Scope, Tools
from anycloud_deployment.store import deployments

Phase = Callable[[Scope], Awaitable[Outcome]]

LIVING: Sequence[Phase] = (
    namespace.learn,
    again.renew_template,
    account.ensure,
    environment.bring_up_to_date,
    replicas.bring_up_to_date,
    replicas.release_older,
    replicas.note_rollout,
)
ENDING: Sequence[Phase] = (
    removal.end_waiting_jobs,
    removal.drain,
    removal.remove_objects,
    removal.let_go,
)

_RETRY_S = 2.0
_UNSYNCED_S = 1.0
_REFUSED_RETRY_S = 30.0

log = logging.getLogger(__name__)


class DeploymentPass:
    """Handles one Deployment, for a Reconciler."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    async def __call__(self, deployment_id: str) -> Outcome:
        found = await self._tools.store.look(lambda conn: deployments.get(conn, deployment_id))
        if found is None or not found.visible or found.deleted_at is not None:
            return Done()
        scope = Scope(self._tools, found)
        try:
            outcome = await self._go_through(scope, LIVING if found.accepting else ENDING)
            await scope.finish()
        except LeaseLost:
            return Requeue(_RETRY_S)
        return outcome

    async def _go_through(self, scope: Scope, phases: Sequence[Phase]) -> Outcome:
        if phases is LIVING and not self._tools.view.synced:
            scope.keep_block()
            return Requeue(_UNSYNCED_S)
        try:
            return await in_order(phases, scope)
        except PoolUnavailable as error:
            log.info("node pools can't be asked", extra={"deployment": scope.id, "reason": str(error)})
            scope.keep_block()
            return Requeue(_RETRY_S)
        except Foreign as foreign:
            return scope.block(f"{foreign}; remove it with `{foreign.remedy}`.", fatal=True, retry=_REFUSED_RETRY_S)
        except KubeError as error:
            return self._failed(scope, error)

    def _failed(self, scope: Scope, error: KubeError) -> Outcome:
        log.warning("Kubernetes refused a step", extra={"deployment": scope.id, "reason": str(error)})
        if error.reason in ("forbidden", "invalid"):
            return scope.block(f"Kubernetes refuses: {error}", retry=_REFUSED_RETRY_S)
        scope.keep_block()
        return Requeue(max(_RETRY_S, error.retry_after))
