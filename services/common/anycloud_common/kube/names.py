"""Every name of ours that is visible in a cluster: labels, taints, annotations, namespaces, the workload token."""

from __future__ import annotations

import hashlib
import re
from typing import Any

_DOMAIN = "anycloud.sh"

# Labels of Nodes
LABEL_CLUSTER = f"{_DOMAIN}/cluster"  # cluster id
LABEL_NODE_POOL = f"{_DOMAIN}/node-pool"  # pool id; also the key of the pool's taint
LABEL_PROVIDER = f"{_DOMAIN}/provider"  # AWS, GCP or Azure
LABEL_ATTEMPT = f"{_DOMAIN}/attempt"  # attempt id of the VM, never used twice
LABEL_ACCELERATOR = f"{_DOMAIN}/accelerator"  # "nvidia" on VM types with whole NVIDIA devices, else absent
LABEL_INGRESS_ENTRY = f"{_DOMAIN}/ingress-entry"  # pool id, on one Node of the pool
LABEL_CLUSTER_MANAGEMENT = f"{_DOMAIN}/cluster-management"  # "true" on the management Node

# Labels of the objects that we make
LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGED_BY = "anycloud"
LABEL_DEPLOYMENT = f"{_DOMAIN}/deployment"  # Deployment id
LABEL_JOB = f"{_DOMAIN}/job"  # name of one run of a cluster Job
LABEL_SERVICE = f"{_DOMAIN}/service"  # id of a cluster Service
LABEL_SECRET = f"{_DOMAIN}/secret"  # id of a stored Secret
LABEL_REVISION = f"{_DOMAIN}/revision"  # revision number of a Deployment or of the API's own release
LABEL_INGRESS_POOL = f"{_DOMAIN}/ingress-pool"  # pool id, on routes that the pool's Traefik serves

# Annotations
ANNOTATION_INTENT = f"{_DOMAIN}/intent"  # token of the database row that a create was derived from

ANNOTATION_WORKLOAD = f"{_DOMAIN}/workload"  # id that the submitter knows a cluster Job by, for people who look

# Taints
TAINT_NODE_POOL = LABEL_NODE_POOL  # value is the pool id
TAINT_MANAGEMENT = "node-role.kubernetes.io/control-plane"
NO_SCHEDULE = "NoSchedule"

# Nodes and devices
ACCELERATOR_NVIDIA = "nvidia"
RESOURCE_NVIDIA_GPU = "nvidia.com/gpu"
RUNTIME_CLASS_NVIDIA = "nvidia"

# The projected token by which a worker shows which Pod it is
WORKLOAD_TOKEN_AUDIENCE = f"{_DOMAIN}/workload"
WORKLOAD_TOKEN_PATH = f"/var/run/secrets/{_DOMAIN}/token"

# Namespaces that others made
NAMESPACE_SYSTEM = "kube-system"
NAMESPACE_API = "anycloud"

_NAME_BYTES = 63
_HASH_DIGITS = 10


def pool_namespace(cluster_id: str, pool_id: str) -> str:
    """Namespace of a node pool: `anycloud-node-pool-<pool id>-<hash>`, at most 63 characters.

    The hash covers cluster and pool, so a pool id that another cluster also used has another namespace.
    """
    return _namespace("node-pool", cluster_id, pool_id)


def service_namespace(cluster_id: str, service_id: str) -> str:
    """Namespace that one cluster Service has to itself: `anycloud-service-<service id>-<hash>`."""
    return _namespace("service", cluster_id, service_id)


def _namespace(role: str, cluster_id: str, owner_id: str) -> str:
    digits = hashlib.sha256(f"{cluster_id}/{owner_id}".encode()).hexdigest()[:_HASH_DIGITS]
    safe_id = re.sub("[^a-z0-9-]", "-", owner_id.lower())
    front = f"anycloud-{role}-{safe_id}"[: _NAME_BYTES - _HASH_DIGITS - 1].rstrip("-")
    return f"{front}-{digits}"


def pool_node_labels(cluster_id: str, pool_id: str, provider: str, attempt_id: str, *, nvidia: bool) -> dict[str, str]:
    """Labels that a pool's Node registers with."""
    labels = {
        LABEL_CLUSTER: cluster_id,
        LABEL_NODE_POOL: pool_id,
        LABEL_PROVIDER: provider,
        LABEL_ATTEMPT: attempt_id,
    }
    if nvidia:
        labels[LABEL_ACCELERATOR] = ACCELERATOR_NVIDIA
    return labels


def pool_taint(pool_id: str) -> dict[str, str]:
    """Taint of a pool's Nodes, as in a Node's spec."""
    return {"key": TAINT_NODE_POOL, "value": pool_id, "effect": NO_SCHEDULE}


def pool_placement(pool_id: str) -> dict[str, Any]:
    """The part of a Pod's spec that keeps it on its pool: selector, required affinity, and the one toleration."""
    expression = {"key": LABEL_NODE_POOL, "operator": "In", "values": [pool_id]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {
        "nodeSelector": {LABEL_NODE_POOL: pool_id},
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}},
        "tolerations": [{"key": TAINT_NODE_POOL, "operator": "Equal", "value": pool_id, "effect": NO_SCHEDULE}],
    }
