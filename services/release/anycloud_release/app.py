"""Assembles the release service."""

from __future__ import annotations

import asyncio

from anycloud_common import introspection
from anycloud_common.registry import Registry
from anycloud_common.release_values import ReleaseValues
from anycloud_common.server import ServerKit
from anycloud_common.settings import Settings
from anycloud_common.store import Store
from anycloudapi.release.v1 import release_pb2_grpc

from anycloud_release.domain.ports import Images, Rollouts
from anycloud_release.gateways.databases import SqliteDatabases
from anycloud_release.gateways.images import NoRegistry, RegistryImages
from anycloud_release.gateways.rollouts import KubeRollouts, NoRollouts
from anycloud_release.migrate.schema import SERVICES
from anycloud_release.rpc.database import DatabaseServicer
from anycloud_release.rpc.system_release import SystemReleaseServicer
from anycloud_release.rpc.targets import Targets
from anycloud_release.store import revisions


async def build(kit: ServerKit) -> None:
    settings = kit.settings
    store = Store.open(settings.database("release"), "release", kit.clock)

    async def close() -> None:
        await asyncio.to_thread(store.close)

    kit.on_close(close)
    introspection.authenticate(kit)
    targets = None
    if settings.release_values is not None:
        values = ReleaseValues.load(settings.release_values)
        await store.write(lambda tx: revisions.record_installed(tx, values.api))
        targets = Targets(store, _images(kit, values.sandbox_url), values.api.image)
    kit.add(
        release_pb2_grpc.add_SystemReleaseServicer_to_server,
        SystemReleaseServicer(store, _rollouts(kit), settings.api_version, targets),
    )
    kit.add(release_pb2_grpc.add_DatabaseServicer_to_server, DatabaseServicer(_databases(settings)))


def _rollouts(kit: ServerKit) -> Rollouts:
    if not kit.settings.hosted:
        return NoRollouts()
    from anycloud_common.kube import Kube

    kube = Kube.in_cluster(kit.settings, kit.clock)
    kit.on_close(kube.close)
    return KubeRollouts(kube)


def _images(kit: ServerKit, sandbox_url: str | None) -> Images:
    if sandbox_url is None:
        return NoRegistry()
    registry = Registry(f"{sandbox_url}/registry")
    kit.on_close(registry.close)
    return RegistryImages(registry)


def _databases(settings: Settings) -> SqliteDatabases:
    return SqliteDatabases({service: settings.database(service) for service in SERVICES})
