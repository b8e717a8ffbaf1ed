"""Whether the Pod of the API is the awaited one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

_USUAL: Final = ("ContainerCreating", "PodInitializing")


def is_awaited(pods: Sequence[dict[str, Any]], image: str) -> bool:
    """Whether one of the revision's Pods runs the pinned image and is Ready."""
    return any(_runs(pod, image.rpartition("@")[2]) and _ready(pod) for pod in pods if not _ends(pod))


def trouble(pods: Sequence[dict[str, Any]]) -> str | None:
    """Why a Pod doesn't start, in Kubernetes' words; None while there is nothing unusual."""
    for pod in pods:
        for container in _containers(pod):
            waiting = (container.get("state") or {}).get("waiting") or {}
            if waiting.get("reason") not in (None, *_USUAL):
                return f"The API's Pod waits: {waiting['reason']} {waiting.get('message', '')}".rstrip()
    return None


def _runs(pod: dict[str, Any], digest: str) -> bool:
    return any(digest in c.get("imageID", "") and "running" in (c.get("state") or {}) for c in _containers(pod))


def _ready(pod: dict[str, Any]) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _ends(pod: dict[str, Any]) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))


def _containers(pod: dict[str, Any]) -> list[dict[str, Any]]:
    return (pod.get("status") or {}).get("containerStatuses") or []
