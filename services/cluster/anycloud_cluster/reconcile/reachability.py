"""Whether this installer reaches its running clusters, looked at every half minute through the stored connection.

A cluster that doesn't answer keeps its state: only a provider's answer or a command changes that.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from anycloud_common.cipher import Cipher
from anycloud_common.kube import KubeError
from anycloud_common.reconcile import Done, Outcome, Requeue
from anycloud_common.store import Store, Tx

from anycloud_cluster.domain.cluster import Cluster, Intent, State
from anycloud_cluster.domain.ports import Clusters, Connection
from anycloud_cluster.store import clusters

EVERY_S: Final = 30.0


class Reachability:
    """`handle` is the pass over one cluster."""

    def __init__(self, store: Store, cipher: Cipher, kubernetes: Clusters) -> None:
        self._store = store
        self._cipher = cipher
        self._kubernetes = kubernetes

    async def handle(self, cluster_id: str) -> Outcome:
        cluster = await self._store.look(lambda conn: clusters.by_id(conn, cluster_id))
        if cluster is None or not _watched(cluster):
            return Done()
        problem = await self._problem(cluster)
        if cluster.connected != (problem is None) or cluster.last_error != problem:
            await self._store.write(partial(_store, cluster, problem))
        return Requeue(EVERY_S)

    async def _problem(self, cluster: Cluster) -> str | None:
        stored = clusters.opened(self._cipher, cluster, "sealed_connection")
        connection = self._kubernetes.open(Connection(**stored))
        try:
            uid = await connection.uid()
        except KubeError as error:
            return f"The cluster can't be reached: {error.message}"
        finally:
            await connection.close()
        if uid != cluster.kubernetes_identity:
            recorded = cluster.kubernetes_identity
            return f"The control plane at {stored['endpoint']} has the kube-system UID {uid}; {recorded} is recorded."
        return None


def _watched(cluster: Cluster) -> bool:
    running = cluster.state is State.RUNNING and cluster.intent is Intent.NONE
    return running and not cluster.own and cluster.sealed_connection is not None


def _store(seen: Cluster, problem: str | None, tx: Tx) -> None:
    now = clusters.by_id(tx.conn, seen.id)
    if now is not None and _watched(now):
        values: dict[str, Any] = {"connected": problem is None, "last_error": problem}
        clusters.change(tx, now, values)
