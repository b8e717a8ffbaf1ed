"""Kubernetes behind the ports."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from anycloud_common.kube import Kube, names

from anycloud_deployment.domain import facts, job_manifest, manifest, pods
from anycloud_deployment.domain.model import JobPodFact, PodFact, ReplicaSetFact
from anycloud_deployment.domain.ports import Holder, Native

_NODE_LEASES = "kube-node-lease"
_OWNERS = (names.LABEL_MANAGED_BY, names.LABEL_DEPLOYMENT, names.LABEL_JOB)


class KubeObjects:
    """`Objects`, `Tokens` and `Logs` of one cluster."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube

    async def find(self, kind: str, namespace: str, name: str) -> Native | None:
        obj = await self._kube.get(kind, name, namespace)
        return None if obj is None else facts.native(obj, name, kind)

    async def create(self, kind: str, body: dict[str, Any]) -> Native:
        metadata = body["metadata"]
        owner = {label: value for label, value in metadata["labels"].items() if label in _OWNERS}
        return facts.native(await self._kube.ensure(kind, body, owner), metadata["name"], kind)

    async def apply(self, kind: str, body: dict[str, Any], uid: str) -> Native:
        metadata = {**body["metadata"], "uid": uid}
        return facts.native(await self._kube.apply(kind, {**body, "metadata": metadata}), metadata["name"], kind)

    async def delete(self, kind: str, namespace: str, name: str, uid: str) -> bool:
        return await self._kube.delete(kind, name, namespace, uid)

    async def pods(self, namespace: str, deployment_id: str) -> list[PodFact]:
        found, _ = await self._kube.list("Pod", namespace, manifest.owner_labels(deployment_id))
        return [facts.pod(obj) for obj in found]

    async def replica_sets(self, namespace: str, deployment_id: str) -> list[ReplicaSetFact]:
        found, _ = await self._kube.list("ReplicaSet", namespace, manifest.owner_labels(deployment_id))
        return [facts.replica_set(obj) for obj in found]

    async def job_pods(self, namespace: str, run: str) -> list[JobPodFact]:
        found, _ = await self._kube.list("Pod", namespace, job_manifest.owner_labels(run))
        return [facts.job_pod(obj) for obj in found]

    async def pod_uid(self, namespace: str, name: str) -> str | None:
        obj = await self._kube.get("Pod", name, namespace)
        return None if obj is None else str(obj["metadata"]["uid"])

    async def lease(self, node: str) -> str | None:
        obj = await self._kube.get("Lease", node, _NODE_LEASES)
        renewed: str | None = ((obj or {}).get("spec") or {}).get("renewTime")
        return renewed

    async def review(self, token: str) -> Holder | None:
        found = await self._kube.token_review(token, [names.WORKLOAD_TOKEN_AUDIENCE])
        if found is None:
            return None
        return Holder(found.namespace, found.service_account, found.pod_name, found.pod_uid)

    async def lines(
        self, namespace: str, pod: str, *, tail: int | None, previous: bool, follow: bool
    ) -> AsyncIterator[str]:
        log = self._kube.pod_log(namespace, pod, tail=tail, previous=previous, follow=follow, container=pods.CONTAINER)
        async for line in log:
            yield line.decode(errors="replace").rstrip("\r\n")
