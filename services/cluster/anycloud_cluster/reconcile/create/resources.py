"""Waiting for a resource of the ledger to be there."""

from __future__ import annotations

from typing import Final

from anycloud_cluster.domain.ports import SignInRefused
from anycloud_cluster.domain.resource import SIGN_IN_REQUIRED, Failure, Kind, Resource, State, backoff
from anycloud_cluster.reconcile.work import Permanent, Step, Wait, Work

ATTEMPTS: Final = 5  # of one resource, before the cluster has failed; `create` again gives as many more
_REPEATED: Final = frozenset({"capacity", "quota", "conflict"})
_BACKOFF_S: Final = (5.0, 60.0)
_LOOK_S: Final = 30.0  # the ledger tells of each change; this is for one that a process didn't live to hear


async def ensured_record(work: Work) -> Resource:
    """The API's DNS record, which stands for the management VM's address as long as that lives."""
    spec = {"address": work.cluster.address}
    return await work.ensure("dns", Kind.DNS_RECORD, work.cluster.domain, spec)


async def awaited(work: Work, row: Resource) -> Step | None:
    """None once the resource is there. Repeats attempts that failed for a reason that may pass.

    Raises Permanent, or SignInRefused.
    """
    failure = row.failure
    if row.state is State.RUNNING:
        return None
    if row.state is State.PENDING:
        return Wait(_LOOK_S, failure.message if failure else None)
    if row.state is not State.FAILED or failure is None:
        raise Permanent(f"The {row.kind} {row.provider_id or row.name} is gone: {row.failure_message or row.state}.")
    return await _repeated(work, row, failure)


async def _repeated(work: Work, row: Resource, failure: Failure) -> Step:
    if failure.message.startswith(SIGN_IN_REQUIRED):
        raise SignInRefused(failure.message.removeprefix(SIGN_IN_REQUIRED))
    if failure.kind not in _REPEATED or work.cluster.failures + 1 >= ATTEMPTS:
        raise Permanent(f"The {row.kind} could not be made ({failure.kind}): {failure.message}")
    due = failure.at / 1000 + backoff(_BACKOFF_S, work.cluster.failures + 1)
    left = due - work.clock.now_ms() / 1000
    if left > 0:
        return Wait(left, f"The {row.kind} could not be made yet ({failure.kind}): {failure.message}")
    await work.try_again(row)
    return Wait(_LOOK_S)
