"""One observation of a Deployment's Pods, read from Kubernetes within a second or not at all."""

from __future__ import annotations

import asyncio

from anycloud_common.clock import Clock
from anycloud_common.kube import KubeError

from anycloud_deployment.domain.model import Deployment
from anycloud_deployment.domain.observe import UNREADABLE, World
from anycloud_deployment.domain.ports import Objects
from anycloud_deployment.live.within import within

BOUND_S = 1.0


class Observer:
    def __init__(self, objects: Objects, clock: Clock) -> None:
        self._objects = objects
        self._clock = clock

    async def observe(self, deployment: Deployment) -> World:
        """Pods and ReplicaSets as they are now. Never raises; `error` says why nothing could be seen."""
        namespace = deployment.natives.namespace
        if namespace is None or deployment.deleted_at is not None:
            return World(at=self._clock.now_ms())
        try:
            seen = await within(self._clock, BOUND_S, self._read(namespace, deployment.id))
        except KubeError as error:
            return World(error=f"{UNREADABLE} {error}")
        return seen or World(error="Kubernetes didn't answer within one second.")

    async def _read(self, namespace: str, deployment_id: str) -> World:
        pods, replica_sets = await asyncio.gather(
            self._objects.pods(namespace, deployment_id), self._objects.replica_sets(namespace, deployment_id)
        )
        return World(pods, replica_sets, self._clock.now_ms())
