"""What happened to clusters: appended, never changed; 30 days or 1,000 a cluster are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anycloud_common.store import Tx
from sqlalchemy import Connection, delete, insert, select

from anycloud_cluster.store.tables import EVENT

_KEPT = 1_000
_KEPT_MS = 30 * 24 * 3_600_000


@dataclass(frozen=True)
class Event:
    """`reason` is a constant such as `create.machine`; `actor` a principal's id, or `system`."""

    at: int
    reason: str
    actor: str
    request_id: str | None
    message: str


def append(
    tx: Tx, cluster_id: str, reason: str, message: str, *, actor: str = "system", request_id: str | None = None
) -> None:
    row = {"reason": reason, "actor": actor, "request_id": request_id, "message": message}
    tx.conn.execute(insert(EVENT).values(cluster_id=cluster_id, at=tx.now, **row))
    newest = select(EVENT.c.seq).where(EVENT.c.cluster_id == cluster_id).order_by(EVENT.c.seq.desc()).offset(_KEPT)
    last = tx.conn.execute(newest.limit(1)).scalar()
    old = EVENT.c.at < tx.now - _KEPT_MS
    tx.conn.execute(delete(EVENT).where(EVENT.c.cluster_id == cluster_id, old | (EVENT.c.seq <= (last or 0))))


def of_cluster(conn: Connection, cluster_id: str) -> Sequence[Event]:
    """Oldest first."""
    rows = conn.execute(select(EVENT).where(EVENT.c.cluster_id == cluster_id).order_by(EVENT.c.seq))
    return [Event(row.at, row.reason, row.actor, row.request_id, row.message) for row in rows]
