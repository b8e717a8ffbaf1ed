"""What must be true outside before a cluster is recorded."""

from __future__ import annotations

from typing import Final

from anycloud_common.cipher import Cipher
from anycloud_common.errors import ApiError
from anycloud_providers.protocol import ProviderError

from anycloud_cluster.domain.credential import Credential, cloud_of
from anycloud_cluster.domain.ports import (
    ApiImage,
    Clouds,
    GitHubAccount,
    Images,
    OutsideError,
    SignInRefused,
    SignIns,
)
from anycloud_cluster.store import credentials

_HOW: Final = "run `anycloud login`, or put a GitHub token into GITHUB_TOKEN"
_BACKUP: Final = "anycloud-api/backup.json"
_TRANSIENT: Final = ("unreachable", "throttled", "capacity")


class Targets:
    def __init__(self, cipher: Cipher, clouds: Clouds, sign_ins: SignIns, images: Images) -> None:
        self._cipher = cipher
        self._clouds = clouds
        self._sign_ins = sign_ins
        self._images = images

    async def sign_in(self, token: str | None) -> GitHubAccount:
        """Whose GitHub token came with the request. Raises ApiError."""
        if not token:
            raise ApiError(
                "GITHUB_SIGN_IN_REQUIRED",
                f"This needs your GitHub sign-in: {_HOW}.",
            )
        try:
            return await self._sign_ins.account(token)
        except SignInRefused as error:
            text = f"GitHub doesn't accept your sign-in ({error}): {_HOW}."
            raise ApiError("GITHUB_SIGN_IN_REQUIRED", text) from None
        except OutsideError as error:
            text = f"GitHub can't be asked about your sign-in now ({error.message}); try again in a moment."
            raise ApiError("AUTHENTICATION_UNAVAILABLE", text) from None

    async def api_image(self, version: str) -> ApiImage:
        """The image that is to be installed. Raises ApiError."""
        try:
            return await self._images.api_image(version)
        except OutsideError as error:
            if error.kind == "unreachable":
                raise ApiError(
                    "CLUSTER_UNAVAILABLE", f"The API's image can't be resolved now: {error.message}."
                ) from None
            text = f"The API's image of version {version} can't be installed: {error.message}."
            raise ApiError("CLUSTER_INVALID", text) from None

    async def bucket(self, credential: Credential, name: str) -> None:
        """A bucket of the user's: it is there, this credential reaches it, and no backup is in it. Raises ApiError."""
        document = credentials.opened(self._cipher, credential)
        kind = cloud_of(document)
        try:
            cloud = self._clouds.open(kind or "AWS", document)
            try:
                await cloud.buckets.head(name)
                backups = await cloud.objects.list(name, _BACKUP)
            finally:
                await cloud.close()
        except ProviderError as error:
            raise _bucket_refusal(name, error) from None
        if backups:
            raise ApiError(
                "CLUSTER_INVALID",
                f"checkpointBucket: bucket {name} holds a backup, and restoring from it isn't part of this release; "
                "name an empty bucket, or none.",
            )


def _bucket_refusal(name: str, error: ProviderError) -> ApiError:
    if error.kind in _TRANSIENT:
        return ApiError("CLUSTER_UNAVAILABLE", f"Bucket {name} can't be checked now: {error.message}.")
    if error.kind == "not_found":
        return ApiError("CLUSTER_INVALID", f"checkpointBucket: there is no bucket {name}; make it first.")
    return ApiError("CLUSTER_INVALID", f"checkpointBucket: bucket {name} can't be used: {error.message}.")
