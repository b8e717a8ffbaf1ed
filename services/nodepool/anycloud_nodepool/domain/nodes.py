"""Which Node belongs to which VM of a pool, and what the others are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from anycloud_common.kube import names

from anycloud_nodepool.domain.model import Attempt, NodeFact, Stage


@dataclass(frozen=True)
class Matched:
    """`of`: Nodes by attempt id. `left`: Nodes of VMs that the pool released. `strays`: claims without a VM."""

    of: dict[str, NodeFact]
    left: list[tuple[Attempt, NodeFact]]
    strays: list[NodeFact]


def match(pool_id: str, nodes: Iterable[NodeFact], attempts: Iterable[Attempt]) -> Matched:
    """Sorts the Nodes that claim the pool. A Node is a VM's own only if name, pool and attempt are all that VM's."""
    by_name = {attempt.node_name: attempt for attempt in attempts}
    found = Matched({}, [], [])
    for node in nodes:
        attempt = by_name.get(node.name)
        if attempt is None or not _is_of(node, pool_id, attempt):
            found.strays.append(node)
        elif attempt.stage in (Stage.RELEASED, Stage.CLOSED):
            found.left.append((attempt, node))
        else:
            found.of[attempt.id] = node
    return found


def stray_problem(strays: Iterable[NodeFact]) -> str | None:
    """What the pool's status says about Nodes that claim it."""
    listed = sorted(node.name for node in strays)
    if not listed:
        return None
    first = listed[0]
    more = f" (and {len(listed) - 1} more)" if len(listed) > 1 else ""
    return (
        f"Node {first}{more} claims this node pool and is none of its VMs. "
        f"Remove it with `kubectl delete node {first}`."
    )


def _is_of(node: NodeFact, pool_id: str, attempt: Attempt) -> bool:
    labels = node.labels
    return labels.get(names.LABEL_NODE_POOL) == pool_id and labels.get(names.LABEL_ATTEMPT) == attempt.id
