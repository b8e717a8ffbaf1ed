"""Keeps the event log short, and outputs of Jobs no longer than events."""

from __future__ import annotations

from functools import partial

from anycloud_common.reconcile import Outcome, Requeue
from anycloud_common.store import Store

from anycloud_deployment.store import events, image_jobs

EVERYTHING = "*"  # the only key
_PERIOD_S = 3600.0


class Housekeeping:
    """Handles EVERYTHING, for a Reconciler."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def __call__(self, key: str) -> Outcome:
        while await self._store.write(events.prune):
            pass
        while await self._store.write(image_jobs.prune):
            pass
        for kind, object_id in await self._store.read(events.crowded):
            await self._store.write(partial(events.shorten, kind=kind, object_id=object_id))
        return Requeue(_PERIOD_S)
