"""One machine as a Node: joins as K3s's agent does, keeps its object and heartbeat, and runs the Pods bound to it."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
import secrets
import shutil
import ssl
import time
from pathlib import Path
from typing import TYPE_CHECKING

from anycloud_sandbox import pki
from anycloud_sandbox.agent.container import kill_everything
from anycloud_sandbox.agent.hardware import capacity
from anycloud_sandbox.agent.pod import Pod
from anycloud_sandbox.kube.client import MERGE, KubeClient, path_of
from anycloud_sandbox.kube.joining import PASSWORD_HEADER, SIGNER
from anycloud_sandbox.kube.resources import KubeError, micro_timestamp, timestamp
from anycloud_sandbox.state import Json

if TYPE_CHECKING:
    from anycloud_sandbox.agent.main import Agent

log = logging.getLogger(__name__)
KUBELET_VERSION = "v1.35.7+k3s1"
RETRY_SECONDS = 2.0


class Node:
    client: KubeClient
    authority: str  # the cluster's CA, in PEM

    def __init__(self, agent: Agent, line: Json) -> None:
        self.agent, self.line, self.config = agent, line, line["nodeConfig"]
        self.name: str = self.config["node-name"]
        self.server, self.address = self.config["server"], line["address"]
        self.directory = Path(line["directory"])
        self.effects: set[str] = set(line["effects"])
        self.pods: dict[str, Pod] = {}
        self.joined = False
        self._folder = self.directory / "agent"
        self._ready_since = timestamp(time.time())
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        while True:
            try:
                if not self.joined:
                    async with self.agent.joins:
                        await self._join()
                    await self.agent.listen(self)
                    self.joined = True
                await self._follow_pods()
            except (KubeError, OSError, ValueError) as error:
                log.info("node %s: %s", self.name, error)
            await asyncio.sleep(RETRY_SECONDS)

    async def _join(self) -> None:
        """By the certificate of an earlier join if the Node still exists, else by the token."""
        digest, _, credential = self.config["token"].removeprefix("K10").partition("::")
        self.authority, newcomer = await self.agent.cluster(self.server)
        if hashlib.sha256(self.authority.encode()).hexdigest() != digest:
            raise ValueError(f"the CA of {self.server} is not the one that the token names")
        node = None
        if (self._folder / "client.pem").exists():
            self.client = self._own_client()
            node = await self.client.find(path_of("nodes", name=self.name))
        if node is None:
            await self._get_certificate(newcomer, credential)
            self.client = self._own_client()
            node = await self._register()
        lease = {"metadata": {"name": self.name, "ownerReferences": [_owner(node)]}, "spec": self._renewal()}
        await _created(self.client, path_of("leases", "kube-node-lease"), lease)
        await self.client.call(
            "PATCH", path_of("nodes", name=self.name, sub="status"), {"status": self._status()}, MERGE
        )

    async def _get_certificate(self, newcomer: KubeClient, credential: str) -> None:
        """A certificate request under the bootstrap token; the machine's own password guards the Node's name."""
        password = self._folder / "password"
        if not password.exists():
            _private(password, secrets.token_hex(16))
        user, _, word = credential.partition(":")
        basic = base64.b64encode(f"{user}:{word}".encode()).decode()
        headers = {"Authorization": f"Basic {basic}" if word else f"Bearer {credential}"}
        headers[PASSWORD_HEADER] = password.read_text()
        key = pki.new_key()
        request = pki.request_pem(key, f"system:node:{self.name}", "system:nodes")
        spec = {"request": base64.b64encode(request.encode()).decode(), "signerName": SIGNER}
        spec |= {"usages": ["digital signature", "client auth"]}
        path = path_of("certificatesigningrequests")
        body = {"metadata": {"generateName": "node-csr-"}, "spec": spec}
        found = await newcomer.call("POST", path, body, headers=headers)
        while not (certificate := (found.get("status") or {}).get("certificate")):
            await asyncio.sleep(0.2)
            found = await newcomer.call("GET", f"{path}/{found['metadata']['name']}", headers=headers)
        _private(self._folder / "client.pem", pki.key_pem(key) + base64.b64decode(certificate).decode())

    def _own_client(self) -> KubeClient:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=self.authority)
        context.load_cert_chain(self._folder / "client.pem")
        return KubeClient(self.server, context)

    async def _register(self) -> Json:
        labels = {"kubernetes.io/hostname": self.name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
        labels |= dict(text.split("=", 1) for text in self.config.get("node-label", []))
        taints = [_taint(text) for text in self.config.get("node-taint", [])]
        spec = {"providerID": f"k3s://{self.name}", **({"taints": taints} if taints else {})}
        body = {"metadata": {"name": self.name, "labels": labels}, "spec": spec, "status": self._status()}
        return await _created(self.client, path_of("nodes"), body)

    def _status(self) -> Json:
        whole = capacity(self.line["provider"], self.line["vmType"], self.config.get("node-label", []))
        usable = (
            {**whole, "nvidia.com/gpu": "0"} if "zero-gpus" in self.effects and "nvidia.com/gpu" in whole else whole
        )
        good = "not-ready" not in self.effects
        ready = {"type": "Ready", "status": str(good), "reason": "KubeletReady" if good else "KubeletNotReady"}
        ready |= {"lastTransitionTime": self._ready_since, "lastHeartbeatTime": timestamp(time.time())}
        kinds = {"InternalIP": self.address, "ExternalIP": self.address, "Hostname": self.name}
        unknown = ("bootID", "kernelVersion", "kubeProxyVersion", "machineID", "systemUUID")
        about = {**dict.fromkeys(unknown, ""), "kubeletVersion": KUBELET_VERSION, "architecture": "amd64"}
        return {
            "addresses": [{"type": kind, "address": value} for kind, value in kinds.items()],
            "capacity": whole,
            "allocatable": usable,
            "conditions": [ready],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self.agent.kubelet_port}},
            "nodeInfo": {**about, "operatingSystem": "linux", "osImage": "Anycloud sandbox", "containerRuntimeVersion": "sandbox://1"},
        }

    def _renewal(self) -> Json:
        about = {"holderIdentity": self.name, "leaseDurationSeconds": 40}
        return {**about, "renewTime": micro_timestamp(time.time())}

    def set_effects(self, effects: set[str]) -> None:
        if effects != self.effects:
            self.effects = effects
            self._ready_since = timestamp(time.time())
            for pod in self.pods.values():
                pod.changed()
            self.agent.spawn(self.beat(whole=True))

    async def beat(self, whole: bool = False) -> None:
        """Renews the lease; with `whole` the status too."""
        if not self.joined or "silent" in self.effects:
            return
        try:
            lease = path_of("leases", "kube-node-lease", self.name)
            await self.client.call("PATCH", lease, {"spec": self._renewal()}, MERGE)
            if whole:
                path = path_of("nodes", name=self.name, sub="status")
                await self.client.call("PATCH", path, {"status": self._status()}, MERGE)
        except KubeError as error:
            log.info("node %s: heartbeat: %s", self.name, error)

    async def _follow_pods(self) -> None:
        async for event in self.client.follow(path_of("pods"), fieldSelector=f"spec.nodeName={self.name}"):
            if event["type"] == "SYNC":
                self._sync(event["items"])
            elif event["type"] == "DELETED":
                if pod := self.pods.get(event["object"]["metadata"]["uid"]):
                    pod.removed()
            elif event["type"] != "BOOKMARK":
                self._see(event["object"])

    def _sync(self, items: list[Json]) -> None:
        """After a list: what is not in it is over, on disk too."""
        here = {item["metadata"]["uid"] for item in items}
        for uid, pod in self.pods.items():
            if uid not in here:
                pod.removed()
        for folder in (self.directory / "pods").glob("*"):
            if folder.name not in here and folder.name not in self.pods:
                kill_everything(self.directory, folder.name)
                shutil.rmtree(folder, ignore_errors=True)
        for item in items:
            self._see(item)

    def _see(self, obj: Json) -> None:
        uid = obj["metadata"]["uid"]
        if uid in self.pods:
            self.pods[uid].update(obj)
        elif (obj.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
            self.pods[uid] = Pod(self, obj)

    async def power_off(self, seconds: float = 0) -> None:
        """The machine is gone: nothing on it runs on, nothing is told to anybody."""
        self._task.cancel()
        for pod in self.pods.values():
            pod.task.cancel()
        if seconds:
            await asyncio.sleep(seconds)
        kill_everything(self.directory)
        if self.joined:
            await self.client.close()


def _owner(node: Json) -> Json:
    return {"apiVersion": "v1", "kind": "Node", "name": node["metadata"]["name"], "uid": node["metadata"]["uid"]}


def _taint(text: str) -> Json:
    head, _, effect = text.rpartition(":")
    key, _, value = head.partition("=")
    return {"key": key, "value": value, "effect": effect}


async def _created(client: KubeClient, path: str, body: Json) -> Json:
    """The object, whether made now or before."""
    try:
        return await client.call("POST", path, body)
    except KubeError as error:
        if error.code != 409:
            raise
        return await client.call("GET", f"{path}/{body['metadata']['name']}")


def _private(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)
