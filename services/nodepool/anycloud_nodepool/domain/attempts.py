"""The life of a pool's VMs, as pure functions of what is known: row, ledger, Node, and time.

A place of the pool has one VM at a time: its next one is bought only after the provider confirmed the end of the last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from anycloud_nodepool.domain.model import Attempt, Loss, NodeFact, Pool, ResourceFact, ResourceState, Stage

APPEAR_MS = 10 * 60_000
READY_MS = 15 * 60_000
REPLACEMENTS = 3
PROVIDER_FAILURES = 5
FIRST_BACKOFF_MS = 60_000
LONGEST_BACKOFF_MS = 30 * 60_000

JOIN_PRECONDITIONS = (
    "outbound internet access for the download of the agent",
    "TCP 6443 reachable at the cluster's address",
    "an x86_64 VM type",
    "Kubernetes v1.35 to v1.38 on the cluster",
    "an unchanged cluster CA",
)


@dataclass(frozen=True)
class Now:
    """`ms` is wall time; `seen_ms` stands still while the cluster can't be read, and is what deadlines count on."""

    ms: int
    seen_ms: int


def advance(
    attempt: Attempt, resource: ResourceFact | None, node: NodeFact | None, fit: bool, now: Now, *, sighted: bool
) -> Attempt:
    """The attempt with what became known.

    `node` is its Node, None when there is none; it says something only when `sighted`, as the cluster is read then.
    `fit`: the Node is one that work can be put on.
    """
    known = _with_resource(attempt, resource, now)
    if not sighted or not known.open:
        return known
    known = _with_node(known, node, fit, now)
    return _judged(known, now) if known.working else known


def _with_resource(attempt: Attempt, resource: ResourceFact | None, now: Now) -> Attempt:
    if resource is None or not attempt.open:
        return attempt
    match resource.state:
        case ResourceState.RELEASED:
            loss = attempt.loss or Loss.VANISHED
            return replace(attempt, stage=Stage.RELEASED, loss=loss, released_at=now.ms, node_ready=False)
        case ResourceState.LOST if attempt.working:
            return lost(attempt, Loss.VANISHED, "its provider ended it")
        case ResourceState.FAILED if attempt.working:
            return lost(attempt, Loss.REFUSED, resource.failure or "the provider gave no reason")
        case ResourceState.RUNNING if attempt.bought_at is None:
            stage = Stage.JOINING if attempt.stage is Stage.BUYING else attempt.stage
            bought = replace(attempt, stage=stage, bought_at=resource.created_at, address=resource.address)
            return replace(bought, bought_seen=now.seen_ms)
    return attempt


def _with_node(attempt: Attempt, node: NodeFact | None, fit: bool, now: Now) -> Attempt:
    if not attempt.working:
        return attempt
    if node is None:
        if attempt.stage is not Stage.JOINED:
            return attempt
        return _not_ready(attempt, now)
    joined = attempt
    if attempt.stage is not Stage.JOINED or attempt.node_uid != node.uid:
        joined = replace(attempt, stage=Stage.JOINED, node_uid=node.uid)
    if not node.ready:
        return _not_ready(joined, now)
    if joined.node_ready == fit and joined.not_ready_seen is None:
        return joined
    ready_at = now.ms if fit and joined.ready_at is None else joined.ready_at
    return replace(joined, node_ready=fit, ready_at=ready_at, not_ready_seen=None)


def _not_ready(attempt: Attempt, now: Now) -> Attempt:
    if attempt.not_ready_seen is not None:
        return attempt
    return replace(attempt, node_ready=False, not_ready_seen=now.seen_ms)


def _judged(attempt: Attempt, now: Now) -> Attempt:
    due = deadline(attempt)
    if due is None or now.seen_ms < due:
        return attempt
    if attempt.stage is Stage.JOINED:
        return lost(attempt, Loss.NOT_READY, f"its Node was not Ready for {READY_MS // 60_000} minutes")
    return lost(attempt, Loss.NEVER_JOINED, f"its Node didn't appear within {APPEAR_MS // 60_000} minutes")


