"""Assembles the release service."""

from __future__ import annotations

import asyncio

from anycloud_common import introspection
from anycloud_common.auth import TokenAuthenticator
from anycloud_common.release_values import ReleaseValues
from anycloud_common.server import ServerKit
from anycloud_common.settings import Settings
from anycloud_common.store import Store
from anycloudapi.release.v1 import release_pb2_grpc

from anycloud_release.domain.ports import Rollouts
from anycloud_release.gateways.databases import SqliteDatabases
from anycloud_release.gateways.rollouts import KubeRollouts, NoRollouts
from anycloud_release.migrate.schema import SERVICES
from anycloud_release.rpc.database import DatabaseServicer
from anycloud_release.rpc.system_release import SystemReleaseServicer
from anycloud_release.store import revisions


async def build(kit: ServerKit) -> None:
    settings = kit.settings
    store = Store.open(settings.database("release"), "release", kit.clock)

    async def close() -> None:
        await asyncio.to_thread(store.close)

    kit.on_close(close)
    kit.authenticator = TokenAuthenticator(introspection.over(kit.channel("cluster")), kit.clock)
    if settings.release_values is not None:
        values = ReleaseValues.load(settings.release_values)
        await store.write(lambda tx: revisions.record_installed(tx, values.api))
    kit.add(
        release_pb2_grpc.add_SystemReleaseServicer_to_server,
        SystemReleaseServicer(store, _rollouts(kit), settings.api_version),
    )
    kit.add(release_pb2_grpc.add_DatabaseServicer_to_server, DatabaseServicer(_databases(settings)))


def _rollouts(kit: ServerKit) -> Rollouts:
    if not kit.settings.hosted:
        return NoRollouts()
    from anycloud_common.kube import Kube

    kube = Kube.in_cluster(kit.settings, kit.clock)
    kit.on_close(kube.close)
    return KubeRollouts(kube)


def _databases(settings: Settings) -> SqliteDatabases:
    return SqliteDatabases({service: settings.database(service) for service in SERVICES})
