"""Judges the image that a hosted API is asked to move to."""

from __future__ import annotations

from anycloud_common.errors import ApiError, NotAvailable
from anycloud_common.registry import Reference
from anycloud_common.store import Store

from anycloud_release.domain import targets
from anycloud_release.domain.ports import ImageMissing, Images, ImagesUnknown
from anycloud_release.domain.targets import TargetRefused
from anycloud_release.store import stamp


class Targets:
    """`running` is the image that this API runs, pinned by digest."""

    def __init__(self, store: Store, images: Images, running: str) -> None:
        self._store = store
        self._images = images
        self._running = running.rpartition("@")[2]

    async def judge(self, image: str) -> None:
        """Returns when the API runs that image already. Raises ApiError where a rule stands against it, and
        NotAvailable for what the rules allow: nothing is changed."""
        try:
            version = await self._allowed(targets.reference(image))
        except TargetRefused as refusal:
            raise ApiError("SYSTEM_RELEASE_REFUSED", str(refusal)) from None
        if version is not None:
            raise NotAvailable(f"Upgrading a running API isn't available; nothing was changed towards {version}.")

    async def _allowed(self, named: Reference) -> str | None:
        """The version to move to; None for what runs. Raises TargetRefused or ApiError."""
        if named.digest is not None and named.digest == self._running:
            return None
        try:
            found = await self._images.published(named)
        except ImageMissing:
            raise targets.unpublished(named) from None
        except ImagesUnknown as error:
            text = f"The image can't be looked up now ({error}); try again in a moment."
            raise ApiError("SYSTEM_RELEASE_UNAVAILABLE", text) from None
        if found is not None and found.digest == self._running:
            return None
        version = targets.version(named, None if found is None else found.version)
        stamped = await self._store.read(stamp.read)
        targets.refuse_older(version, None if stamped is None else stamped.version)
        return version
