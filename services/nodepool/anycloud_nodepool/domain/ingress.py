"""Which VM of a pool is its ingress entry: a role, which moves only when it must."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from anycloud_nodepool.domain.model import Attempt

TAKEOVER_MS: Final = 2 * 60_000


def elect(entry: str | None, attempts: Iterable[Attempt], seen_ms: int) -> str | None:
    """Id of the attempt that is the entry now. `entry`: the one so far; `seen_ms`: now, on the clock of sight.

    The lowest Ready attempt in the order of issue, and then the same one until its VM ends, or until its Node was not
    Ready for two minutes while another one is.
    """
    working = [attempt for attempt in attempts if attempt.working]
    ready = sorted((attempt.number, attempt.id) for attempt in working if attempt.node_ready)
    others = [attempt_id for _, attempt_id in ready if attempt_id != entry]
    holder = next((attempt for attempt in working if attempt.id == entry), None)
    if holder is None:
        return others[0] if others else None
    since = holder.not_ready_seen
    overdue = since is not None and seen_ms - since >= TAKEOVER_MS
    return others[0] if overdue and others else entry
