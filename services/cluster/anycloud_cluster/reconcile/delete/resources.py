"""Releasing what the cluster has of one kind."""

from __future__ import annotations

from typing import Final

from anycloud_cluster.domain.resource import ENDED, SIGN_IN_REQUIRED, TRANSIENT, Kind, Resource
from anycloud_cluster.reconcile.work import Next, Permanent, Step, Wait, Work

_LOOK_S: Final = 30.0
_FAILURES: Final = 5  # in a row, of a reason that may pass, until the deletion counts as failed


async def run(kind: Kind, work: Work) -> Step:
    """A release that keeps failing fails the deletion; the ledger goes on with it, and so does another `delete`."""
    for row in await work.resources(kind):
        if row.state not in ENDED:
            await work.release(row)
    rows = [row for row in await work.resources(kind) if row.state not in ENDED]
    if not rows:
        return Next()
    return next((_judged(row) for row in rows if row.failure), Wait(_LOOK_S))


def _judged(row: Resource) -> Step:
    failure = row.failure
    if failure is None:
        return Wait(_LOOK_S)
    if failure.kind in TRANSIENT and failure.count < _FAILURES:
        return Wait(_LOOK_S, f"The {row.kind} can't be released yet: {failure.message}")
    if failure.message.startswith(SIGN_IN_REQUIRED):
        raise Permanent(f"{failure.message}; sign in to GitHub again and repeat the delete.")
    raise Permanent(
        f"The {row.kind} {row.provider_id or row.name} can't be released ({failure.kind}): {failure.message}"
    )
