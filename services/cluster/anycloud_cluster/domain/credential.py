"""Credentials: key material of one account of one cloud, in the contract's shape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from anycloud_providers.protocol import ProviderKind

Document = Mapping[str, Any]

TAG: Final = "cloudProvider"

# Of each provider: the keys that may be shown, and those that a change may name.
SHOWN: Final[Mapping[str, tuple[str, ...]]] = {
    "AWS": ("accessKeyId",),
    "GCP": ("clientEmail", "projectId"),
    "Azure": ("applicationId", "subscriptionId"),
    "Lambda": (),
    "Cloudflare": ("accountId", "jurisdiction"),
}
_CHANGEABLE: Final[Mapping[str, frozenset[str]]] = {
    "AWS": frozenset({"accessKeyId", "secretAccessKey"}),
    "GCP": frozenset({"clientEmail", "privateKey", "projectId"}),
    "Azure": frozenset({"applicationId", "directoryId", "secret", "subscriptionId"}),
    "Lambda": frozenset({"apiKey"}),
    "Cloudflare": frozenset({"apiToken", "jurisdiction"}),
}
CLOUDS: Final = ("AWS", "GCP", "Azure")


@dataclass(frozen=True)
class Credential:
    """A stored credential. `account` is what the cloud said; `sealed` is the document."""

    id: str
    name: str
    provider: str
    account: str
    shown: Document
    sealed: bytes = field(repr=False)
    revision: int
    auth_failed_at: int | None
    created_at: int
    updated_at: int


def cloud_of(document: Document) -> ProviderKind | None:
    """The cloud that says whose credential it is; None where this release knows none."""
    provider = document[TAG]
    return cast(ProviderKind, provider) if provider in CLOUDS else None


def redacted(document: Document) -> dict[str, Any]:
    """What may be answered of it."""
    return {key: document[key] for key in SHOWN[document[TAG]] if key in document}


def merged(document: Document, changes: Document) -> dict[str, Any]:
    """The document with these keys replaced. Raises ValueError with a sentence for keys of another provider.

    A session token belongs to its keys: new keys come without one.
    """
    provider = document[TAG]
    foreign = sorted(changes.keys() - _CHANGEABLE[provider])
    if foreign:
        raise ValueError(f"{provider} credentials have no field {', '.join(foreign)} that can be changed")
    new = {**document, **changes}
    if changes:
        new.pop("sessionToken", None)
    return new
