"""The values of the API's own release: what the installer hands to the hosted API through the chart.

The one reader and writer of that document. Its keys are camelCase, as chart values are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


class ReleaseValuesError(Exception):
    """The document can't be read or lacks a value; one sentence that names the key, never a value."""


@dataclass(frozen=True)
class ClusterValues:
    """The cluster that the API runs in. `identity` is the UID of its kube-system Namespace, `ca` is PEM."""

    id: str
    name: str
    identity: str
    endpoint: str
    ca: str
    address: str


@dataclass(frozen=True)
class ApiValues:
    """The release itself. `image` is pinned by digest, `url` is what clients and Pods use, without /v1."""

    image: str
    version: str
    chart_version: str
    revision: int
    url: str


@dataclass(frozen=True)
class OwnerValues:
    """The GitHub account that created the cluster."""

    user_id: str
    username: str


@dataclass(frozen=True)
class CheckpointValues:
    """The bucket for backups. `credential` is the compute credential in the contract's shape (BK-015, OPEN-004)."""

    provider: str
    bucket: str
    region: str
    managed: bool
    credential: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True)
class ReleaseValues:
    cluster: ClusterValues
    api: ApiValues
    owner: OwnerValues
    checkpoint: CheckpointValues
    sandbox_url: str | None = None

    @staticmethod
    def load(path: Path) -> ReleaseValues:
        """Reads the file of the chart's Secret. Raises ReleaseValuesError."""
        try:
            document = json.loads(path.read_bytes())
        except (OSError, ValueError) as error:
            raise ReleaseValuesError(f"The release values at {path} can't be read: {type(error).__name__}.") from error
        return ReleaseValues.from_document(document)

    @staticmethod
    def from_document(document: Any) -> ReleaseValues:
        """From parsed JSON or YAML. Raises ReleaseValuesError."""
        try:
            cluster, api, owner = document["cluster"], document["api"], document["owner"]
            checkpoint = document["checkpoint"]
            return ReleaseValues(
                cluster=ClusterValues(
                    *(str(cluster[key]) for key in ("id", "name", "identity", "endpoint", "ca", "address"))
                ),
                api=ApiValues(
                    image=str(api["image"]),
                    version=str(api["version"]),
                    chart_version=str(api["chartVersion"]),
                    revision=int(api["revision"]),
                    url=str(api["url"]),
                ),
                owner=OwnerValues(str(owner["userId"]), str(owner["username"])),
                checkpoint=CheckpointValues(
                    provider=str(checkpoint["provider"]),
                    bucket=str(checkpoint["bucket"]),
                    region=str(checkpoint["region"]),
                    managed=bool(checkpoint["managed"]),
                    credential=dict(checkpoint["credential"]),
                ),
                sandbox_url=document.get("sandboxUrl"),
            )
        except KeyError as error:
            raise ReleaseValuesError(f"The release values lack {error}.") from None
        except (TypeError, ValueError, AttributeError):
            raise ReleaseValuesError("The release values don't have their declared shape.") from None

    def to_document(self) -> dict[str, Any]:
        """The document, fit for JSON and YAML. It holds a credential: never log it."""
        return {
            "cluster": {
                "id": self.cluster.id,
                "name": self.cluster.name,
                "identity": self.cluster.identity,
                "endpoint": self.cluster.endpoint,
                "ca": self.cluster.ca,
                "address": self.cluster.address,
            },
            "api": {
                "image": self.api.image,
                "version": self.api.version,
                "chartVersion": self.api.chart_version,
                "revision": self.api.revision,
                "url": self.api.url,
            },
            "owner": {"userId": self.owner.user_id, "username": self.owner.username},
            "checkpoint": {
                "provider": self.checkpoint.provider,
                "bucket": self.checkpoint.bucket,
                "region": self.checkpoint.region,
                "managed": self.checkpoint.managed,
                "credential": dict(self.checkpoint.credential),
            },
            "sandboxUrl": self.sandbox_url,
        }
