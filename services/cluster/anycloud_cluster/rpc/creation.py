"""`create`: a new cluster is checked and recorded; one that there is goes on."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from anycloud_common import holds, ids
from anycloud_common.cipher import Cipher
from anycloud_common.errors import ApiError
from anycloud_common.store import Store, Tx

from anycloud_cluster.domain import pins
from anycloud_cluster.domain.admission import check_existing, check_name, check_target
from anycloud_cluster.domain.cluster import CREATE_PHASES, HOLD_OWNER, Cluster, Intent, State, Target
from anycloud_cluster.domain.credential import Credential
from anycloud_cluster.domain.ports import ApiImage, GitHubAccount
from anycloud_cluster.domain.resource import State as ResourceState
from anycloud_cluster.live.targets import Targets
from anycloud_cluster.rpc.callers import Actor
from anycloud_cluster.rpc.policy import Policy
from anycloud_cluster.store import clusters, credentials, events, ledger
from anycloud_cluster.store.ledger import Ledger
from anycloud_cluster.store.tables import PREFIX


class Creation:
    """`wake(cluster_id)` is called after the commit that gives its reconciler work."""

    def __init__(
        self,
        store: Store,
        cipher: Cipher,
        book: Ledger,
        targets: Targets,
        *,
        api_version: str,
        wake: Callable[[str], None],
    ) -> None:
        self._store = store
        self._cipher = cipher
        self._book = book
        self._targets = targets
        self._api_version = api_version
        self._wake = wake

    async def begin(self, name: str, target: Target, token: str | None, actor: Actor) -> Cluster:
        """The record; everything that speaks against it is raised as ApiError before it is stored."""
        if problem := check_name(name):
            raise ApiError("CLUSTER_INVALID", f"name: {problem}")
        existing = await self._store.read(clusters.only_live)
        if existing is not None:
            return await self._go_on(existing, name, target, token=token, actor=actor)
        credential = await self._store.read(lambda conn: self._credential(conn, name, target))
        if problem := check_target(credential.provider, target):
            raise ApiError("CLUSTER_INVALID", problem)
        account = await self._targets.sign_in(token)
        if target.bucket is not None:
            await self._targets.bucket(credential, target.bucket)
        image = await self._targets.api_image(self._api_version)
        record = partial(self._record, name=name, target=target, account=account, image=image, token=token, actor=actor)
        return await self._store.write(lambda tx: record(tx, credential))

    def _credential(self, conn: Any, name: str, target: Target) -> Credential:
        found = credentials.find(conn, target.credential_name)
        if found is None:
            text = (
                f"credentialName: there is no credential {target.credential_name!r}; see `anycloud credentials list`."
            )
            raise ApiError("CLUSTER_INVALID", text)
        if clusters.by_id(conn, name) is not None:
            raise ApiError("CLUSTER_INVALID", f"name: {name} is the id of another cluster.")
        return found

    def _record(
        self,
        tx: Tx,
        seen: Credential,
        *,
        name: str,
        target: Target,
        account: GitHubAccount,
        image: ApiImage,
        token: str | None,
        actor: Actor,
    ) -> Cluster:
        existing = clusters.only_live(tx.conn)
        if existing is not None:  # made by another request meanwhile; the same one twice is one cluster
            if refusal := check_existing(existing, name, target):
                raise ApiError(*refusal)
            return existing
        cluster_id = ids.new("cl")
        credential = self._hold(tx, seen, cluster_id)
        owner = {"created_by": actor.id, "owner_user_id": account.id, "owner_username": account.login}
        sealed = clusters.seal(self._cipher, cluster_id, "sealed_github_token", token)
        facts = {**_target(target, credential, cluster_id), **_pins(image), **owner, "sealed_github_token": sealed}
        first = next(iter(CREATE_PHASES))
        begun = {"state": CREATE_PHASES[first], "intent": Intent.CREATE, "phase": first}
        row = {"id": cluster_id, "name": name, "api_version": self._api_version, **begun, **facts}
        cluster = clusters.add(tx, row)
        text = f"{name} is to be made in {credential.provider} {target.region} on {target.vm_type}."
        self._event(tx, cluster, "create.recorded", text, actor)
        return cluster

    def _hold(self, tx: Tx, seen: Credential, cluster_id: str) -> Credential:
        now = credentials.by_id(tx.conn, seen.id)
        if now is None or (now.provider, now.account) != (seen.provider, seen.account):
            text = f"credentialName: credential {seen.name} was changed or deleted meanwhile; try again."
            raise ApiError("CLUSTER_INVALID", text)
        parent = holds.Parent(credentials.KIND, now.id)
        admission = holds.Admission(f"{cluster_id}-credential", holds.Owner(HOLD_OWNER, cluster_id), (parent,))
        refusal = holds.acquire(tx, PREFIX, Policy(), PREFIX, admission)
        if refusal is not None:
            raise ApiError("CLUSTER_INVALID", f"credentialName: {refusal.message}")
        return now

    async def _go_on(self, existing: Cluster, name: str, target: Target, *, token: str | None, actor: Actor) -> Cluster:
        """Continues one that failed or waits for a sign-in; one that is being made stays as it is."""
        if refusal := check_existing(existing, name, target):
            raise ApiError(*refusal)
        if token is None and existing.being_created:
            return existing
        account = await self._targets.sign_in(token)
        if account.id != existing.owner_user_id:
            text = (
                f"Cluster {existing.name} was begun by GitHub account {existing.owner_username}; sign in as that one."
            )
            raise ApiError("GITHUB_SIGN_IN_REQUIRED", text)
        return await self._store.write(
            partial(self._continue, seen=existing, name=name, target=target, token=token, actor=actor)
        )

    def _continue(
        self, tx: Tx, *, seen: Cluster, name: str, target: Target, token: str | None, actor: Actor
    ) -> Cluster:
        now = clusters.by_id(tx.conn, seen.id)
        if now is None:
            raise ApiError("CLUSTER_BUSY", f"Cluster {name} was forgotten meanwhile; try again.")
        if refusal := check_existing(now, name, target):
            raise ApiError(*refusal)
        sealed = clusters.seal(self._cipher, now.id, "sealed_github_token", token)
        changes: dict[str, Any] = {"sealed_github_token": sealed, "blocked": False}
        if now.state is State.FAILED:
            changes |= {"state": CREATE_PHASES[now.phase], "interrupted": False}
        if now.state is State.FAILED or now.blocked:
            changes |= {"failures": 0, "last_error": None, "phase_since": tx.now}
            for row in ledger.of_owner(tx.conn, HOLD_OWNER, now.id):
                if row.state is ResourceState.FAILED:
                    self._book.try_again(tx, row)
        cluster = clusters.change(tx, now, changes)
        self._event(tx, cluster, "create.continued", f"{now.name} goes on at step {now.phase}.", actor)
        return cluster

    def _event(self, tx: Tx, cluster: Cluster, reason: str, text: str, actor: Actor) -> None:
        events.append(tx, cluster.id, reason, text, actor=actor.id, request_id=actor.request_id)
        tx.after_commit(partial(self._wake, cluster.id))


def _target(target: Target, credential: Credential, cluster_id: str) -> dict[str, Any]:
    return {
        "credential_id": credential.id,
        "credential_name": credential.name,
        "provider": credential.provider,
        "account": credential.account,
        "region": target.region,
        "zone": target.zone,
        "vm_type": target.vm_type,
        "bucket": target.bucket or cluster_id,
        "bucket_managed": target.bucket is None,
    }


def _pins(image: ApiImage) -> dict[str, Any]:
    return {
        "k3s_version": pins.CURRENT.k3s_version,
        "k3s_sha256": pins.CURRENT.k3s_sha256,
        "helm_job_image": pins.CURRENT.helm_job_image,
        "api_image": image.pinned,
        "chart_version": image.chart_version,
        "chart_digest": image.chart_digest,
    }
