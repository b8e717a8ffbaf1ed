"""Revisions that the API starts by itself. They drain like any other, and stand on the admission of the last one."""

from __future__ import annotations

import dataclasses

from anycloud_common.reconcile import Done, Outcome
from anycloud_common.store import Tx

from anycloud_deployment.domain import manifest
from anycloud_deployment.reconcile.scope import Scope

TEMPLATE_CHANGED = "template-changed"


async def renew_template(scope: Scope) -> Outcome:
    """Starts one revision when this API would run the requested one's replicas otherwise than they run now."""
    deployment = scope.deployment
    if deployment.applied != deployment.generation:
        return Done()
    requested = await scope.revision(deployment.generation)
    if manifest.fingerprint(scope.place, requested) != deployment.applied_template:
        await scope.change(lambda tx: start_revision(scope, tx), event=TEMPLATE_CHANGED)
    return Done()


def start_revision(scope: Scope, tx: Tx) -> dict[str, object]:
    """Adds the requested revision once more as the next one; gives the columns that make it the requested one."""
    revisions = scope.tools.revisions
    requested = revisions.get(tx.conn, scope.id, scope.deployment.generation)
    again = dataclasses.replace(requested, generation=requested.generation + 1, created_at=tx.now)
    revisions.add(tx, scope.id, again)
    return {"generation": again.generation, "updated_at": tx.now}
