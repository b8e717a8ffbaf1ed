"""Why a cluster can't be deleted now, each with the commands that lead on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anycloud_cluster.domain.cluster import Cluster
from anycloud_cluster.domain.ports import Inventory
from anycloud_cluster.domain.resource import TAG_API


def creating(cluster: Cluster) -> str:
    follow = f"anycloud cluster status {cluster.name} --watch"
    return f"Cluster {cluster.name} is still being created; delete it once it is running or failed: `{follow}`."


def referenced(cluster: Cluster, inventory: Inventory, said: str) -> str:
    """`said`: the hosted API's own reason, for the case that it names nothing any more."""
    use = f"`anycloud api use {cluster.api_url}`"
    ends = [f"`anycloud deployment delete {deployment}`" for deployment in inventory.deployments]
    ends += [f"`anycloud terminate {service}`" for service in inventory.services]
    pools = [f"`anycloud node-pool delete {pool}`" for pool in inventory.node_pools]
    again = f"`anycloud cluster delete {cluster.name}`"
    if not pools:
        return f"Cluster {cluster.name} still has node pools: {said} Then {again} again."
    local = "`anycloud api use local`"
    steps = " then ".join(", ".join(group) for group in (ends, pools) if group)
    return (
        f"Cluster {cluster.name} still has node pools ({', '.join(inventory.node_pools)}), which are never deleted "
        f"from here. Against its API ({use}): {steps}; then ({local}) {again} again."
    )


@dataclass(frozen=True)
class Backup:
    """What the checkpoint bucket holds: something to restore from, or why not."""

    restorable: bool
    reason: str


def unreachable(cluster: Cluster, why: str, backup: Backup, machine_id: str | None) -> str:
    head = (
        f"The API of cluster {cluster.name} doesn't answer ({why}), so nobody can say which node pools it still has. "
        f"If it is only restarting, `anycloud cluster delete {cluster.name}` works again in a moment. Else:"
    )
    if backup.restorable:
        return (
            f"{head} restore it first, then delete in the normal way: `{restore_command(cluster)}`. If the management "
            f"VM still runs but the cluster is broken, terminate that VM first."
        )
    vm = f"the management VM {machine_id}" if machine_id else "the management VM"
    return (
        f"{head} terminate by hand {vm} and the VMs of node pools (tag {TAG_API}={cluster.id}), then "
        f"`anycloud cluster forget {cluster.name}`. {backup.reason}"
    )


def restore_command(cluster: Cluster) -> str:
    zone = f" --zone {cluster.zone}" if cluster.zone else ""
    return (
        f"anycloud cluster create {cluster.name} --credentials {cluster.credential_name} --region {cluster.region}"
        f"{zone} --vm-type {cluster.vm_type} --checkpoint-bucket {cluster.bucket}"
    )


def pool_machines(cluster: Cluster, why: str, machines: Sequence[str]) -> str:
    return (
        f"The API of cluster {cluster.name} never served and doesn't answer ({why}), but VMs of node pools are there: "
        f"{', '.join(machines)}. Terminate them (tag {TAG_API}={cluster.id}), then delete again."
    )


def leftovers(cluster: Cluster) -> list[str]:
    """What forgetting a cluster leaves in its cloud, one sentence each."""
    tag = f"{TAG_API}={cluster.id}"
    left = [
        f"The network and the address of the management VM ({cluster.provider} {cluster.region}, tag {tag}).",
        f"VMs, networks and disks of node pools, if there are any (tag {tag}).",
    ]
    if cluster.bucket_managed:
        left.append(f"The checkpoint bucket {cluster.bucket} with its backups, kept on purpose.")
    return left
