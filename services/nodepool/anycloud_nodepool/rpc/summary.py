"""Node pools as messages."""

from __future__ import annotations

from typing import Final

from anycloudapi.common.v1 import types_pb2
from anycloudapi.nodepool.internal.v1 import node_pool_pb2
from anycloudapi.nodepool.v1 import node_pools_pb2

from anycloud_nodepool.domain.model import Pool, State

PROVIDERS: Final = {
    "AWS": types_pb2.CLOUD_PROVIDER_AWS,
    "GCP": types_pb2.CLOUD_PROVIDER_GCP,
    "Azure": types_pb2.CLOUD_PROVIDER_AZURE,
}
_STATES: Final = {
    State.CREATING: node_pools_pb2.NodePool.STATE_PROVISIONING,
    State.RUNNING: node_pools_pb2.NodePool.STATE_RUNNING,
    State.FAILED: node_pools_pb2.NodePool.STATE_FAILED,
    State.DELETING: node_pools_pb2.NodePool.STATE_TERMINATED,
    State.DELETED: node_pools_pb2.NodePool.STATE_TERMINATED,
}


def summary(pool: Pool, references: int, ingress: node_pools_pb2.NodePool.Ingress) -> node_pools_pb2.NodePool:
    """The public form. `references`: how many Deployments and Workloads target it."""
    location = node_pools_pb2.NodePool.Location(region=pool.region, zone=pool.zone, vm_type=pool.vm_type)
    return node_pools_pb2.NodePool(
        id=pool.id,
        name=pool.name,
        cluster_id=pool.cluster_id,
        state=_STATES[pool.state],
        releasing=pool.deleting,
        cloud_provider=PROVIDERS[pool.provider],
        region=pool.region,
        zone=pool.zone,
        vm_types=[pool.vm_type],
        min_vm_count=pool.vm_count,
        max_vm_count=pool.vm_count,
        capacity=node_pools_pb2.NodePool.Capacity(
            ready_vm_count=pool.counts.ready,
            starting_vm_count=pool.counts.starting,
            draining_vm_count=pool.counts.draining,
            locations=[location],
        ),
        live_references=references,
        last_error=pool.last_error,
        ingress_entry_ip=ingress.entry_ip if ingress.HasField("entry_ip") else None,
        ingress=ingress,
        created_at=pool.created_at,
        updated_at=pool.updated_at,
    )


def fact(pool: Pool, identity: str) -> node_pool_pb2.NodePoolFact:
    """What the services above may know. `identity`: UID of the cluster's kube-system Namespace.

    The pool's own Namespace is told once its egress policy is there, so that no Pod starts without.
    """
    namespace, namespace_uid = (pool.namespace, pool.namespace_uid) if pool.policy_uid else (None, None)
    return node_pool_pb2.NodePoolFact(
        id=pool.id,
        name=pool.name,
        cluster_id=pool.cluster_id,
        state=pool.state,
        provider=PROVIDERS[pool.provider],
        region=pool.region,
        zone=pool.zone or "",
        vm_type=pool.vm_type,
        ready_nodes=pool.counts.ready,
        namespace=namespace or "",
        namespace_uid=namespace_uid or "",
        namespace_error=pool.namespace_error or "",
        kubernetes_identity=identity,
    )
