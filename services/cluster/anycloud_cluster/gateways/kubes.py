"""Kubernetes clusters over the common client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anycloud_common.kube import Kube, cluster_uid

from anycloud_cluster.domain.ports import Cluster, Connection


class KubeCluster:
    def __init__(self, kube: Kube) -> None:
        self._kube = kube

    async def uid(self) -> str:
        return await cluster_uid(self._kube)

    async def get(self, kind: str, name: str, namespace: str) -> dict[str, Any] | None:
        return await self._kube.get(kind, name, namespace)

    async def ensure(self, kind: str, body: dict[str, Any], owner: Mapping[str, str]) -> dict[str, Any]:
        return await self._kube.ensure(kind, body, owner)

    async def list(self, kind: str, namespace: str, labels: Mapping[str, str]) -> list[dict[str, Any]]:
        items, _ = await self._kube.list(kind, namespace, labels)
        return items

    async def delete(self, kind: str, name: str, namespace: str, uid: str) -> bool:
        return await self._kube.delete(kind, name, namespace, uid)

    async def close(self) -> None:
        await self._kube.close()


class KubeClusters:
    def open(self, connection: Connection) -> Cluster:
        return KubeCluster(Kube.from_token(connection.endpoint, connection.ca, connection.token))
