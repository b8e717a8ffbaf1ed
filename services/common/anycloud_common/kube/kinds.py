"""The kinds of objects that we touch, and where the API serves them."""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import quote

Object = dict[str, Any]
"""A Kubernetes object as its JSON says it."""


class Kind(NamedTuple):
    """One kind: API group (empty for core), version, plural as in the URL, and whether it lives in a Namespace.

    `get_by_list`: the API's role grants `list` on it and not `get`.
    """

    name: str
    group: str
    version: str
    plural: str
    namespaced: bool = True
    get_by_list: bool = False

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """As kubectl and RBAC messages say it: `deployments.apps`, `pods`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """URL path of the collection, or of one object. A namespaced kind without Namespace means all Namespaces."""
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if namespace and self.namespaced:
            parts += ["namespaces", namespace]
        parts += [part for part in (self.plural, name, subresource) if part]
        return "/" + "/".join(quote(part, safe="") for part in parts)


_ALL = (
    Kind("ConfigMap", "", "v1", "configmaps"),
    Kind("Event", "", "v1", "events"),
    Kind("Namespace", "", "v1", "namespaces", namespaced=False),
    Kind("Node", "", "v1", "nodes", namespaced=False),
    Kind("PersistentVolumeClaim", "", "v1", "persistentvolumeclaims"),
    Kind("Pod", "", "v1", "pods"),
    Kind("Secret", "", "v1", "secrets"),
    Kind("Service", "", "v1", "services"),
    Kind("ServiceAccount", "", "v1", "serviceaccounts"),
    Kind("DaemonSet", "apps", "v1", "daemonsets"),
    Kind("Deployment", "apps", "v1", "deployments"),
    Kind("ReplicaSet", "apps", "v1", "replicasets"),
    Kind("Job", "batch", "v1", "jobs"),
    Kind("Lease", "coordination.k8s.io", "v1", "leases"),
    Kind("HelmChart", "helm.cattle.io", "v1", "helmcharts"),
    Kind("HelmChartConfig", "helm.cattle.io", "v1", "helmchartconfigs"),
    Kind("NetworkPolicy", "networking.k8s.io", "v1", "networkpolicies", get_by_list=True),
    Kind("RuntimeClass", "node.k8s.io", "v1", "runtimeclasses", namespaced=False),
    Kind("SelfSubjectAccessReview", "authorization.k8s.io", "v1", "selfsubjectaccessreviews", namespaced=False),
    Kind("TokenReview", "authentication.k8s.io", "v1", "tokenreviews", namespaced=False),
)

KINDS: dict[str, Kind] = {kind.name: kind for kind in _ALL}
