"""Which pools have to look again after something changed in the cluster service."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection

from anycloud_nodepool.domain import naming
from anycloud_nodepool.reconcile.resources import Resources
from anycloud_nodepool.store import attempts, pools

SOURCE_KINDS = ("cluster", "credential", "resource")
_COLUMNS = {"cluster": "cluster_id", "credential": "credential_id"}


class Marks:
    """Nothing is stored with a mark: a new process looks at every pool, and lists its resources, anyway."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources

    def mark(self, conn: Connection, kind: str, ids: list[str] | None) -> list[str]:
        """As a feed's consumer asks for it."""
        if kind != "resource":
            return pools.ids_of(conn, _COLUMNS[kind], ids)
        marked = pools.live_ids(conn) if ids is None else _pools_of(conn, ids)
        for pool_id in marked:
            self._resources.stale(pool_id)
        return marked


def _pools_of(conn: Connection, tokens: Iterable[str]) -> list[str]:
    listed = list(tokens)
    networks = [pool for token in listed if (pool := naming.pool_of_network(token))]
    return sorted({*networks, *attempts.pools_of(conn, listed)})
