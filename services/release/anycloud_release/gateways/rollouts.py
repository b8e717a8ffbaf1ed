"""Reads the API's own Kubernetes Deployment."""

from __future__ import annotations

from typing import Any, Final

from anycloud_common.kube import Kube, KubeError

from anycloud_release.domain.ports import Condition, Rollout, RolloutUnknown

NAMESPACE: Final = "anycloud"
NAME: Final = "anycloud-api"


class KubeRollouts:
    def __init__(self, kube: Kube) -> None:
        self._kube = kube

    async def read(self) -> Rollout | None:
        try:
            deployment = await self._kube.get("Deployment", NAME, NAMESPACE)
        except KubeError as e:
            raise RolloutUnknown(f"The Deployment {NAMESPACE}/{NAME} couldn't be read: {e.message}") from e
        return None if deployment is None else _rollout(deployment)


def _rollout(deployment: dict[str, Any]) -> Rollout:
    status = deployment.get("status", {})
    return Rollout(
        replicas=status.get("replicas", 0),
        ready_replicas=status.get("readyReplicas", 0),
        updated_replicas=status.get("updatedReplicas", 0),
        observed_generation=status.get("observedGeneration"),
        conditions=tuple(
            Condition(c["type"], c["status"], c.get("reason") or None, c.get("message") or None)
            for c in status.get("conditions", [])
        ),
    )


class NoRollouts:
    """On an installer, whose API is no Deployment."""

    async def read(self) -> Rollout | None:
        return None
