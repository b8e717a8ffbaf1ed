"""From a stored credential to a cloud."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anycloud_providers.protocol import Provider, ProviderKind
from anycloud_providers.sandbox.calls import Calls
from anycloud_providers.sandbox.identity import SandboxIdentity
from anycloud_providers.sandbox.machines import SandboxMachines
from anycloud_providers.sandbox.network import SandboxAddresses, SandboxNetworks
from anycloud_providers.sandbox.objects import SandboxBuckets, SandboxObjects


def open_provider(kind: ProviderKind, credential: Mapping[str, Any], sandbox_url: str | None) -> Provider:
    """The cloud of a credential, which has the contract's shape of its provider. Nothing is asked of it yet.

    Raises ProviderError(invalid) when the credential lacks a field, and without a sandbox.
    """
    calls = Calls.open(sandbox_url, kind, credential)
    return Provider(
        kind=kind,
        identity=SandboxIdentity(calls),
        networks=SandboxNetworks(calls),
        addresses=SandboxAddresses(calls),
        machines=SandboxMachines(calls),
        buckets=SandboxBuckets(calls),
        objects=SandboxObjects(calls),
        closing=calls,
    )
