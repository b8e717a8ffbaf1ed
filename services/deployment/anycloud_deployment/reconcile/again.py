"""Revisions that the API starts by itself. They drain like any other, and stand on the admission of the last one."""

from __future__ import annotations

import dataclasses

from anycloud_common.reconcile import Done, Outcome
from anycloud_common.store import Tx

from anycloud_deployment.domain import manifest
from anycloud_deployment.reconcile.scope import Scope

TEMPLATE_CHANGED = "template-changed"


async def renew_template(scope: Scope) -> Outcome:
    """Starts one revision when this version of the API runs replicas in another way than the one that admitted it."""
    requested = await scope.revision(scope.deployment.generation)
    if requested.template != manifest.TEMPLATE:
        await scope.change(lambda tx: start_revision(scope, tx), event=TEMPLATE_CHANGED)
    return Done()


def start_revision(scope: Scope, tx: Tx) -> dict[str, object]:
    """Adds the requested revision once more as the next one; gives the columns that make it the requested one."""
    revisions = scope.tools.revisions
    requested = revisions.get(tx.conn, scope.id, scope.deployment.generation)
    again = dataclasses.replace(
        requested, generation=requested.generation + 1, template=manifest.TEMPLATE, created_at=tx.now
    )
    revisions.add(tx, scope.id, again)
    return {"generation": again.generation, "updated_at": tx.now}
