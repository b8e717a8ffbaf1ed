"""Our own objects in Kubernetes: found by recorded UID, made where they are missing."""

from __future__ import annotations

from typing import Any

from anycloud_deployment.domain.ports import Native
from anycloud_deployment.reconcile.scope import Scope


async def current(scope: Scope, kind: str, uid: str | None) -> Native | None:
    """The object of that UID, by the watches or, where these show another one or none, read now."""
    seen = scope.tools.view.native(kind, scope.namespace, scope.id)
    if uid is None or (seen is not None and seen.uid == uid):
        return seen if uid is not None else None
    found = await scope.tools.objects.find(kind, scope.namespace, scope.id)
    return found if found is not None and found.uid == uid else None


async def make(scope: Scope, kind: str, body: dict[str, Any], column: str, uid: str | None) -> Native:
    """Makes an object that isn't there, and records its UID in `column`. Raises Foreign.

    A UID recorded before is forgotten first: between making and recording, the object must count as one whose UID isn't
    known, which a deletion looks for by its owner and intent.
    """
    if uid is not None:
        await scope.save(**{column: None})
    await scope.take()
    made = await scope.tools.objects.create(kind, body)
    await scope.save(**{column: made.uid})
    return made
