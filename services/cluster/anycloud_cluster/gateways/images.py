"""The hosted API's published image, resolved by its registry."""

from __future__ import annotations

from typing import Final

from anycloud_common import registry
from anycloud_common.registry import API_REGISTRY, API_REPOSITORY, Registry

from anycloud_cluster.domain.ports import ApiImage, OutsideError

CHART_LABEL: Final = "sh.anycloud.api.chart-digest"


class SandboxImages:
    """The sandbox's registry. A chart is known by the digest that its image names."""

    def __init__(self, sandbox_url: str) -> None:
        self._registry = Registry(f"{sandbox_url}/registry")

    async def api_image(self, version: str) -> ApiImage:
        reference = f"{API_REGISTRY}/{API_REPOSITORY}:{version}"
        try:
            image = await self._registry.resolve(reference)
        except registry.NotFound as error:
            raise OutsideError("not_found", str(error)) from None
        except registry.Unavailable as error:
            raise OutsideError("unreachable", str(error)) from None
        chart_digest = image.labels.get(CHART_LABEL)
        if chart_digest is None:
            raise OutsideError("invalid", f"the image {image.pinned} names no chart (label {CHART_LABEL})")
        return ApiImage(image.pinned, version, chart_digest)

    async def close(self) -> None:
        await self._registry.close()


class NoImages:
    """Outside the sandbox this release has no way to a registry."""

    async def api_image(self, version: str) -> ApiImage:
        text = "this release installs the API in the sandbox only: start the local API with --sandbox"
        raise OutsideError("invalid", text)

    async def close(self) -> None:
        return None
