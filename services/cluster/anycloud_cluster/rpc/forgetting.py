"""`forget`: drops the record of a cluster that is lost. In the cloud nothing is changed."""

from __future__ import annotations

from functools import partial

from anycloud_common import holds
from anycloud_common.errors import ApiError
from anycloud_common.store import Store, Tx
from anycloudapi.cluster.v1 import clusters_pb2

from anycloud_cluster.domain import refusals
from anycloud_cluster.domain.cluster import HOLD_OWNER, Cluster, State
from anycloud_cluster.domain.ports import HostedApi, Names, OutsideError, SignInRefused
from anycloud_cluster.domain.resource import ENDED, Kind, Resource
from anycloud_cluster.live.lost import LostClusters, Unknown
from anycloud_cluster.live.targets import Targets
from anycloud_cluster.store import clusters, ledger
from anycloud_cluster.store.ledger import Ledger
from anycloud_cluster.store.tables import PREFIX


class Forgetting:
    def __init__(
        self, store: Store, book: Ledger, *, targets: Targets, hosted: HostedApi, lost: LostClusters, names: Names
    ) -> None:
        self._store = store
        self._book = book
        self._targets = targets
        self._hosted = hosted
        self._lost = lost
        self._names = names

    async def forget(self, cluster: Cluster, token: str | None) -> clusters_pb2.ForgetClusterResponse:
        """Raises ApiError, and then the record is as it was."""
        if cluster.live:
            await self._check(cluster)
            await self._unpublish(cluster, token)
        await self._store.write(partial(self._drop, cluster))
        left = refusals.leftovers(cluster) if cluster.live else []
        return clusters_pb2.ForgetClusterResponse(id=cluster.id, name=cluster.name, leftovers=left)

    async def _check(self, cluster: Cluster) -> None:
        if cluster.being_created or (cluster.deleting and cluster.state is not State.FAILED):
            what = "deleted" if cluster.deleting else "created"
            raise ApiError("CLUSTER_BUSY", f"Cluster {cluster.name} is being {what}; wait for the end of that.")
        if cluster.api_url and await self._hosted.answers(cluster.api_url):
            text = (
                f"The API at {cluster.api_url} answers; delete the cluster: `anycloud cluster delete {cluster.name}`."
            )
            raise ApiError("CLUSTER_REACHABLE", text)
        try:
            machine = await self._lost.management_machine(cluster)
        except Unknown as error:
            text = f"Whether the management VM of cluster {cluster.name} is gone can't be said: {error}."
            raise ApiError("CLUSTER_VM_PRESENT", text) from None
        if machine is not None:
            text = f"The management VM {machine} of cluster {cluster.name} is still there; terminate it first."
            raise ApiError("CLUSTER_VM_PRESENT", text)

    async def _unpublish(self, cluster: Cluster, token: str | None) -> None:
        """The DNS record goes, and certificates are revoked. Repeating it is success."""
        rows = await self._store.read(lambda conn: ledger.of_owner(conn, HOLD_OWNER, cluster.id))
        named = [r for r in rows if r.kind in (Kind.DNS_RECORD, Kind.CERTIFICATE) and r.state not in ENDED]
        if not named:
            return
        await self._targets.sign_in(token)
        try:
            for row in named:
                await self._end(row, token or "")
        except SignInRefused as error:
            raise ApiError(
                "GITHUB_SIGN_IN_REQUIRED", f"The DNS record can't be deleted ({error}): run `anycloud login`."
            ) from None
        except OutsideError as error:
            text = f"The DNS record of cluster {cluster.name} can't be deleted now ({error.message}); try again."
            raise ApiError("CLUSTER_BUSY", text) from None

    async def _end(self, row: Resource, token: str) -> None:
        if row.kind == Kind.DNS_RECORD:
            await self._names.delete(row.name, token)
        elif row.provider_id:
            await self._names.revoke(row.provider_id, token)

    def _drop(self, cluster: Cluster, tx: Tx) -> None:
        now = clusters.by_id(tx.conn, cluster.id)
        if now is None:
            return
        if now.live and (now.being_created or now.version != cluster.version):
            raise ApiError("CLUSTER_BUSY", f"Cluster {now.name} was changed by another request; try again.")
        for row in ledger.of_owner(tx.conn, HOLD_OWNER, now.id):
            if row.state not in ENDED:
                self._book.abandon(tx, row)
        holds.release(tx, PREFIX, [now.token("credential")])
        clusters.remove(tx, now)
