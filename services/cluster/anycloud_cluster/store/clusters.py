"""Records of clusters."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from anycloud_common import paging
from anycloud_common.cipher import Cipher
from anycloud_common.paging import Listed, Page, Source
from anycloud_common.store import Tx, leases
from sqlalchemy import ColumnElement, Connection, Row, delete, insert, select, update

from anycloud_cluster.domain.cluster import Cluster, DeleteStage, Intent, State
from anycloud_cluster.store.tables import CLUSTER

KIND = "cluster"
_COLUMNS = [column for column in CLUSTER.c if column.name not in ("lock_owner", "lock_token")]

Secret = Literal["sealed_github_token", "sealed_keys", "sealed_connection"]


def find(conn: Connection, id_or_name: str) -> Cluster | None:
    """By id, else the live one of that name, else the youngest that had it."""
    found = by_id(conn, id_or_name)
    if found is not None:
        return found
    named = _all(conn, CLUSTER.c.name_key == id_or_name.lower())
    return next((c for c in named if c.live), named[-1] if named else None)


def by_id(conn: Connection, cluster_id: str) -> Cluster | None:
    found = _all(conn, CLUSTER.c.id == cluster_id)
    return found[0] if found else None


def everything(conn: Connection) -> Sequence[Cluster]:
    """Oldest first."""
    return _all(conn)


def listed(conn: Connection, page: Page) -> Listed[Cluster]:
    """Newest first."""
    return paging.read(conn, [Source(select(*_COLUMNS), (CLUSTER.c.created_at, CLUSTER.c.id))], page, _cluster)


def only_live(conn: Connection) -> Cluster | None:
    """The installation's cluster; None while it has none."""
    return next((cluster for cluster in _all(conn) if cluster.live), None)


def add(tx: Tx, values: Mapping[str, Any]) -> Cluster:
    """A new record; what isn't in `values` has no fact yet."""
    blank = {**_BLANK, "version": 1, "phase_since": tx.now, "created_at": tx.now, "updated_at": tx.now}
    row = {**blank, **values, "name_key": str(values["name"]).lower()}
    tx.conn.execute(insert(CLUSTER).values(row))
    tx.change(KIND, row["id"], 1)
    return _existing(tx.conn, row["id"])


def change(tx: Tx, cluster: Cluster, values: Mapping[str, Any]) -> Cluster:
    """Writes of those who don't work under the row's lease: requests, and checks beside."""
    _update(tx, cluster, values, CLUSTER.c.id == cluster.id)
    return _existing(tx.conn, cluster.id)


def guarded_change(tx: Tx, cluster: Cluster, lease: str, values: Mapping[str, Any]) -> Cluster | None:
    """A write of the lease's holder; None when somebody else has the row now: then its result is void."""
    if not _update(tx, cluster, values, leases.guarded(CLUSTER, cluster.id, lease)):
        return None
    return _existing(tx.conn, cluster.id)


def remove(tx: Tx, cluster: Cluster) -> None:
    tx.conn.execute(delete(CLUSTER).where(CLUSTER.c.id == cluster.id))
    tx.change(KIND, cluster.id, cluster.version + 1)


def mark_interrupted(tx: Tx) -> None:
    """At start: what an earlier process was creating goes on, and a delete may take over."""
    unfinished = (CLUSTER.c.intent == Intent.CREATE, CLUSTER.c.state != State.FAILED)
    tx.conn.execute(update(CLUSTER).where(*unfinished).values(interrupted=True))
    asked = CLUSTER.c.delete_stage == DeleteStage.FENCING
    tx.conn.execute(update(CLUSTER).where(asked).values(delete_stage=DeleteStage.WITHDRAWING))


def seal(cipher: Cipher, cluster_id: str, column: Secret, value: Any) -> bytes:
    """A JSON value as that column stores it."""
    return cipher.seal(json.dumps(value).encode(), CLUSTER.name, column, cluster_id)


def opened(cipher: Cipher, cluster: Cluster, column: Secret) -> Any:
    """The JSON value of a sealed column; None where there is none. Raises CipherError."""
    sealed: bytes | None = getattr(cluster, column)
    return None if sealed is None else json.loads(cipher.open(sealed, CLUSTER.name, column, cluster.id))


def _update(tx: Tx, cluster: Cluster, values: Mapping[str, Any], where: ColumnElement[bool]) -> bool:
    row = {**values, "version": CLUSTER.c.version + 1, "updated_at": tx.now}
    if tx.conn.execute(update(CLUSTER).where(where).values(row)).rowcount == 0:
        return False
    tx.change(KIND, cluster.id, cluster.version + 1)
    return True


def _all(conn: Connection, *where: ColumnElement[bool]) -> list[Cluster]:
    rows = conn.execute(select(*_COLUMNS).where(*where).order_by(CLUSTER.c.created_at, CLUSTER.c.id))
    return [_cluster(row) for row in rows]


def _existing(conn: Connection, cluster_id: str) -> Cluster:
    found = by_id(conn, cluster_id)
    if found is None:
        raise LookupError(f"there is no record of cluster {cluster_id}")
    return found


def _cluster(row: Row[Any]) -> Cluster:
    typed = {
        "state": State(row.state),
        "intent": Intent(row.intent),
        "delete_stage": DeleteStage(row.delete_stage),
    }
    return Cluster(**{**row._mapping, **typed})


_BLANK: dict[str, Any] = {
    **dict.fromkeys(("own", "interrupted", "blocked", "releasing", "bucket_managed"), False),
    **dict.fromkeys(("released", "served", "connected"), False),
    **dict.fromkeys(("intent", "phase", "credential_id", "credential_name", "delete_stage"), ""),
    **dict.fromkeys(("failures", "ssh_port", "release_revision", "certificates"), 0),
    "connection_revision": 1,
    "accepting": True,
}
