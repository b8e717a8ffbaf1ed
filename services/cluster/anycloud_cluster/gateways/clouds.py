"""Clouds of the providers package."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anycloud_providers.opening import open_provider
from anycloud_providers.protocol import Provider, ProviderKind


class ProviderClouds:
    """`sandbox_url` None: real clouds."""

    def __init__(self, sandbox_url: str | None) -> None:
        self._sandbox_url = sandbox_url

    def open(self, kind: ProviderKind, credential: Mapping[str, Any]) -> Provider:
        return open_provider(kind, credential, self._sandbox_url)
