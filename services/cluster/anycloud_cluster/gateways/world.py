"""The world outside as one: the real one as far as this release reaches it, or the sandbox."""

from __future__ import annotations

from dataclasses import dataclass

from anycloud_common.clock import Clock
from anycloud_common.kube import Kube
from anycloud_common.settings import Settings

from anycloud_cluster.gateways.clouds import ProviderClouds
from anycloud_cluster.gateways.hosted_api import HttpHostedApi
from anycloud_cluster.gateways.images import NoImages, SandboxImages
from anycloud_cluster.gateways.kubes import KubeCluster, KubeClusters
from anycloud_cluster.gateways.names import NoNames, SandboxNames
from anycloud_cluster.gateways.sign_ins import GitHubSignIns, SandboxSignIns
from anycloud_cluster.gateways.ssh import AsyncSsh


@dataclass(frozen=True)
class World:
    clouds: ProviderClouds
    sign_ins: GitHubSignIns
    images: NoImages | SandboxImages
    names: NoNames | SandboxNames
    ssh: AsyncSsh
    clusters: KubeClusters
    hosted: HttpHostedApi

    @classmethod
    def of(cls, settings: Settings) -> World:
        url = settings.sandbox_url
        return cls(
            clouds=ProviderClouds(url),
            sign_ins=GitHubSignIns() if url is None else SandboxSignIns(url),
            images=NoImages() if url is None else SandboxImages(url),
            names=NoNames() if url is None else SandboxNames(url),
            ssh=AsyncSsh(),
            clusters=KubeClusters(),
            hosted=HttpHostedApi(settings.api_version),
        )

    def around_us(self, settings: Settings, clock: Clock) -> KubeCluster:
        """The cluster that a hosted API runs on."""
        return KubeCluster(Kube.in_cluster(settings, clock))

    async def close(self) -> None:
        for part in (self.sign_ins, self.images, self.names):
            await part.close()
