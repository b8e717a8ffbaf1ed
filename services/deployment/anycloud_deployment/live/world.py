"""The cluster as watches report it: Pods of Deployments, their ReplicaSets and objects, and the pools' Nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from anycloud_common.clock import Clock
from anycloud_common.kube import EventType, Kube, Object, Reflector, names

from anycloud_deployment.domain import facts, manifest
from anycloud_deployment.domain.model import NodeFact, PodFact, ReplicaSetFact
from anycloud_deployment.domain.ports import Native

_OF_DEPLOYMENTS = f"{names.LABEL_MANAGED_BY}={names.MANAGED_BY},{names.LABEL_DEPLOYMENT}"
_KINDS = ("Pod", "ReplicaSet", *manifest.KINDS)

# Told the Deployment's id and the kind of what changed.
Changed = Callable[[str, str], None]


class World:
    """Implements `View`."""

    def __init__(self, kube: Kube, clock: Clock) -> None:
        self._clock = clock
        self._changed: Changed = lambda deployment_id, kind: None
        self._nodes_changed: Callable[[], None] = lambda: None
        self._reflectors = {
            kind: Reflector(kube, kind, None, _OF_DEPLOYMENTS, self._listener(kind), clock=clock) for kind in _KINDS
        }
        self._nodes = Reflector(kube, "Node", None, names.LABEL_NODE_POOL, self._node_event, clock=clock)
        self._pods: dict[str, PodFact] = {}
        self._by_deployment: dict[str, dict[str, PodFact]] = {}

    @property
    def synced(self) -> bool:
        return self._nodes.synced and all(reflector.synced for reflector in self._reflectors.values())

    def listen(self, changed: Changed, nodes_changed: Callable[[], None]) -> None:
        """From now on `changed` is called on the event loop for each change of a Deployment's objects, and
        `nodes_changed` when a Node came, went, or became ready or not."""
        self._changed = changed
        self._nodes_changed = nodes_changed

    async def run(self) -> None:
        """Watches until cancelled."""
        async with asyncio.TaskGroup() as watching:
            for reflector in (*self._reflectors.values(), self._nodes):
                watching.create_task(reflector.run())

    def pods(self, deployment_id: str) -> list[PodFact]:
        return list(self._by_deployment.get(deployment_id, {}).values())

    def pod(self, uid: str) -> PodFact | None:
        return self._pods.get(uid)

    def replica_sets(self, deployment_id: str) -> list[ReplicaSetFact]:
        return [
            facts.replica_set(obj)
            for obj in self._reflectors["ReplicaSet"].items.values()
            if _deployment_of(obj) == deployment_id
        ]

    def node(self, name: str) -> NodeFact | None:
        obj = self._nodes.get(name)
        return None if obj is None else facts.node(obj)

    def native(self, kind: str, namespace: str, name: str) -> Native | None:
        obj = self._reflectors[kind].get(name, namespace)
        return None if obj is None else facts.native(obj, name, kind)

    def _listener(self, kind: str) -> Callable[[EventType, Object | None, Object | None], None]:
        def told(_: EventType, old: Object | None, new: Object | None) -> None:
            if kind == "Pod":
                self._pod_event(old, new)
            for obj in (new, old):
                if obj is not None:
                    self._changed(_deployment_of(obj), kind)
                    break

        return told

    def _pod_event(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            self._forget(old)
            return
        before = self._pods.get(new["metadata"]["uid"])
        fact = facts.pod(new, self._clock.now_ms())
        if before is not None and before.restarts == fact.restarts:
            fact = facts.pod(new, before.restarts_seen_at)
        self._pods[fact.uid] = fact
        self._by_deployment.setdefault(fact.deployment_id, {})[fact.uid] = fact

    def _forget(self, obj: Object | None) -> None:
        gone = self._pods.pop(obj["metadata"]["uid"], None) if obj is not None else None
        if gone is None:
            return
        siblings = self._by_deployment[gone.deployment_id]
        siblings.pop(gone.uid, None)
        if not siblings:
            del self._by_deployment[gone.deployment_id]

    def _node_event(self, _: EventType, old: Object | None, new: Object | None) -> None:
        if old is None or new is None or facts.node(old) != facts.node(new):
            self._nodes_changed()


def _deployment_of(obj: Any) -> str:
    return str(obj["metadata"]["labels"][names.LABEL_DEPLOYMENT])
