"""A cluster as its users see it."""

from __future__ import annotations

from typing import Final

from anycloudapi.cluster.v1 import clusters_pb2

from anycloud_cluster.domain.cluster import Cluster, State
from anycloud_cluster.rpc.documents import PROVIDERS

_STATES: Final = {
    State.PROVISIONING: clusters_pb2.Cluster.STATE_PROVISIONING,
    State.INITIALIZING: clusters_pb2.Cluster.STATE_INITIALIZING,
    State.STARTING: clusters_pb2.Cluster.STATE_STARTING,
    State.RUNNING: clusters_pb2.Cluster.STATE_RUNNING,
    State.FAILED: clusters_pb2.Cluster.STATE_FAILED,
    State.TERMINATED: clusters_pb2.Cluster.STATE_TERMINATED,
}


def message(cluster: Cluster, pools: int) -> clusters_pb2.Cluster:
    """`pools`: how many node pools this API's own database has on it."""
    provider = None if cluster.provider is None else PROVIDERS[cluster.provider]
    installed = cluster.released and cluster.live
    return clusters_pb2.Cluster(
        id=cluster.id,
        name=cluster.name,
        state=_STATES[cluster.state],
        releasing=cluster.releasing,
        cloud_provider=provider,
        region=cluster.region,
        zone=cluster.zone,
        vm_type=cluster.vm_type,
        k3s_version=cluster.k3s_version,
        api_version=cluster.api_version if installed else None,
        api_image=cluster.api_image if installed else None,
        chart_version=cluster.chart_version if installed else None,
        connected=cluster.connected,
        kubernetes_identity=cluster.kubernetes_identity,
        connection_revision=cluster.connection_revision,
        active_node_pool_count=pools,
        address=cluster.address,
        management_api_url=cluster.api_url if cluster.served else None,
        release=_release(cluster) if installed else None,
        last_error=cluster.last_error,
        created_at=cluster.created_at,
        updated_at=cluster.updated_at,
    )


def _release(cluster: Cluster) -> clusters_pb2.Cluster.Release:
    return clusters_pb2.Cluster.Release(
        api_version=cluster.api_version, api_image=cluster.api_image, chart_version=cluster.chart_version
    )
