"""What image registries say about images."""

from __future__ import annotations

import logging

from anycloud_common import registry

log = logging.getLogger(__name__)


class RegistryImages:
    def __init__(self, source: registry.Registry) -> None:
        self._source = source

    async def runtime(self, reference: str) -> str | None:
        try:
            image = await self._source.resolve(reference)
        except (registry.NotFound, registry.Unavailable) as error:
            # Kubernetes tells what is wrong with the image, and goes on trying.
            log.info("an image can't be inspected", extra={"image": reference, "reason": str(error)})
            return None
        return None if image.accelerator == "none" else image.accelerator
