"""The Namespace that a pool owns, and its default egress policy."""

from __future__ import annotations

from typing import Any, Final

from anycloud_common.kube import names

POLICY: Final = "anycloud-default-egress"
# K3s's defaults, which the server's configuration leaves as they are.
_POD_ADDRESSES: Final = "10.42.0.0/16"
_SERVICE_ADDRESSES: Final = "10.43.0.0/16"
_METADATA: Final = "169.254.169.254/32"
# Of a Namespace that is being deleted: of these, mere content doesn't say that anything is wrong.
_STUCK: Final = (
    "NamespaceFinalizersRemaining",
    "NamespaceDeletionContentFailure",
    "NamespaceDeletionDiscoveryFailure",
    "NamespaceDeletionGroupVersionParsingFailure",
)
_AZURE_WIRE_SERVER: Final = "168.63.129.16/32"  # Azure's resolver; its other ports give out the VM's configuration

Object = dict[str, Any]


def owner(cluster_id: str, pool_id: str) -> dict[str, str]:
    """Labels of what a pool owns in its cluster."""
    return {
        names.LABEL_MANAGED_BY: names.MANAGED_BY,
        names.LABEL_CLUSTER: cluster_id,
        names.LABEL_NODE_POOL: pool_id,
    }


def namespace(cluster_id: str, pool_id: str) -> Object:
    """The pool's Namespace."""
    return {"metadata": {"name": names.pool_namespace(cluster_id, pool_id), **_marks(cluster_id, pool_id)}}


def policy(cluster_id: str, pool_id: str) -> Object:
    """Lets Pods out to each other, to the internet and to the Node's resolver; not to other Pods of the cluster, nor to
    the metadata of the VM but for its resolver.

    A policy only allows, so what is denied is what the ranges leave out. All that the API server would add is spelled
    out, so that it can be compared.
    """
    dns = [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]
    internet = {"cidr": "0.0.0.0/0", "except": [_POD_ADDRESSES, _SERVICE_ADDRESSES, _METADATA, _AZURE_WIRE_SERVER]}
    return {
        "metadata": {
            "name": POLICY,
            "namespace": names.pool_namespace(cluster_id, pool_id),
            **_marks(cluster_id, pool_id),
        },
        "spec": {
            "podSelector": {},
            "policyTypes": ["Egress"],
            "egress": [
                {"to": [{"podSelector": {}}]},
                {"to": [{"ipBlock": internet}]},
                {"to": [{"ipBlock": {"cidr": _METADATA}}, {"ipBlock": {"cidr": _AZURE_WIRE_SERVER}}], "ports": dns},
            ],
        },
    }


def leftovers(namespace: Object) -> str | None:
    """What keeps a Namespace from going away, in the words of its controller; None while it is only under way."""
    conditions = (namespace.get("status") or {}).get("conditions") or ()
    told = [
        str(one.get("message") or one.get("reason"))
        for one in conditions
        if one.get("type") in _STUCK and one.get("status") == "True"
    ]
    return " ".join(told) or None


def differs(live: Object, wanted: Object) -> bool:
    """Whether a policy is another than the wanted one."""
    metadata, marks = live["metadata"], wanted["metadata"]
    marked = all(
        marks[part].items() <= (metadata.get(part) or {}).items() for part in ("labels", "annotations") if part in marks
    )
    return not marked or live.get("spec") != wanted["spec"]


def is_ours(live: Object, cluster_id: str, pool_id: str) -> bool:
    """Whether an object bears the pool's marks."""
    metadata, marks = live["metadata"], _marks(cluster_id, pool_id)
    return all(marks[part].items() <= (metadata.get(part) or {}).items() for part in marks)


def _marks(cluster_id: str, pool_id: str) -> Object:
    return {"labels": owner(cluster_id, pool_id), "annotations": {names.ANNOTATION_INTENT: pool_id}}