def deadline(attempt: Attempt) -> int | None:
    """When, on the clock of sight, the attempt is lost unless something happens; None while nothing is waited for."""
    if attempt.stage is Stage.JOINING and attempt.bought_seen is not None:
        return attempt.bought_seen + APPEAR_MS
    if attempt.stage is Stage.JOINED and attempt.not_ready_seen is not None:
        return attempt.not_ready_seen + READY_MS
    return None


def lost(attempt: Attempt, loss: Loss, detail: str) -> Attempt:
    """The attempt, which is to be ended now."""
    return replace(attempt, stage=Stage.DRAINING, loss=loss, loss_detail=detail, node_ready=False)


def next_replacement(last: Attempt) -> int:
    """The number that the successor of this ended attempt has in the series of its place."""
    if last.loss is Loss.REFUSED:
        return last.replacement  # no VM was lost
    return 1 if last.ready_at is not None else last.replacement + 1


@dataclass(frozen=True)
class Want:
    """A VM that is to be bought."""

    place: int
    replacement: int


def wants(pool: Pool, latest: Mapping[int, Attempt]) -> list[Want]:
    """Places that have no VM and none on its way out. `latest` is the newest attempt of each place."""
    found = []
    for place in range(pool.vm_count):
        last = latest.get(place)
        if last is None:
            found.append(Want(place, 0))
        elif not last.open:
            found.append(Want(place, next_replacement(last)))
    return found


def latest_of(attempts: Iterable[Attempt]) -> dict[int, Attempt]:
    """The newest attempt of each place."""
    newest: dict[int, Attempt] = {}
    for attempt in attempts:
        known = newest.get(attempt.place)
        if known is None or known.number < attempt.number:
            newest[attempt.place] = attempt
    return newest


def parks(latest: Mapping[int, Attempt]) -> str | None:
    """Why the pool is given up, when a place of it lost more VMs in a row than are replaced."""
    for last in latest.values():
        if last.loss in (None, Loss.REFUSED, Loss.DELETED) or next_replacement(last) <= REPLACEMENTS:
            continue
        return (
            f"VM {last.node_name} was lost ({last.loss_detail}) after {REPLACEMENTS} replacements in a row, so the "
            f"node pool is given up. Check what a VM needs to join: {'; '.join(JOIN_PRECONDITIONS)}. "
            "Then delete the node pool and create it again."
        )
    return None


def count_failures(pool: Pool, refused: Sequence[Attempt], bought: Sequence[Attempt], now: Now) -> Pool:
    """The pool after these purchases failed and those succeeded.

    Purchases that were begun before the last counted failure belong to it: many at once count as one.
    """
    if any(attempt.created_at >= pool.failed_at for attempt in bought) and pool.provider_failures:
        pool = replace(pool, provider_failures=0, retry_at=0, provider_error=None)
    news = [attempt for attempt in refused if attempt.created_at >= pool.failed_at]
    return count_failure(pool, news[0].loss_detail or "", now) if news else pool


def count_failure(pool: Pool, detail: str, now: Now) -> Pool:
    """The pool after one more purchase in a row failed, as the provider says in `detail`."""
    if pool.parked:
        return pool
    failures = pool.provider_failures + 1
    counted = replace(pool, provider_failures=failures, failed_at=now.ms + 1, provider_error=detail)
    if failures >= PROVIDER_FAILURES:
        text = f"The provider refused {failures} times in a row, so the node pool is given up: {detail.rstrip('.')}."
        return replace(counted, parked=f"{text} Delete the node pool and create it again once the cause is gone.")
    return replace(counted, retry_at=now.ms + min(LONGEST_BACKOFF_MS, FIRST_BACKOFF_MS << (failures - 1)))
