"""From a row of the ledger to the cloud of its very account."""

from __future__ import annotations

import asyncio
import logging
from typing import cast

from anycloud_common.cipher import Cipher
from anycloud_common.store import Store
from anycloud_providers.protocol import Provider, ProviderError, ProviderKind

from anycloud_cluster.domain.credential import Credential
from anycloud_cluster.domain.ports import Clouds
from anycloud_cluster.store import credentials

log = logging.getLogger(__name__)

Account = tuple[str, str]  # provider, account


class Worlds:
    """Opened clouds, one a credential, kept until its key material changes."""

    def __init__(self, store: Store, cipher: Cipher, clouds: Clouds) -> None:
        self._store = store
        self._cipher = cipher
        self._clouds = clouds
        self._open: dict[str, tuple[int, Provider]] = {}
        self._opening = asyncio.Lock()

    async def of(self, provider: str, account: str, credential_id: str) -> Provider:
        """The cloud under a credential of that account, by preference the one with this id.

        Raises ProviderError(auth) when no stored credential is of that account: nobody else's answer would count.
        """
        found = await self._store.read(lambda conn: credentials.of_account(conn, provider, account, credential_id))
        if found is None:
            raise ProviderError("auth", f"no stored credential is of {provider} account {account}")
        async with self._opening:
            return await self._opened(found)

    async def refused(self, provider: str, account: str, credential_id: str) -> None:
        """The cloud said `auth`: that is shown on the credential."""

        found = await self._store.read(lambda conn: credentials.of_account(conn, provider, account, credential_id))
        if found is not None and found.auth_failed_at is None:
            await self._store.write(lambda tx: credentials.auth_failed(tx, found))

    async def close(self) -> None:
        for _, provider in self._open.values():
            await provider.close()
        self._open.clear()

    async def _opened(self, credential: Credential) -> Provider:
        known = self._open.get(credential.id)
        if known is not None and known[0] == credential.revision:
            return known[1]
        document = credentials.opened(self._cipher, credential)
        opened = self._clouds.open(cast(ProviderKind, credential.provider), document)
        self._open[credential.id] = (credential.revision, opened)
        if known is not None:
            await known[1].close()
        return opened
