"""Buckets alone, for who keeps backups and must not buy machines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from anycloud_providers.protocol import Buckets, Closing, Objects, ProviderKind
from anycloud_providers.sandbox.calls import Calls
from anycloud_providers.sandbox.objects import SandboxBuckets, SandboxObjects


@dataclass(frozen=True)
class ObjectStore:
    """Buckets of one cloud under one credential. Close it when done."""

    kind: ProviderKind
    buckets: Buckets
    objects: Objects
    closing: Closing

    async def close(self) -> None:
        await self.closing.close()


def open_objects(kind: ProviderKind, credential: Mapping[str, Any], sandbox_url: str | None) -> ObjectStore:
    """As `open_provider`, with the same errors, for buckets only."""
    calls = Calls.open(sandbox_url, kind, credential)
    return ObjectStore(kind, SandboxBuckets(calls), SandboxObjects(calls), calls)
