"""Assembles the cluster service."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial

from anycloud_common.auth import TokenAuthenticator
from anycloud_common.cipher import Cipher
from anycloud_common.feed import FeedServicer
from anycloud_common.holds import HoldServicer
from anycloud_common.reconcile import Reconciler
from anycloud_common.release_values import ReleaseValues
from anycloud_common.server import ServerKit
from anycloud_common.settings import Settings, SettingsError
from anycloud_common.store import Store
from anycloudapi.cluster.internal.v1 import cluster_pb2_grpc
from anycloudapi.cluster.v1 import (
    access_pb2_grpc,
    buckets_pb2_grpc,
    clusters_pb2_grpc,
    credentials_pb2_grpc,
    quota_pb2_grpc,
)
from anycloudapi.common.internal.v1 import feed_pb2_grpc, holds_pb2_grpc

from anycloud_cluster.domain.access import Account
from anycloud_cluster.domain.resource import LedgerIdentity
from anycloud_cluster.gateways.world import World
from anycloud_cluster.live.lost import LostClusters
from anycloud_cluster.live.targets import Targets
from anycloud_cluster.reconcile.first_start import record_own_cluster
from anycloud_cluster.reconcile.ledger import Accounts, LedgerReconciler, Worlds
from anycloud_cluster.reconcile.ledger.kinds import actors
from anycloud_cluster.reconcile.reachability import Reachability
from anycloud_cluster.reconcile.runner import ClusterReconciler
from anycloud_cluster.reconcile.sweep import EVERY_S, Sweep
from anycloud_cluster.reconcile.withdrawals import Withdrawals
from anycloud_cluster.reconcile.work import Outside, Tools
from anycloud_cluster.rpc.access import ApiAccessServicer, ApiTokensServicer
from anycloud_cluster.rpc.buckets import BucketsServicer
from anycloud_cluster.rpc.clusters import ClustersServicer, Installing
from anycloud_cluster.rpc.creation import Creation
from anycloud_cluster.rpc.credentials import CredentialsServicer
from anycloud_cluster.rpc.deletion import Deletion
from anycloud_cluster.rpc.facts import ClusterFactsServicer
from anycloud_cluster.rpc.fence import Fences
from anycloud_cluster.rpc.forgetting import Forgetting
from anycloud_cluster.rpc.introspection import IntrospectionServicer, IssuedTokens, LocalToken, Tokens
from anycloud_cluster.rpc.ledger import LedgerServicer
from anycloud_cluster.rpc.policy import Policy
from anycloud_cluster.rpc.quota import QuotaServicer
from anycloud_cluster.store import clusters, ledger, refs
from anycloud_cluster.store.ledger import Ledger, Wakes
from anycloud_cluster.store.tables import PREFIX

_LEDGER_WORKERS = 16


@dataclass(frozen=True)
class _Parts:
    """What most of the service stands on."""

    kit: ServerKit
    store: Store
    cipher: Cipher
    world: World
    identity: LedgerIdentity
    wakes: Wakes
    book: Ledger

    def run(self, name: str, reconciler: Reconciler) -> Reconciler:
        self.kit.spawn(reconciler.run, name)
        return reconciler


async def build(kit: ServerKit) -> None:
    settings = kit.settings
    store = Store.open(settings.database(PREFIX), PREFIX, kit.clock)

    async def close() -> None:
        await asyncio.to_thread(store.close)

    kit.on_close(close)
    world = World.of(settings)
    kit.on_close(world.close)
    cipher = Cipher.load(settings.cipher_key)
    identity, wakes = _ledger_identity(settings), Wakes()
    parts = _Parts(kit, store, cipher, world, identity, wakes, Ledger(cipher, identity, wakes))
    values = await _own_cluster(parts)
    owner = None if values is None else Account(values.owner.user_id, values.owner.username)
    _add_access(parts, owner)
    _add_internal(parts)
    _run_ledger(parts)
    installing = None if settings.hosted else await _installing(parts)
    servicer = ClustersServicer(store, Fences(store), installing)
    kit.add(clusters_pb2_grpc.add_ClustersServicer_to_server, servicer)
    kit.add(buckets_pb2_grpc.add_BucketsServicer_to_server, BucketsServicer())
    kit.add(quota_pb2_grpc.add_QuotaServicer_to_server, QuotaServicer())


async def _own_cluster(parts: _Parts) -> ReleaseValues | None:
    """On a hosted API: the release values, once they are proven and on record."""
    settings = parts.kit.settings
    if settings.release_values is None:
        return None
    values = ReleaseValues.load(settings.release_values)
    kubernetes = parts.world.around_us(settings, parts.kit.clock)
    try:
        await record_own_cluster(parts.store, values, kubernetes)
    finally:
        await kubernetes.close()
    return values


def _add_access(parts: _Parts, owner: Account | None) -> None:
    kit, store, sign_ins = parts.kit, parts.store, parts.world.sign_ins
    tokens = _tokens(parts, owner)
    kit.authenticator = remembered = TokenAuthenticator(tokens.principal, kit.clock)
    kit.add(cluster_pb2_grpc.add_IntrospectionServicer_to_server, IntrospectionServicer(tokens))
    kit.add(access_pb2_grpc.add_ApiTokensServicer_to_server, ApiTokensServicer(store, sign_ins, owner, remembered.drop))
    kit.add(access_pb2_grpc.add_ApiAccessServicer_to_server, ApiAccessServicer(store, sign_ins, owner, remembered.drop))


def _tokens(parts: _Parts, owner: Account | None) -> Tokens:
    if owner is not None:
        return IssuedTokens(parts.store, parts.kit.clock, owner)
    path = parts.kit.settings.local_token_file
    if path is None:
        raise SettingsError("ANYCLOUD_LOCAL_TOKEN_FILE is not set; it must have a value.")
    return LocalToken(path)


def _add_internal(parts: _Parts) -> None:
    kit, store = parts.kit, parts.store
    kit.add(cluster_pb2_grpc.add_ClusterFactsServicer_to_server, ClusterFactsServicer(store))
    kit.add(cluster_pb2_grpc.add_LedgerServicer_to_server, LedgerServicer(store, parts.book))
    kit.add(holds_pb2_grpc.add_HoldServiceServicer_to_server, HoldServicer(store, PREFIX, Policy()))
    kit.add(feed_pb2_grpc.add_FeedServiceServicer_to_server, FeedServicer(store, PREFIX, refs.listed))
    servicer = CredentialsServicer(store, parts.cipher, parts.world.clouds)
    kit.add(credentials_pb2_grpc.add_CredentialsServicer_to_server, servicer)


def _run_ledger(parts: _Parts) -> None:
    kit, store, book = parts.kit, parts.store, parts.book
    worlds = Worlds(store, parts.cipher, parts.world.clouds)
    kit.on_close(worlds.close)
    accounts = Accounts(store, book, worlds, parts.identity, kit.clock)
    kinds = actors(store, parts.cipher, worlds, book, parts.world.names)
    handler = LedgerReconciler(store, book, kinds, worlds=worlds, accounts=accounts, clock=kit.clock)
    resources = parts.run("ledger", Reconciler("ledger", handler.handle, kit.clock, _LEDGER_WORKERS))
    lists = parts.run("accounts", Reconciler("accounts", accounts.handle, kit.clock))
    sweep = parts.run("sweep", Reconciler("sweep", Sweep(store, worlds, parts.identity, kit.clock).handle, kit.clock))
    accounts.mark = lists.mark
    parts.wakes.resource = resources.mark
    sweep.mark("all", EVERY_S)
    kit.spawn(partial(_resume_ledger, store, resources, accounts), "ledger resume")


async def _resume_ledger(store: Store, resources: Reconciler, accounts: Accounts) -> None:
    """What an earlier process left unfinished goes on."""
    rows, living = await store.read(lambda conn: (ledger.unfinished(conn), ledger.accounts(conn)))
    for row in rows:
        resources.mark(row.id)
    for provider, account in living:
        accounts.watch(provider, account)


async def _installing(parts: _Parts) -> Installing:
    """Making and ending clusters, with what goes on beside requests."""
    kit, store, cipher, book, world = parts.kit, parts.store, parts.cipher, parts.book, parts.world
    await store.write(clusters.mark_interrupted)
    outside = Outside(world.ssh, world.clusters, world.names, world.hosted, kit.settings.sandbox_url)
    passes = ClusterReconciler(Tools(store, cipher, book, outside, kit.clock))
    looks = Reachability(store, cipher, world.clusters)
    withdraws = Withdrawals(store, cipher, world.hosted)
    reconcilers = [
        parts.run("clusters", Reconciler("clusters", passes.handle, kit.clock)),
        parts.run("reachability", Reconciler("reachability", looks.handle, kit.clock)),
        parts.run("withdrawals", Reconciler("withdrawals", withdraws.handle, kit.clock)),
    ]

    def wake(cluster_id: str) -> None:
        for reconciler in reconcilers:
            reconciler.mark(cluster_id)

    parts.wakes.owner = lambda kind, owner_id: wake(owner_id) if kind == clusters.KIND else None
    passes.finished = wake
    for cluster in await store.read(clusters.everything):
        wake(cluster.id)
    api_version = kit.settings.api_version
    targets = Targets(cipher, world.clouds, world.sign_ins, world.images)
    lost = LostClusters(store, cipher, world.clouds, api_version)
    return Installing(
        Creation(store, cipher, book, targets, api_version=api_version, wake=wake),
        Deletion(store, cipher, book, targets=targets, hosted=world.hosted, lost=lost, wake=wake),
        Forgetting(store, book, targets=targets, hosted=world.hosted, lost=lost, names=world.names),
    )


def _ledger_identity(settings: Settings) -> LedgerIdentity:
    incarnation = settings.incarnation.read_text(encoding="ascii").strip()
    return LedgerIdentity("hosted" if settings.hosted else f"installer-{incarnation}", incarnation)
