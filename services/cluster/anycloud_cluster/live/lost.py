"""What is left of a cluster whose API doesn't answer: a backup, its VMs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from anycloud_common.cipher import Cipher
from anycloud_common.store import Store
from anycloud_providers.protocol import Provider, ProviderError, ProviderKind

from anycloud_cluster.domain.cluster import Cluster
from anycloud_cluster.domain.ports import Clouds
from anycloud_cluster.domain.refusals import Backup
from anycloud_cluster.domain.resource import ROLE_POOL, TAG_API, TAG_ROLE, Kind, Resource
from anycloud_cluster.store import credentials, ledger

_MANIFEST: Final = "anycloud-api/backup.json"
_DATABASE: Final = "anycloud-api/database.sqlite"
_KEY: Final = "anycloud-api/cipher.key"


class Unknown(Exception):
    """The cloud couldn't be asked; says why."""


class LostClusters:
    def __init__(self, store: Store, cipher: Cipher, clouds: Clouds, version: str) -> None:
        self._store = store
        self._cipher = cipher
        self._clouds = clouds
        self._version = version

    async def backup(self, cluster: Cluster) -> Backup:
        """Whether its bucket holds a backup that this version could restore. What can't be read counts as none."""
        bucket = cluster.bucket or ""
        try:
            cloud = await self._cloud(cluster)
            try:
                return await self._judged(cloud, bucket)
            finally:
                await cloud.close()
        except (ProviderError, Unknown) as error:
            return Backup(False, f"Its checkpoint bucket {bucket} can't be read: {error}.")

    async def pool_machines(self, cluster: Cluster) -> Sequence[str]:
        """Ids of VMs of its node pools that aren't gone. Raises Unknown."""
        tags = {TAG_API: cluster.id, TAG_ROLE: ROLE_POOL}
        try:
            cloud = await self._cloud(cluster)
            try:
                return [m.id for m in await cloud.machines.list(tags) if m.state != "terminated"]
            finally:
                await cloud.close()
        except ProviderError as error:
            raise Unknown(f"{cluster.provider} can't be asked: {error.message}") from None

    async def management_machine(self, cluster: Cluster) -> str | None:
        """Id of its management VM as long as the cloud shows it in any state but terminated. Raises Unknown."""
        rows = await self._store.read(lambda conn: ledger.of_owner(conn, "cluster", cluster.id))
        try:
            cloud = await self._cloud(cluster)
            try:
                for row in rows:
                    if row.kind == Kind.MACHINE and (found := await _alive(cloud, row)):
                        return found
                return None
            finally:
                await cloud.close()
        except ProviderError as error:
            raise Unknown(f"{cluster.provider} can't be asked: {error.message}") from None

    async def machine_id(self, cluster: Cluster) -> str | None:
        """Id of its management VM as the ledger has it."""
        rows = await self._store.read(lambda conn: ledger.of_owner(conn, "cluster", cluster.id))
        return next((row.provider_id for row in rows if row.kind == Kind.MACHINE and row.provider_id), None)

    async def _cloud(self, cluster: Cluster) -> Provider:
        """Under a credential of the very account. Raises Unknown, ProviderError."""
        provider, account = cluster.provider or "", cluster.account or ""
        found = await self._store.read(
            lambda conn: credentials.of_account(conn, provider, account, cluster.credential_id)
        )
        if found is None:
            raise Unknown(f"no stored credential is of {provider} account {account}")
        return self._clouds.open(cast(ProviderKind, provider), credentials.opened(self._cipher, found))

    async def _judged(self, cloud: Provider, bucket: str) -> Backup:
        names = {item.key for item in await cloud.objects.list(bucket, "anycloud-api/")}
        if _MANIFEST not in names:
            return Backup(False, f"Its checkpoint bucket {bucket} holds no backup.")
        manifest = _parsed((await cloud.objects.get(bucket, _MANIFEST)).data)
        digest, version = manifest.get("databaseSha256"), str(manifest.get("apiVersion", ""))
        if manifest and _numbers(version) > _numbers(self._version):
            return Backup(False, f"The backup in {bucket} was written by the newer version {version}.")
        if {_DATABASE, _KEY} <= names and await _matches(cloud, bucket, digest):
            return Backup(True, "")
        return Backup(False, f"The backup in {bucket} is not complete.")


async def _alive(cloud: Provider, row: Resource) -> str | None:
    try:
        found = await (cloud.machines.describe(row.provider_id) if row.provider_id else cloud.machines.find(row.id))
    except ProviderError as error:
        if error.kind == "not_found":
            return None
        raise
    return found.id if found is not None and found.state != "terminated" else None


async def _matches(cloud: Provider, bucket: str, digest: object) -> bool:
    content = await cloud.objects.get(bucket, _DATABASE)
    return hashlib.sha256(content.data).hexdigest() == digest


def _parsed(raw: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(raw)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _numbers(version: str) -> tuple[int, ...]:
    """Sorts versions; text that is none is newer than all, as nobody knows what wrote it."""
    parts = version.split(".")
    return tuple(int(part) for part in parts) if all(part.isdigit() for part in parts) else (10**9,)
