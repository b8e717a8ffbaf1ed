"""`delete` on an installer: first the cluster's own API is asked, and only then anything is taken apart."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from anycloud_common import ids
from anycloud_common.cipher import Cipher
from anycloud_common.errors import ApiError
from anycloud_common.store import Store, Tx

from anycloud_cluster.domain import refusals
from anycloud_cluster.domain.cluster import DELETE_PHASES, HOLD_OWNER, Cluster, DeleteStage, Intent, State
from anycloud_cluster.domain.ports import HostedApi, Inventory, OutsideError, Referenced, SignInRefused
from anycloud_cluster.domain.resource import Kind
from anycloud_cluster.domain.resource import State as ResourceState
from anycloud_cluster.live.lost import LostClusters, Unknown
from anycloud_cluster.live.targets import Targets
from anycloud_cluster.rpc.callers import Actor
from anycloud_cluster.store import clusters, events, ledger
from anycloud_cluster.store.ledger import Ledger

_NO_LEASE = {"lock_owner": None, "lock_token": None}  # an interrupted creation may still have it: its writes are void


class Deletion:
    """`wake(cluster_id)` is called after each commit that gives a reconciler work."""

    def __init__(
        self,
        store: Store,
        cipher: Cipher,
        book: Ledger,
        *,
        targets: Targets,
        hosted: HostedApi,
        lost: LostClusters,
        wake: Callable[[str], None],
    ) -> None:
        self._store = store
        self._cipher = cipher
        self._book = book
        self._targets = targets
        self._hosted = hosted
        self._lost = lost
        self._wake = wake
        self._questions: set[asyncio.Task[Cluster]] = set()

    async def begin(self, cluster: Cluster, token: str | None, actor: Actor) -> Cluster:
        """The record, from now on one that is being deleted. Raises ApiError, and then nothing was taken apart."""
        if not cluster.live:
            return cluster
        if cluster.deleting:
            return await self._again(cluster, token, actor)
        if cluster.being_created:
            raise ApiError("CLUSTER_BUSY", refusals.creating(cluster))
        if not cluster.release_revision:
            if await self._store.read(lambda conn: _named(conn, cluster)):
                await self._targets.sign_in(token)
            return await self._store.write(partial(self._record, cluster, token, actor))
        await self._targets.sign_in(token)
        return await self._to_the_end(self._asked(cluster, token or "", actor))

    async def _to_the_end(self, question: Coroutine[Any, Any, Cluster]) -> Cluster:
        """A caller that leaves doesn't cut a question in two: it is answered, or taken back."""
        task = asyncio.create_task(question)
        self._questions.add(task)
        task.add_done_callback(self._questions.discard)
        return await asyncio.shield(task)

    async def _asked(self, cluster: Cluster, token: str, actor: Actor) -> Cluster:
        """The question to the hosted API: with its own yes, or without an API that ever served, the deletion begins."""
        url = cluster.api_url or ""
        try:
            api_token = await self._hosted.exchange(url, token)
            await self._take_back(cluster, api_token)
        except SignInRefused as error:
            raise ApiError(
                "GITHUB_SIGN_IN_REQUIRED", f"The API at {url} refuses your sign-in ({error}): run `anycloud login`."
            ) from None
        except OutsideError as error:
            if error.kind == "auth":
                raise ApiError("FORBIDDEN", f"The API at {url} doesn't let you in: {error.message}") from None
            return await self._unanswered(cluster, token, actor, error.message)
        asking = await self._store.write(partial(self._asking, cluster, token, ids.new("del")))
        try:
            return await self._decided(asking, api_token, token, actor)
        except Exception:
            await self._store.write(partial(self._withdrawing, asking))
            raise

    async def _decided(self, asking: Cluster, api_token: str, token: str, actor: Actor) -> Cluster:
        """Whatever ends this without a decision leaves a question that has to be taken back."""
        url, delete_id = asking.api_url or "", asking.delete_id or ""
        try:
            answer = await self._hosted.fence(url, api_token, asking.id, delete_id)
        except OutsideError as error:
            return await self._unanswered(asking, token, actor, error.message)
        if isinstance(answer, Referenced):
            await self._store.write(partial(self._cleared, asking))
            raise ApiError("CLUSTER_REFERENCED", await self._referenced(asking, api_token, answer))
        return await self._store.write(partial(self._record, asking, token, actor))

    async def _take_back(self, cluster: Cluster, api_token: str) -> None:
        """An earlier question that is still open is taken back first, or its withdrawal would lift the new fence."""
        if cluster.delete_stage is DeleteStage.NONE:
            return
        if cluster.delete_stage is DeleteStage.FENCING:
            raise ApiError("CLUSTER_BUSY", f"Cluster {cluster.name} is being deleted by another request.")
        await self._hosted.withdraw(cluster.api_url or "", api_token, cluster.id, cluster.delete_id or "")
        await self._store.write(partial(self._cleared, cluster))

    def _asking(self, cluster: Cluster, token: str, delete_id: str, tx: Tx) -> Cluster:
        now = self._unchanged(tx, cluster)
        sealed = clusters.seal(self._cipher, now.id, "sealed_github_token", token)
        changes = {"delete_id": delete_id, "delete_stage": DeleteStage.FENCING, "sealed_github_token": sealed}
        return clusters.change(tx, now, changes)

    def _unchanged(self, tx: Tx, seen: Cluster) -> Cluster:
        """The record as it is now, unless somebody else deletes, asks or creates meanwhile. Raises ApiError."""
        now = clusters.by_id(tx.conn, seen.id)
        if now is None:
            raise ApiError("CLUSTER_NOT_FOUND", f"There is no cluster {seen.name!r} any more.")
        if now.deleting or now.being_created or now.delete_stage is DeleteStage.FENCING:
            raise ApiError("CLUSTER_BUSY", f"Cluster {seen.name} is being worked on by another request; try again.")
        return now

    def _cleared(self, cluster: Cluster, tx: Tx) -> None:
        """The question is over without a deletion."""
        now = clusters.by_id(tx.conn, cluster.id)
        if now is None or now.delete_id != cluster.delete_id:
            return
        changes: dict[str, Any] = {"delete_id": None, "delete_stage": DeleteStage.NONE}
        if now.intent is Intent.NONE:
            changes["sealed_github_token"] = None
        clusters.change(tx, now, changes)

    def _withdrawing(self, cluster: Cluster, tx: Tx) -> None:
        """The question is taken back until that is answered."""
        now = clusters.by_id(tx.conn, cluster.id)
        if now is not None and now.delete_id == cluster.delete_id and not now.deleting:
            clusters.change(tx, now, {"delete_stage": DeleteStage.WITHDRAWING})
            tx.after_commit(partial(self._wake, now.id))

    async def _unanswered(self, cluster: Cluster, token: str, actor: Actor, why: str) -> Cluster:
        if cluster.served:
            backup = await self._lost.backup(cluster)
            machine = await self._lost.machine_id(cluster)
            raise ApiError("CLUSTER_UNREACHABLE", refusals.unreachable(cluster, why, backup, machine))
        try:
            machines = await self._lost.pool_machines(cluster)
        except Unknown as error:
            text = f"The API of cluster {cluster.name} doesn't answer ({why}), and {error}; try again."
            raise ApiError("CLUSTER_UNREACHABLE", text) from None
        if machines:
            raise ApiError("CLUSTER_UNREACHABLE", refusals.pool_machines(cluster, why, machines))
        return await self._store.write(partial(self._record, cluster, token, actor))

    async def _referenced(self, cluster: Cluster, api_token: str, answer: Referenced) -> str:
        try:
            inventory = await self._hosted.inventory(cluster.api_url or "", api_token)
        except OutsideError:
            inventory = Inventory((), (), ())
        return refusals.referenced(cluster, inventory, answer.message)

    def _record(self, cluster: Cluster, token: str | None, actor: Actor, tx: Tx) -> Cluster:
        """From here on it is taken apart, whatever happens to this process."""
        now = clusters.by_id(tx.conn, cluster.id)
        if now is None or now.deleting:
            return now or cluster
        if now.being_created or now.delete_id != cluster.delete_id:
            raise ApiError("CLUSTER_BUSY", f"Cluster {now.name} is being worked on by another request; try again.")
        changes: dict[str, Any] = {
            "intent": Intent.DELETE,
            "phase": DELETE_PHASES[0],
            "delete_stage": DeleteStage.NONE,
            "accepting": False,
            **_DELETING,
            **_NO_LEASE,
        }
        return self._changed(tx, now, changes, token, ("delete.recorded", f"{now.name} is taken apart.", actor))

    async def _again(self, cluster: Cluster, token: str | None, actor: Actor) -> Cluster:
        """Steps that remain are tried again at once; those that are done stay done."""
        if token is not None:
            await self._targets.sign_in(token)
        return await self._store.write(partial(self._repeat, cluster, token, actor))

    def _repeat(self, cluster: Cluster, token: str | None, actor: Actor, tx: Tx) -> Cluster:
        now = clusters.by_id(tx.conn, cluster.id)
        if now is None or not now.deleting:
            return now or cluster
        for row in ledger.of_owner(tx.conn, HOLD_OWNER, now.id):
            if row.state is ResourceState.RELEASING:
                self._book.retry_release(tx, row)
        return self._changed(tx, now, dict(_DELETING), token, ("delete.repeated", f"Goes on at {now.phase}.", actor))

    def _changed(
        self, tx: Tx, cluster: Cluster, changes: dict[str, Any], token: str | None, event: tuple[str, str, Actor]
    ) -> Cluster:
        if token is not None:
            changes["sealed_github_token"] = clusters.seal(self._cipher, cluster.id, "sealed_github_token", token)
        reason, text, actor = event
        events.append(tx, cluster.id, reason, text, actor=actor.id, request_id=actor.request_id)
        tx.after_commit(partial(self._wake, cluster.id))
        return clusters.change(tx, cluster, changes)


_DELETING: dict[str, Any] = {
    "state": State.TERMINATED,
    "releasing": True,
    "interrupted": False,
    "blocked": False,
    "failures": 0,
    "last_error": None,
}


def _named(conn: Any, cluster: Cluster) -> bool:
    """Whether it has something whose end needs a GitHub sign-in."""
    rows = ledger.of_owner(conn, HOLD_OWNER, cluster.id)
    return any(
        row.kind in (Kind.DNS_RECORD, Kind.CERTIFICATE) and row.state is not ResourceState.RELEASED for row in rows
    )
