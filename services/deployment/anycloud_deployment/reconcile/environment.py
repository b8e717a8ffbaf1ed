"""The Kubernetes Secret with the values of all Secrets that a Deployment names."""

from __future__ import annotations

import logging

from anycloud_common.reconcile import Done, Outcome

from anycloud_deployment.domain import manifest
from anycloud_deployment.reconcile.objects import current, make
from anycloud_deployment.reconcile.scope import Scope

_KIND = "Secret"

log = logging.getLogger(__name__)


async def bring_up_to_date(scope: Scope) -> Outcome:
    """Writes the current values. Where a Secret is missing the Deployment stops: nothing is rolled out or repaired."""
    revision = await scope.revision(await scope.target())
    names = revision.spec.secrets
    resolved = await scope.tools.store.read(lambda conn: scope.tools.secrets.resolve(conn, names))
    if resolved.missing:
        missing = ", ".join(resolved.missing)
        log.warning("a Secret is missing", extra={"deployment": scope.id, "secret": missing})
        return scope.block(f"Secret {missing} doesn't exist; save it again, or upgrade without it.")
    body = manifest.secret(scope.place, resolved.values)
    known = scope.deployment.natives.secret_uid
    there = await current(scope, _KIND, known)
    if there is None:
        there = await make(scope, _KIND, body, "secret_uid", known)
    if there.data != body["data"]:
        await scope.take()
        await scope.tools.objects.apply(_KIND, body, there.uid)
    return Done()
