"""`delete` on a hosted API: an installer's question whether the cluster may be taken apart. No cloud is touched."""

from __future__ import annotations

from functools import partial
from typing import Final

from anycloud_common import holds
from anycloud_common.errors import ApiError
from anycloud_common.store import Store, Tx
from sqlalchemy import insert, select, update

from anycloud_cluster.domain.cluster import Cluster
from anycloud_cluster.rpc.callers import Actor
from anycloud_cluster.store import clusters, events
from anycloud_cluster.store.tables import FENCE, PREFIX

FENCE_HEADER: Final = "anycloud-installer-delete"
WITHDRAW_HEADER: Final = "anycloud-installer-withdraw"


class Fences:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def set(self, cluster: Cluster, delete_id: str, actor: Actor) -> Cluster:
        """No node pool is taken from here on. Repeats answer alike. Raises ApiError while there are pools, and for a
        question that was taken back."""
        return await self._store.write(partial(self._set, cluster, delete_id, actor))

    async def withdraw(self, cluster: Cluster, delete_id: str, actor: Actor) -> Cluster:
        """Node pools are taken again, unless another question stands; this one is refused should it come late."""
        return await self._store.write(partial(self._withdraw, cluster, delete_id, actor))

    def _set(self, cluster: Cluster, delete_id: str, actor: Actor, tx: Tx) -> Cluster:
        withdrawn = tx.conn.execute(select(FENCE.c.withdrawn).where(FENCE.c.id == delete_id)).scalar()
        if withdrawn:
            raise ApiError("CLUSTER_BUSY", f"Deletion {delete_id} was taken back by its installer.")
        pools = holds.count(tx.conn, PREFIX, clusters.KIND, cluster.id)
        if pools:
            text = f"{pools} node pool{'s' if pools > 1 else ''} of cluster {cluster.name} must be deleted first."
            raise ApiError("CLUSTER_REFERENCED", text)
        if withdrawn is None:
            tx.conn.execute(insert(FENCE).values(id=delete_id, withdrawn=False, created_at=tx.now))
            self._event(tx, cluster, "own.fenced", f"Deletion {delete_id}: no more node pools.", actor)
        return clusters.change(tx, cluster, {"accepting": False, "delete_id": delete_id})

    def _withdraw(self, cluster: Cluster, delete_id: str, actor: Actor, tx: Tx) -> Cluster:
        known = tx.conn.execute(update(FENCE).where(FENCE.c.id == delete_id).values(withdrawn=True)).rowcount
        if not known:
            tx.conn.execute(insert(FENCE).values(id=delete_id, withdrawn=True, created_at=tx.now))
        now = clusters.by_id(tx.conn, cluster.id) or cluster
        if now.delete_id not in (None, delete_id):
            return now
        self._event(tx, cluster, "own.unfenced", f"Deletion {delete_id} was taken back.", actor)
        return clusters.change(tx, now, {"accepting": True, "delete_id": None})

    def _event(self, tx: Tx, cluster: Cluster, reason: str, text: str, actor: Actor) -> None:
        events.append(tx, cluster.id, reason, text, actor=actor.id, request_id=actor.request_id)
