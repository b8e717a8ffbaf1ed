"""A question to a hosted API that wasn't answered is taken back, until that is answered."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any, Final

from anycloud_common.cipher import Cipher
from anycloud_common.reconcile import Done, Outcome, Requeue
from anycloud_common.store import Store, Tx

from anycloud_cluster.domain.cluster import Cluster, DeleteStage, Intent
from anycloud_cluster.domain.ports import HostedApi, OutsideError, SignInRefused
from anycloud_cluster.domain.resource import backoff
from anycloud_cluster.store import clusters, events

log = logging.getLogger(__name__)

_BACKOFF_S: Final = (1.0, 60.0)


class Withdrawals:
    """`handle` is the pass over one cluster."""

    def __init__(self, store: Store, cipher: Cipher, hosted: HostedApi) -> None:
        self._store = store
        self._cipher = cipher
        self._hosted = hosted
        self._failures: dict[str, int] = {}

    async def handle(self, cluster_id: str) -> Outcome:
        cluster = await self._store.read(lambda conn: clusters.by_id(conn, cluster_id))
        if cluster is None or cluster.delete_stage is not DeleteStage.WITHDRAWING or cluster.deleting:
            self._failures.pop(cluster_id, None)
            return Done()
        try:
            await self._withdraw(cluster)
        except (OutsideError, SignInRefused) as error:
            failures = self._failures[cluster_id] = self._failures.get(cluster_id, 0) + 1
            log.info("deletion not taken back yet", extra={"cluster": cluster_id, "reason": str(error)})
            return Requeue(backoff(_BACKOFF_S, failures))
        self._failures.pop(cluster_id, None)
        await self._store.write(partial(_answered, cluster))
        return Done()

    async def _withdraw(self, cluster: Cluster) -> None:
        token = clusters.opened(self._cipher, cluster, "sealed_github_token")
        if not token:
            raise SignInRefused("no GitHub sign-in is at hand")
        url = cluster.api_url or ""
        api_token = await self._hosted.exchange(url, str(token))
        await self._hosted.withdraw(url, api_token, cluster.id, cluster.delete_id or "")


def _answered(cluster: Cluster, tx: Tx) -> None:
    now = clusters.by_id(tx.conn, cluster.id)
    if now is None or now.deleting or now.delete_id != cluster.delete_id:
        return
    changes: dict[str, Any] = {"delete_id": None, "delete_stage": DeleteStage.NONE}
    if now.intent is Intent.NONE:
        changes["sealed_github_token"] = None
    clusters.change(tx, now, changes)
    events.append(tx, now.id, "delete.withdrawn", f"The question {cluster.delete_id} was taken back.")
