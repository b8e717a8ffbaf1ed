"""Nodes and kubelets by hand, for tests that need what a kubelet reports and not what a container does.

Each VM that the product buys becomes a Node, Pods on it are reported Ready at once, and are gone once they are told to
end. What a Node says can be stopped (`silent`), and it can be made anew under its name.
"""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime
from typing import Any

from anycloud_common.kube import KINDS, Kube, KubeError, Object, Reflector, names
from anycloud_common.kube.transport import Request

from tests.support.sandbox import Sandbox

PAUSE_S = 0.1
LEASE_EVERY = 30  # pauses
_CAPACITY = {"cpu": "1000", "memory": "1000Gi", "pods": "2000"}
_CONDITION = {"type": "Ready", "status": "True", "reason": "KubeletReady"}


class Kubelets:
    """`run` works until cancelled, for all pools whose machines the world runs. `seen` has each Pod's UID with its
    Deployment and revision, from the moment at which it was bound."""

    def __init__(self, kube: Kube, sandbox: Sandbox, key: str) -> None:
        self.devices = 0  # that each Node has
        self.joining = True  # while false, VMs that run don't become Nodes
        self.silent: set[str] = set()  # Nodes whose kubelet says and does nothing
        self.seen: dict[str, tuple[str, str]] = {}
        self.most_at_once: dict[str, int] = {}  # Pods that weren't told to end, by Deployment
        self._kube = kube
        self._sandbox = sandbox
        self._key = {"x-sandbox-key": key}
        self._joined: dict[str, str] = {}  # Node names by attempt
        self._ours: set[str] = set()  # Nodes that ever were; those of other products on this server are none of ours
        self._pods = Reflector(kube, "Pod", None, names.LABEL_DEPLOYMENT, self._pod_event)
        self._tasks: set[asyncio.Task[None]] = set()
        self._busy: set[str] = set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pods.run())
            group.create_task(self._keep_nodes())

    def machines(self) -> list[Object]:
        """All that the product has bought, ended ones too."""
        found = self._sandbox.cloud("ListMachines", {"tags": {}}, headers=self._key)["machines"]
        return [machine for machine in found if "anycloud_attempt" in machine["tags"]]

    def end_machine(self, machine_id: str) -> None:
        """Ends a VM behind the product's back."""
        self._sandbox.cloud("DeleteMachine", {"id": machine_id}, headers=self._key)

    def nodes(self) -> list[str]:
        return list(self._joined.values())

    def pods(self, deployment_id: str) -> list[Object]:
        """As this connection, which no fault of a test meets, saw them last."""
        found = self._pods.items.values()
        return [pod for pod in found if pod["metadata"]["labels"][names.LABEL_DEPLOYMENT] == deployment_id]

    async def join(self, name: str, attempt: str, pool_id: str, cluster_id: str = "cl-1") -> Object:
        """Makes the Node, as its kubelet does."""
        labels = names.pool_node_labels(cluster_id, pool_id, "AWS", attempt, nvidia=False)
        capacity = {**_CAPACITY, **({names.RESOURCE_NVIDIA_GPU: str(self.devices)} if self.devices else {})}
        body = {
            "metadata": {"name": name, "labels": labels},
            "spec": {"taints": [names.pool_taint(pool_id)]},
            "status": {"capacity": capacity, "allocatable": capacity, "conditions": [_CONDITION]},
        }
        self._ours.add(name)
        made = await self._kube.create("Node", body)
        self._joined[attempt] = name
        await self.renew(name)
        return made

    async def renew(self, node: str) -> None:
        """A heartbeat."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": node, "leaseDurationSeconds": 40, "renewTime": now}
        path = KINDS["Lease"].path("kube-node-lease", node)
        body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": node}, "spec": spec}
        try:
            await self._send("PATCH", path, body)
        except KubeError as error:
            if error.reason != "not_found":
                raise
            await self._send("POST", KINDS["Lease"].path("kube-node-lease"), body)

    async def _keep_nodes(self) -> None:
        turn = 0
        while True:
            with contextlib.suppress(KubeError, OSError):
                await self._join_machines()
                if turn % LEASE_EVERY == 0:
                    for node in self._joined.values():
                        if node not in self.silent:
                            await self.renew(node)
            turn += 1
            await asyncio.sleep(PAUSE_S)

    async def _join_machines(self) -> None:
        for machine in await asyncio.to_thread(self.machines):
            attempt = machine["tags"]["anycloud_attempt"]
            if machine["state"] == "running" and self.joining and attempt not in self._joined:
                try:
                    await self.join(machine["name"], attempt, machine["tags"]["anycloud_node_pool"])
                except KubeError as error:
                    if error.reason != "conflict":
                        raise
                    self._joined[attempt] = machine["name"]
            elif machine["state"] == "terminated":
                self._joined.pop(attempt, None)

    def _pod_event(self, _: str, old: Object | None, new: Object | None) -> None:
        if new is None or new["spec"].get("nodeName") not in self._ours:
            return
        metadata = new["metadata"]
        labels = metadata["labels"]
        deployment_id = labels[names.LABEL_DEPLOYMENT]
        self.seen[metadata["uid"]] = (deployment_id, labels.get(names.LABEL_REVISION, ""))
        here = sum(1 for pod in self.pods(deployment_id) if not pod["metadata"].get("deletionTimestamp"))
        self.most_at_once[deployment_id] = max(here, self.most_at_once.get(deployment_id, 0))
        if metadata["uid"] not in self._busy:
            self._busy.add(metadata["uid"])
            task = asyncio.create_task(self._serve(metadata["namespace"], metadata["name"], metadata["uid"]))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _serve(self, namespace: str, name: str, uid: str) -> None:
        """Reports what the Pod is to be, until that is so."""
        try:
            while (pod := self._pods.get(name, namespace)) is not None and pod["metadata"]["uid"] == uid:
                node = pod["spec"]["nodeName"]
                orphaned = node not in self._joined.values()  # the garbage collector of Pods takes a minute for that
                if orphaned or node not in self.silent:
                    with contextlib.suppress(KubeError):
                        if orphaned or pod["metadata"].get("deletionTimestamp"):
                            await self.end(pod)
                        elif (pod.get("status") or {}).get("phase") != "Running":
                            await self._report(pod)
                        else:
                            return
                await asyncio.sleep(PAUSE_S)
        finally:
            self._busy.discard(uid)
            late = self._pods.get(name, namespace)
            if late is not None and late["metadata"].get("deletionTimestamp") and late["metadata"]["uid"] == uid:
                self._pod_event("MODIFIED", None, late)

    async def _report(self, pod: Object) -> None:
        container = {"name": "app", "ready": True, "started": True, "restartCount": 0, "image": "i", "imageID": "i"}
        container["containerID"] = f"hand://{pod['metadata']['uid']}"
        container["state"] = {"running": {"startedAt": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}}
        conditions = [{"type": kind, "status": "True"} for kind in ("Initialized", "Ready", "ContainersReady")]
        status = {"phase": "Running", "conditions": conditions, "containerStatuses": [container]}
        metadata = pod["metadata"]
        path = KINDS["Pod"].path(metadata["namespace"], metadata["name"], "status")
        await self._send("PATCH", path, {"metadata": {"uid": metadata["uid"]}, "status": status})

    async def end(self, pod: Object) -> None:
        """Its containers have ended: the Pod goes."""
        metadata = pod["metadata"]
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
        options["preconditions"] = {"uid": metadata["uid"]}
        await self._send("DELETE", KINDS["Pod"].path(metadata["namespace"], metadata["name"]), options)

    async def _send(self, method: str, path: str, body: Any) -> Object:
        kind = "application/strategic-merge-patch+json" if method == "PATCH" else "application/json"
        query = {} if method == "DELETE" else {"fieldManager": "kubelet"}
        request = Request(method.lower(), path, method, path, query, body, kind)
        return await self._kube._transport.call(request)
