"""The hosted API's own cluster, behind the port."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from anycloud_common.kube import Kube, Permission, check_connection

from anycloud_nodepool.domain.ports import Object


def _on(resource: str, group: str, *verbs: str) -> list[Permission]:
    return [Permission(verb, resource, group) for verb in verbs]


# What the controllers of node pools, Deployments and Services do in the cluster.
NEEDED: Sequence[Permission] = (
    *_on("namespaces", "", "get", "create", "patch", "delete"),
    *_on("nodes", "", "get", "list", "watch", "patch", "delete"),
    *_on("pods", "", "get", "list", "watch", "delete"),
    Permission("get", "pods", "", "log"),
    *_on("secrets", "", "get", "list", "watch", "create", "patch", "delete"),
    *_on("serviceaccounts", "", "get", "list", "watch", "create", "patch", "delete"),
    *_on("services", "", "get", "create", "patch", "delete"),
    *_on("deployments", "apps", "get", "list", "watch", "create", "patch", "delete"),
    *_on("replicasets", "apps", "list", "watch"),
    *_on("daemonsets", "apps", "get", "create", "patch", "delete"),
    *_on("networkpolicies", "networking.k8s.io", "list", "watch", "create", "patch"),
    *_on("jobs", "batch", "get", "list", "watch", "create", "delete"),
    *_on("runtimeclasses", "node.k8s.io", "get", "create", "patch", "delete"),
    *_on("helmcharts", "helm.cattle.io", "get", "create", "patch", "delete"),
    *_on("tokenreviews", "authentication.k8s.io", "create"),
    Permission("get", "leases", "coordination.k8s.io", namespace="kube-node-lease"),
)


class KubeCluster:
    """`Kubernetes` of one cluster."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube

    async def problems(self, identity: str) -> Sequence[str]:
        return (await check_connection(self._kube, identity, NEEDED)).problems

    async def get(self, kind: str, name: str, namespace: str | None = None) -> Object | None:
        return await self._kube.get(kind, name, namespace)

    async def names(self, kind: str, namespace: str) -> Mapping[str, str]:
        found, _ = await self._kube.list(kind, namespace)
        return {obj["metadata"]["name"]: obj["metadata"]["uid"] for obj in found}

    async def list(self, kind: str, namespace: str, labels: Mapping[str, str]) -> Sequence[Object]:
        found, _ = await self._kube.list(kind, namespace, labels)
        return found

    async def create(self, kind: str, body: Object) -> Object:
        return await self._kube.create(kind, body)

    async def ensure(self, kind: str, body: Object, owner: Mapping[str, str]) -> Object:
        return await self._kube.ensure(kind, body, owner)

    async def apply(self, kind: str, body: Object) -> Object:
        return await self._kube.apply(kind, body)

    async def patch(self, kind: str, name: str, uid: str, change: Object) -> None:
        await self._kube.patch(kind, name, None, uid, change)

    async def delete(self, kind: str, name: str, namespace: str | None, uid: str) -> bool:
        return await self._kube.delete(kind, name, namespace, uid)
