"""The cluster as watches report it: Nodes that claim pools, and the NetworkPolicies of pools' Namespaces."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence

from anycloud_common.clock import Clock
from anycloud_common.kube import EventType, Kube, Object, Reflector, names

from anycloud_nodepool.domain import egress, naming
from anycloud_nodepool.domain.model import NodeFact


class World:
    """Implements `View`. `changed(pool_id)` is called on the event loop for each change that concerns a pool, and
    `synced_at_last()` once the cluster was read completely."""

    def __init__(
        self, kube: Kube, clock: Clock, changed: Callable[[str], None], synced_at_last: Callable[[], Awaitable[None]]
    ) -> None:
        self._changed = changed
        self._synced_at_last = synced_at_last
        self._nodes: dict[str, NodeFact] = {}
        self._claims: dict[str, dict[str, NodeFact]] = {}
        self._reflectors = {
            "Node": Reflector(kube, "Node", None, None, self._node_event, clock=clock),
            "NetworkPolicy": Reflector(kube, "NetworkPolicy", None, None, self._policy_event, clock=clock),
        }

    @property
    def synced(self) -> bool:
        return all(reflector.synced for reflector in self._reflectors.values())

    async def run(self) -> None:
        """Watches until cancelled."""
        async with asyncio.TaskGroup() as watching:
            for reflector in self._reflectors.values():
                watching.create_task(reflector.run())
            for reflector in self._reflectors.values():
                await reflector.wait_synced()
            await self._synced_at_last()

    def nodes(self, pool_id: str) -> Sequence[NodeFact]:
        return list(self._claims.get(pool_id, {}).values())

    def policy(self, namespace: str, name: str) -> Object | None:
        return self._reflectors["NetworkPolicy"].get(name, namespace)

    def _node_event(self, _: EventType, old: Object | None, new: Object | None) -> None:
        name = (new or old or {})["metadata"]["name"]
        before, after = self._nodes.get(name), None if new is None else node_fact(new)
        if before == after:
            return  # a heartbeat
        touched = {*_pools_of(before), *_pools_of(after)}
        for pool_id in _pools_of(before):
            self._claims[pool_id].pop(name, None)
        if after is None:
            self._nodes.pop(name, None)
        else:
            self._nodes[name] = after
            for pool_id in _pools_of(after):
                self._claims.setdefault(pool_id, {})[name] = after
        for pool_id in touched:
            self._changed(pool_id)

    def _policy_event(self, _: EventType, old: Object | None, new: Object | None) -> None:
        for obj in (old, new):
            if obj is None or obj["metadata"]["name"] != egress.POLICY:
                continue
            pool_id = (obj["metadata"].get("labels") or {}).get(names.LABEL_NODE_POOL)
            if pool_id:
                self._changed(pool_id)


def node_fact(obj: Object) -> NodeFact:
    """What matters of a Node."""
    metadata, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions") or ())
    gpus = (status.get("allocatable") or {}).get(names.RESOURCE_NVIDIA_GPU, "0")
    return NodeFact(
        name=metadata["name"],
        uid=metadata["uid"],
        labels=metadata.get("labels") or {},
        ready=ready,
        cordoned=spec.get("unschedulable") is True,
        gpus=int(gpus) if str(gpus).isdecimal() else 0,
    )


def _pools_of(node: NodeFact | None) -> Iterable[str]:
    """Pools that a Node claims: by its label, and by a name that was issued."""
    if node is None:
        return ()
    claims = {node.labels.get(names.LABEL_NODE_POOL), naming.pool_of_node(node.name)}
    return [claim for claim in claims if claim]
