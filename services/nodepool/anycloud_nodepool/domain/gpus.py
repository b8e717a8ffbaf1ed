"""Whether the Nodes of a GPU pool show the devices that they must have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from anycloud_common.kube import names

from anycloud_nodepool.domain.model import Attempt, NodeFact, Pool

GRACE_MS: Final = 10 * 60_000


@dataclass(frozen=True)
class Devices:
    """What a Node's device count means for its VM. `mismatch`: it shows a wrong number; `missing`: none too long."""

    attempt: Attempt
    fit: bool
    mismatch: bool = False
    missing: bool = False


def judge(pool: Pool, attempt: Attempt, node: NodeFact | None, seen_ms: int) -> Devices:
    """Allocatable devices are all that a Node has, in use or not. `seen_ms`: now, on the clock of sight."""
    if node is None or not node.ready or not pool.nvidia:
        return Devices(attempt, fit=True)
    if node.gpus:
        shown = attempt if attempt.no_devices_seen is None else replace(attempt, no_devices_seen=None)
        return Devices(shown, fit=node.gpus == pool.gpus, mismatch=node.gpus != pool.gpus)
    since = attempt.no_devices_seen
    if since is None:
        since = seen_ms if attempt.ready_at is not None or attempt.bought_seen is None else attempt.bought_seen
    missing = seen_ms - since >= GRACE_MS
    return Devices(replace(attempt, no_devices_seen=since), fit=False, missing=missing)


def deadline(attempt: Attempt) -> int | None:
    """When, on the clock of sight, missing devices become a failure."""
    return None if attempt.no_devices_seen is None else attempt.no_devices_seen + GRACE_MS


def mismatch_problem(pool: Pool, nodes: Sequence[NodeFact]) -> str:
    """What the status says about Nodes with a wrong number of devices."""
    node = nodes[0]
    return (
        f"Node {node.name} advertises {node.gpus} {names.RESOURCE_NVIDIA_GPU} devices and the catalog has {pool.gpus} "
        f"for VM type {pool.vm_type}. Refresh the catalog, or choose a VM type whose physical device count matches."
    )


def missing_problem(nodes: Sequence[NodeFact], objects: str) -> str:
    """What the status says about Nodes without devices. `objects`: the add-on objects and their state."""
    node = nodes[0]
    return (
        f"Node {node.name} is Ready and has advertised no {names.RESOURCE_NVIDIA_GPU} device for "
        f"{GRACE_MS // 60_000} minutes. Add-on objects: {objects}."
    )
