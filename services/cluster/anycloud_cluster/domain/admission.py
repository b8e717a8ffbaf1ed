"""What speaks against a new cluster, or against going on with one, before anything is stored."""

from __future__ import annotations

import anycloud_catalog as catalog
from anycloud_common import ids

from anycloud_cluster.domain.cluster import Cluster, State, Target

Refusal = tuple[str, str]  # code, sentence


def check_target(provider: str, target: Target) -> str | None:
    """What is wrong with the place or the VM type, as one sentence that names the field; None when it can be tried."""
    if problem := catalog.check_place(provider, target.region, target.zone, target.vm_type):
        return problem
    if catalog.vm_type(provider, target.vm_type) is None:
        return f"VM type {target.vm_type} is not a VM type of {provider} in catalog {catalog.VERSION}."
    return None


def check_name(name: str) -> str | None:
    return ids.check_name("Cluster", name)


def check_existing(cluster: Cluster, name: str, target: Target) -> Refusal | None:
    """Whether `create` may go on with the cluster that there is: only under its name, to its target, and unless it is
    being deleted or runs already."""
    if cluster.name_key != name.lower():
        text = f"This installation has the cluster {cluster.name}, and can have one only. {_way_out(cluster)}"
        return "CLUSTER_EXISTS", text
    if cluster.deleting:
        return _deleting(cluster)
    if problem := _differing(cluster.target, target):
        text = f"Cluster {cluster.name} exists with another {problem}; a cluster can't be changed. {_way_out(cluster)}"
        return "CLUSTER_EXISTS", text
    if cluster.state is State.RUNNING:
        return (
            "CLUSTER_EXISTS",
            f"Cluster {cluster.name} is running already; use it with `anycloud api use {cluster.api_url}`.",
        )
    return None


def _deleting(cluster: Cluster) -> Refusal:
    again = f"`anycloud cluster delete {cluster.name}`"
    if cluster.state is State.FAILED:
        return "CLUSTER_DESTROY_FAILED", f"The deletion of cluster {cluster.name} failed; the only way on is {again}."
    return "CLUSTER_BUSY", f"Cluster {cluster.name} is being deleted; create it again once that is done."


def _way_out(cluster: Cluster) -> str:
    if cluster.deleting and cluster.state is not State.FAILED:
        return "It is being deleted; try again once that is done."
    return f"Delete it first: `anycloud cluster delete {cluster.name}`."


def _differing(recorded: Target, asked: Target) -> str | None:
    pairs = {
        "credential": (recorded.credential_name, asked.credential_name),
        "region": (recorded.region, asked.region),
        "zone": (recorded.zone, asked.zone),
        "VM type": (recorded.vm_type, asked.vm_type),
        "checkpoint bucket": (recorded.bucket, asked.bucket),
    }
    for what, (old, new) in pairs.items():
        if old != new:
            return f"{what} ({old or 'none'}, not {new or 'none'})"
    return None
