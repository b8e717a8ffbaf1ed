"""The registry of the API's image."""

from __future__ import annotations

from typing import Final

from anycloud_common import registry
from anycloud_common.registry import Reference, Registry

from anycloud_release.domain.ports import ImageMissing, ImagesUnknown, PublishedImage

VERSION_LABEL: Final = "sh.anycloud.api.version"


class RegistryImages:
    def __init__(self, source: Registry) -> None:
        self._source = source

    async def published(self, named: Reference) -> PublishedImage | None:
        wanted = named.name if named.tag is None else f"{named.name}:{named.tag}"
        try:
            found = await self._source.resolve(wanted if named.digest is None else f"{wanted}@{named.digest}")
        except registry.NotFound as error:
            raise ImageMissing(str(error)) from None
        except registry.Unavailable as error:
            raise ImagesUnknown(str(error)) from None
        return PublishedImage(found.digest, found.labels.get(VERSION_LABEL))


class NoRegistry:
    """Outside the sandbox this API has no way to a registry."""

    async def published(self, named: Reference) -> PublishedImage | None:
        return None
