"""The installer's cluster service without its server: the real rooms over a real store, driven a pass at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from anycloud_cluster.domain.cluster import Cluster, Target
from anycloud_cluster.domain.resource import LedgerIdentity
from anycloud_cluster.live.lost import LostClusters
from anycloud_cluster.live.targets import Targets
from anycloud_cluster.reconcile.ledger import Accounts, LedgerReconciler, Worlds
from anycloud_cluster.reconcile.ledger.kinds import actors
from anycloud_cluster.reconcile.reachability import Reachability
from anycloud_cluster.reconcile.runner import ClusterReconciler
from anycloud_cluster.reconcile.withdrawals import Withdrawals
from anycloud_cluster.reconcile.work import Outside, Tools
from anycloud_cluster.rpc.callers import Actor
from anycloud_cluster.rpc.clusters import ClustersServicer, Installing
from anycloud_cluster.rpc.creation import Creation
from anycloud_cluster.rpc.credentials import CredentialsServicer
from anycloud_cluster.rpc.deletion import Deletion
from anycloud_cluster.rpc.fence import Fences
from anycloud_cluster.rpc.forgetting import Forgetting
from anycloud_cluster.store import clusters, credentials, ledger
from anycloud_cluster.store.ledger import Ledger, Wakes
from anycloud_common.cipher import Cipher
from anycloud_common.clock import ManualClock
from anycloud_common.store import Store, Tx
from sqlalchemy import Connection

from tests.unit.cluster import fakes
from tests.unit.cluster.fakes import AWS, SIGN_IN, Killed, World

T = TypeVar("T")
TARGET = Target("aws", "us-east-1", None, "t3.large", None)
ACTOR = Actor("local", "request-1")
IDENTITY = LedgerIdentity("installer-0a1b2c3d", "0a1b2c3d")


class _MortalStore:
    """A store that a dead process can't use any more."""

    def __init__(self, store: Store, world: World) -> None:
        self._store = store
        self._world = world

    async def write(self, fn: Callable[[Tx], T]) -> T:
        self._check()
        return await self._store.write(fn)

    async def read(self, fn: Callable[[Connection], T]) -> T:
        self._check()
        return await self._store.read(fn)

    async def look(self, fn: Callable[[Connection], T]) -> T:
        self._check()
        return await self._store.look(fn)

    def _check(self) -> None:
        if self._world.dead:
            raise Killed


class Installation:
    """One life of the process."""

    def __init__(self, path: Path, key: Path, world: World, clock: ManualClock) -> None:
        self.world = world
        self.clock = clock
        self.real_store = Store.open(path, "cluster", clock)
        store: Any = _MortalStore(self.real_store, world)
        self.store: Store = store
        self.cipher = cipher = Cipher.load(key)
        self.book = book = Ledger(cipher, IDENTITY, Wakes())
        clouds = fakes.Clouds(world)
        names, hosted = fakes.Names(world), fakes.Hosted(world)
        self.worlds = Worlds(store, cipher, clouds)
        self.accounts = Accounts(store, book, self.worlds, IDENTITY, clock)
        kinds = actors(store, cipher, self.worlds, book, names)
        self.ledger = LedgerReconciler(store, book, kinds, worlds=self.worlds, accounts=self.accounts, clock=clock)
        outside = Outside(fakes.Ssh(world), fakes.Clusters(world), names, hosted, None)
        self.passes = ClusterReconciler(Tools(store, cipher, book, outside, clock))
        self.withdrawals = Withdrawals(store, cipher, hosted)
        self.reachability = Reachability(store, cipher, fakes.Clusters(world))
        targets = Targets(cipher, clouds, fakes.SignIns(world), fakes.Images(world))
        lost = LostClusters(store, cipher, clouds, "0.1.70")

        def wake(cluster_id: str) -> None:
            return None

        self.creation = Creation(store, cipher, book, targets, api_version="0.1.70", wake=wake)
        self.deletion = Deletion(store, cipher, book, targets=targets, hosted=hosted, lost=lost, wake=wake)
        self.forgetting = Forgetting(store, book, targets=targets, hosted=hosted, lost=lost, names=names)
        installing = Installing(self.creation, self.deletion, self.forgetting)
        self.clusters = ClustersServicer(store, Fences(store), installing)
        self.credentials = CredentialsServicer(store, cipher, clouds)

    async def start(self) -> None:
        """What a process does before it serves."""
        await self.store.write(clusters.mark_interrupted)

    async def with_credential(self, document: Mapping[str, Any] = AWS, name: str = "aws") -> str:
        credential_id = f"cred-{name}"
        sealed = credentials.sealed(self.cipher, credential_id, document)
        account = document["accessKeyId"].split(".")[0]
        add = partial(credentials.add, document=document, account=account, data=sealed)
        await self.store.write(lambda tx: add(tx, credential_id, name))
        return credential_id

    async def create(self, name: str = "prod", target: Target = TARGET, token: str | None = SIGN_IN) -> Cluster:
        return await self.creation.begin(name, target, token, ACTOR)

    async def delete(self, token: str | None = SIGN_IN) -> Cluster:
        return await self.deletion.begin(await self.cluster(), token, ACTOR)

    async def cluster(self) -> Cluster:
        """The youngest one."""
        return (await self.store.read(clusters.everything))[-1]

    async def step(self, seconds: float = 1) -> None:
        """A pass over everything, then time goes by."""
        for row in await self.store.read(ledger.unfinished):
            await self.ledger.handle(row.id)
        for provider, account in await self.store.read(ledger.accounts):
            await self.accounts.handle(f"{provider}\n{account}")
        for cluster in await self.store.read(clusters.everything):
            await self.passes.handle(cluster.id)
            await self.withdrawals.handle(cluster.id)
        self.world.go_on()
        await self.clock.advance(seconds)

    async def drive(self, done: Callable[[Cluster], bool], steps: int = 60, seconds: float = 1) -> Cluster:
        """Goes on until the cluster is as it is wanted."""
        for _ in range(steps):
            cluster = await self.cluster()
            if done(cluster):
                return cluster
            await self.step(seconds)
        raise AssertionError(f"not after {steps} steps: {await self.cluster()}")

    def close(self) -> None:
        self.real_store.close()


def at_rest(cluster: Cluster) -> bool:
    return cluster.state in ("running", "failed") or (cluster.state == "terminated" and not cluster.releasing)
