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
from anycloudapi.cluster.v1 import access_pb2_grpc, credentials_pb2_grpc
from anycloudapi.common.internal.v1 import feed_pb2_grpc, holds_pb2_grpc

from anycloud_cluster.domain.access import Account
from anycloud_cluster.domain.ports import Clouds, Names
from anycloud_cluster.domain.resource import LedgerIdentity
from anycloud_cluster.gateways.clouds import ProviderClouds
from anycloud_cluster.gateways.names import NoNames, SandboxNames
from anycloud_cluster.gateways.sign_ins import GitHubSignIns, SandboxSignIns
from anycloud_cluster.reconcile.first_start import record_own_cluster
from anycloud_cluster.reconcile.ledger import Accounts, LedgerReconciler, Worlds
from anycloud_cluster.reconcile.ledger.kinds import actors
from anycloud_cluster.rpc.access import ApiAccessServicer, ApiTokensServicer
from anycloud_cluster.rpc.credentials import CredentialsServicer
from anycloud_cluster.rpc.facts import ClusterFactsServicer
from anycloud_cluster.rpc.introspection import IntrospectionServicer, IssuedTokens, LocalToken, Tokens
from anycloud_cluster.rpc.ledger import LedgerServicer
from anycloud_cluster.rpc.policy import Policy
from anycloud_cluster.store import ledger, refs
from anycloud_cluster.store.ledger import Ledger, Wakes
from anycloud_cluster.store.tables import PREFIX

_LEDGER_WORKERS = 16


@dataclass(frozen=True)
class _Parts:
    """What most of the service stands on."""

    kit: ServerKit
    store: Store
    cipher: Cipher
    clouds: Clouds
    names: Names
    identity: LedgerIdentity
    wakes: Wakes
    book: Ledger


async def build(kit: ServerKit) -> None:
    settings = kit.settings
    store = Store.open(settings.database(PREFIX), PREFIX, kit.clock)

    async def close() -> None:
        await asyncio.to_thread(store.close)

    kit.on_close(close)
    cipher = Cipher.load(settings.cipher_key)
    identity, wakes = _ledger_identity(settings), Wakes()
    clouds = ProviderClouds(settings.sandbox_url)
    names = NoNames() if settings.sandbox_url is None else SandboxNames(settings.sandbox_url)
    kit.on_close(names.close)
    parts = _Parts(kit, store, cipher, clouds, names, identity, wakes, Ledger(cipher, identity, wakes))
    values = await _own_cluster(parts)
    owner = None if values is None else Account(values.owner.user_id, values.owner.username)
    _add_access(parts, owner)
    _add_internal(parts)
    _run_ledger(parts)


async def _own_cluster(parts: _Parts) -> ReleaseValues | None:
    """On a hosted API: the release values, once they are proven and on record."""
    settings = parts.kit.settings
    if settings.release_values is None:
        return None
    from anycloud_common.kube import Kube

    from anycloud_cluster.gateways.kubes import KubeCluster

    values = ReleaseValues.load(settings.release_values)
    kubernetes = KubeCluster(Kube.in_cluster(settings, parts.kit.clock))
    try:
        await record_own_cluster(parts.store, values, kubernetes)
    finally:
        await kubernetes.close()
    return values


def _add_access(parts: _Parts, owner: Account | None) -> None:
    kit, store = parts.kit, parts.store
    url = kit.settings.sandbox_url
    sign_ins = GitHubSignIns() if url is None else SandboxSignIns(url)
    kit.on_close(sign_ins.close)
    tokens = _tokens(parts, owner)
    kit.authenticator = TokenAuthenticator(tokens.principal, kit.clock)
    kit.add(cluster_pb2_grpc.add_IntrospectionServicer_to_server, IntrospectionServicer(tokens))
    kit.add(access_pb2_grpc.add_ApiTokensServicer_to_server, ApiTokensServicer(store, sign_ins, owner))
    kit.add(access_pb2_grpc.add_ApiAccessServicer_to_server, ApiAccessServicer(store, sign_ins, owner))


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
    servicer = CredentialsServicer(store, parts.cipher, parts.clouds)
    kit.add(credentials_pb2_grpc.add_CredentialsServicer_to_server, servicer)


def _run_ledger(parts: _Parts) -> None:
    kit, store, book = parts.kit, parts.store, parts.book
    worlds = Worlds(store, parts.cipher, parts.clouds)
    kit.on_close(worlds.close)
    accounts = Accounts(store, book, worlds, parts.identity, kit.clock)
    handler = LedgerReconciler(
        store,
        book,
        actors(store, parts.cipher, worlds, book, parts.names),
        worlds=worlds,
        accounts=accounts,
        clock=kit.clock,
    )
    resources = Reconciler("ledger", handler.handle, kit.clock, _LEDGER_WORKERS)
    lists = Reconciler("accounts", accounts.handle, kit.clock)
    accounts.mark = lists.mark
    parts.wakes.resource = resources.mark
    kit.spawn(resources.run, "ledger")
    kit.spawn(lists.run, "accounts")
    kit.spawn(partial(_resume, store, resources, accounts), "ledger resume")


async def _resume(store: Store, resources: Reconciler, accounts: Accounts) -> None:
    """What an earlier process left unfinished goes on."""
    rows, living = await store.read(lambda conn: (ledger.unfinished(conn), ledger.accounts(conn)))
    for row in rows:
        resources.mark(row.id)
    for provider, account in living:
        accounts.watch(provider, account)


def _ledger_identity(settings: Settings) -> LedgerIdentity:
    incarnation = settings.incarnation.read_text(encoding="ascii").strip()
    return LedgerIdentity("hosted" if settings.hosted else f"installer-{incarnation}", incarnation)
