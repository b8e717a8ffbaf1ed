"""One machine as a Node: joins as K3s's agent does, keeps its object and heartbeat, and runs the Pods bound to it."""

import asyncio
import base64
import hashlib
import logging
import secrets
import shutil
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import anycloud_catalog

from anycloud_sandbox import pki
from anycloud_sandbox.agent.container import kill_everything
from anycloud_sandbox.agent.pod import Pod
from anycloud_sandbox.kube.auth import PASSWORD_HEADER, SIGNER
from anycloud_sandbox.kube.client import KubeClient, path_of
from anycloud_sandbox.kube.objects import KubeError, timestamp
from anycloud_sandbox.state import Json

if TYPE_CHECKING:
    from anycloud_sandbox.agent.main import Agent

log = logging.getLogger(__name__)
KUBELET_VERSION = "v1.35.7+k3s1"
UNKNOWN = ("bootID", "kernelVersion", "kubeProxyVersion", "machineID", "systemUUID", "osImage")


class Node:
    client: KubeClient
    authority: str  # the cluster's CA, in PEM

    def __init__(self, agent: "Agent", line: Json) -> None:
        self.agent, self.server, self.address = agent, line["nodeConfig"]["server"], line["address"]
        self.directory, self.effects = Path(line["directory"]), set(line["effects"])
        self.pods: dict[str, Pod] = {}
        self._line, self._config, self._name = line, line["nodeConfig"], line["nodeConfig"]["node-name"]
        self._certificate, self._password = self.directory / "client.pem", self.directory / "node-password"
        self._joined, self._since = False, timestamp(time.time())
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while True:
            try:
                if not self._joined:
                    async with self.agent.joins:
                        await self._join()
                    await self.agent.logs.listen(self)
                    self._joined = True
                await self._follow_pods()
            except (KubeError, OSError, ValueError) as error:
                log.info("node %s: %s", self._name, error)
            await asyncio.sleep(2)

    async def _join(self) -> None:
        """By the certificate of an earlier join if the Node still exists, else by the token."""
        digest, _, credential = self._config["token"].removeprefix("K10").partition("::")
        self.authority, newcomer = await self.agent.cluster(self.server)
        if hashlib.sha256(self.authority.encode()).hexdigest() != digest:
            raise ValueError(f"the CA of {self.server} is not the one that the token names")
        node, place = None, path_of("nodes", name=self._name)
        if self._certificate.exists():
            self.client = KubeClient(self.server, self.authority, str(self._certificate))
            node = await self.client.find(place)
        if node is None:
            await self._get_certificate(newcomer, credential)
            self.client = KubeClient(self.server, self.authority, str(self._certificate))
            node = await self.client.find(place) or await self.client.call("POST", path_of("nodes"), self._object())
        owner = {"apiVersion": "v1", "kind": "Node", "name": self._name, "uid": node["metadata"]["uid"]}
        lease = {"metadata": {"name": self._name, "ownerReferences": [owner]}, "spec": self._renewal()}
        if await self.client.find(path_of("leases", "kube-node-lease", self._name)):
            await self.client.patch(place + "/status", {"status": self._status()})
        else:
            await self.client.call("POST", path_of("leases", "kube-node-lease"), lease)

    async def _get_certificate(self, newcomer: KubeClient, credential: str) -> None:
        """A certificate request under the join token; the machine's own password guards the Node's name."""
        if not self._password.exists():
            _private(self._password, secrets.token_hex(16))
        basic = f"Basic {base64.b64encode(credential.encode()).decode()}"
        sign_in = {"Authorization": basic if ":" in credential else f"Bearer {credential}"}
        headers, key = sign_in | {PASSWORD_HEADER: self._password.read_text()}, pki.new_key()
        request = base64.b64encode(pki.request_pem(key, f"system:node:{self._name}", "system:nodes").encode()).decode()
        spec = {"request": request, "signerName": SIGNER, "usages": ["digital signature", "client auth"]}
        path, body = path_of("certificatesigningrequests"), {"metadata": {"generateName": "node-csr-"}, "spec": spec}
        found = await newcomer.call("POST", path, body, headers=headers)
        while not (certificate := found["status"].get("certificate")):
            await asyncio.sleep(0.2)
            found = await newcomer.call("GET", f"{path}/{found['metadata']['name']}", headers=headers)
        _private(self._certificate, pki.key_pem(key) + base64.b64decode(certificate).decode())

    def _object(self) -> Json:
        labels = {"kubernetes.io/hostname": self._name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
        labels |= dict(text.split("=", 1) for text in self._config.get("node-label", []))
        taints = [
            dict(zip(("key", "value", "effect"), text.replace(":", "=").split("="), strict=True))
            for text in self._config.get("node-taint", [])
        ]
        return {
            "metadata": {"name": self._name, "labels": labels},
            "spec": {"taints": taints},
            "status": self._status(),
        }

    def _status(self) -> Json:
        known = anycloud_catalog.vm_type(self._line["provider"], self._line["vmType"] or "")
        cpus, memory, gpus = (known.vcpus, known.memory_mib, known.gpus) if known else (2, 4096, 0)
        whole = {"cpu": str(cpus), "memory": f"{memory}Mi", "ephemeral-storage": "50Gi", "pods": "110"}
        if gpus and any(text.startswith("anycloud.sh/accelerator=") for text in self._config.get("node-label", [])):
            whole["nvidia.com/gpu"] = str(gpus)
        none = {"nvidia.com/gpu": "0"} if "zero-gpus" in self.effects else {}
        good = "not-ready" not in self.effects
        ready = {"type": "Ready", "status": str(good), "reason": "KubeletReady" if good else "KubeletNotReady"}
        ready |= {"lastTransitionTime": self._since, "lastHeartbeatTime": timestamp(time.time())}
        kinds = {"InternalIP": self.address, "ExternalIP": self.address, "Hostname": self._name}
        about = {"kubeletVersion": KUBELET_VERSION, "architecture": "amd64", "operatingSystem": "linux"}
        return {
            "addresses": [{"type": kind, "address": value} for kind, value in kinds.items()],
            "capacity": whole,
            "allocatable": whole | none,
            "conditions": [ready],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self.agent.logs.port}},
            "nodeInfo": dict.fromkeys(UNKNOWN, "") | about | {"containerRuntimeVersion": "sandbox://1"},
        }

    def _renewal(self) -> Json:
        now = timestamp(time.time(), micro=True)
        return {"holderIdentity": self._name, "leaseDurationSeconds": 40, "renewTime": now}

    async def set_effects(self, effects: set[str]) -> None:
        if effects != self.effects:
            self.effects, self._since = effects, timestamp(time.time())
            for pod in self.pods.values():
                pod.changed.set()
            await self.beat()

    async def beat(self) -> None:
        """Renews the lease and the status."""
        if self._joined and "silent" not in self.effects:
            try:
                await self.client.patch(path_of("leases", "kube-node-lease", self._name), {"spec": self._renewal()})
                await self.client.patch(path_of("nodes", name=self._name, sub="status"), {"status": self._status()})
            except KubeError as error:
                log.info("node %s: heartbeat: %s", self._name, error)

    async def _follow_pods(self) -> None:
        async for event in self.client.follow(path_of("pods"), fieldSelector=f"spec.nodeName={self._name}"):
            if event["type"] == "SYNC":
                self._sync(event["items"])
            elif event["type"] != "DELETED":
                self._see(event["object"])
            elif pod := self.pods.get(event["object"]["metadata"]["uid"]):
                pod.removed()

    def _sync(self, items: list[Json]) -> None:
        """After a list: what is not in it is over, on disk too."""
        here = {item["metadata"]["uid"] for item in items}
        for uid in self.pods.keys() - here:
            self.pods[uid].removed()
        for folder in (self.directory / "pods").glob("*"):
            if folder.name not in here | self.pods.keys():
                kill_everything(self.directory, folder.name)
                shutil.rmtree(folder, ignore_errors=True)
        for item in items:
            self._see(item)

    def _see(self, obj: Json) -> None:
        uid = obj["metadata"]["uid"]
        if uid in self.pods:
            self.pods[uid].update(obj)
        elif obj["status"].get("phase") not in ("Succeeded", "Failed"):
            self.pods[uid] = Pod(self, obj)

    async def power_off(self, seconds: float = 0) -> None:
        """The machine is gone: nothing on it runs on (after so long a time to end by SIGTERM), nothing is told."""
        for task in [self._task, *(pod.task for pod in self.pods.values())]:
            task.cancel()
        if seconds and self.pods:
            kill_everything(self.directory, number=signal.SIGTERM)
            await asyncio.sleep(seconds)
        kill_everything(self.directory)
        if self._joined:
            await self.client.close()


def _private(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)
