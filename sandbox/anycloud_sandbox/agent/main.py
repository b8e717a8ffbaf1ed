"""The node agent: each machine as a Node that joins as K3s's agent does, with its Pods; one process for all of them."""

import asyncio
import base64
import fcntl
import hashlib
import logging
import secrets
import shutil
import signal
import ssl
import time
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import anycloud_catalog
from aiohttp import web
from anycloud_control_plane.certificates import Authority, key_pem, new_key, request_pem

from anycloud_sandbox.agent.pod import Pod
from anycloud_sandbox.agent.run import kill_everything
from anycloud_sandbox.agent.volumes import forget
from anycloud_sandbox.kube.auth import PASSWORD_HEADER, SIGNER
from anycloud_sandbox.kube.client import KubeClient, path_of
from anycloud_sandbox.kube.store import KubeError, fill, timestamp
from anycloud_sandbox.state import Json
from anycloud_sandbox.world.clouds import free_port

log = logging.getLogger(__name__)
RETRY_SECONDS, POWER_OFF_SECONDS, FOLLOW_SECONDS = 2.0, 2.0, 0.2
GPU = "nvidia.com/gpu"


class Node:
    client: KubeClient
    authority: str  # the cluster's CA, in PEM

    def __init__(self, agent: "Agent", line: Json) -> None:
        self.agent, self.server, self.address = agent, line["nodeConfig"]["server"], line["address"]
        self.directory, self.effects = Path(line["directory"]), set(line["effects"])
        self.pods: dict[str, Pod] = {}
        self._line, self._config, self._name = line, line["nodeConfig"], line["nodeConfig"]["node-name"]
        self._certificate, self._password = self.directory / "client.pem", self.directory / "node-password"
        self._path = path_of("nodes", "", self._name)
        self._lease_path = path_of("leases", "kube-node-lease", self._name)
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
            await asyncio.sleep(RETRY_SECONDS)

    async def _join(self) -> None:
        """By the certificate of an earlier join if the Node still exists, else by the token."""
        digest, _, credential = self._config["token"].removeprefix("K10").partition("::")
        self.authority, newcomer = await self.agent.cluster(self.server)
        if hashlib.sha256(self.authority.encode()).hexdigest() != digest:
            raise ValueError(f"the CA of {self.server} is not the one that the token names")
        node = None
        if self._certificate.exists():
            self.client = KubeClient(self.server, self.authority, str(self._certificate))
            node = await self.client.find(self._path)
        if node is None:
            await self._get_certificate(newcomer, credential)
            self.client = KubeClient(self.server, self.authority, str(self._certificate))
            node = await self.client.ensure(path_of("nodes"), self._object())
        lease = fill("lease", name=self._name, uid=node["metadata"]["uid"], now=timestamp(time.time(), micro=True))
        await self.client.ensure(path_of("leases", "kube-node-lease"), lease)

    async def _get_certificate(self, newcomer: KubeClient, credential: str) -> None:
        """A certificate request under the join token; the machine's own password guards the Node's name."""
        if not self._password.exists():
            _private(self._password, secrets.token_hex(16))
        basic, key = f"Basic {base64.b64encode(credential.encode()).decode()}", new_key()
        headers = {"Authorization": basic if ":" in credential else f"Bearer {credential}"}
        headers[PASSWORD_HEADER] = self._password.read_text()
        request = base64.b64encode(request_pem(key, f"system:node:{self._name}", "system:nodes").encode()).decode()
        path, body = path_of("certificatesigningrequests"), fill("csr", request=request, signer=SIGNER)
        found = await newcomer.call("POST", path, body, headers=headers)
        while not (certificate := found["status"].get("certificate")):
            await asyncio.sleep(0.2)
            found = await newcomer.call("GET", f"{path}/{found['metadata']['name']}", headers=headers)
        _private(self._certificate, key_pem(key) + base64.b64decode(certificate).decode())

    def _object(self) -> Json:
        parts = [text.replace(":", "=").split("=") for text in self._config.get("node-taint", [])]
        taints = [{"key": part[0], "value": "".join(part[1:-1]), "effect": part[-1]} for part in parts]
        node = fill("node", name=self._name, taints=taints) | self._status()
        node["metadata"]["labels"] |= dict(text.split("=", 1) for text in self._config.get("node-label", []))
        return dict(node)

    def _status(self) -> Json:
        """GPUs are counted only on Nodes labelled for them, as the device plugin runs nowhere else."""
        known = anycloud_catalog.vm_type(self._line["provider"], self._line["vmType"] or "")
        cpus, memory, gpus = (known.vcpus, known.memory_mib, known.gpus) if known else (2, 4096, 0)
        whole = {"cpu": str(cpus), "memory": f"{memory}Mi", "ephemeral-storage": "50Gi", "pods": "110"}
        if gpus and any(text.startswith("anycloud.sh/accelerator=") for text in self._config.get("node-label", [])):
            whole[GPU] = str(gpus)
        usable, good = whole | ({GPU: "0"} if "zero-gpus" in self.effects else {}), "not-ready" not in self.effects
        about = {"name": self._name, "address": self.address, "port": self.agent.logs.port, "since": self._since}
        about |= {"ready": str(good), "reason": "KubeletReady" if good else "KubeletNotReady"}
        return dict(fill("node-status", **about, now=timestamp(time.time()), capacity=whole, allocatable=usable))

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
                await self.client.patch(self._lease_path, {"spec": {"renewTime": timestamp(time.time(), micro=True)}})
                await self.client.patch(self._path + "/status", self._status())
            except KubeError as error:
                log.info("node %s: heartbeat: %s", self._name, error)

    async def _follow_pods(self) -> None:
        async for event in self.client.follow(path_of("pods"), fieldSelector=f"spec.nodeName={self._name}"):
            if event["type"] == "SYNC":
                self._sync({item["metadata"]["uid"] for item in event["items"]})
            for obj in event.get("items", [event.get("object")]):
                uid = obj["metadata"]["uid"]
                if uid in self.pods:
                    self.pods[uid].removed() if event["type"] == "DELETED" else self.pods[uid].update(obj)
                elif event["type"] != "DELETED" and obj["status"].get("phase") not in ("Succeeded", "Failed"):
                    self.pods[uid] = Pod(self, obj)

    def _sync(self, here: set[str]) -> None:
        """After a list: what is not in it is over, on disk too."""
        for uid in self.pods.keys() - here:
            self.pods[uid].removed()
        for folder in (self.directory / "pods").glob("*"):
            if folder.name not in here | self.pods.keys():
                kill_everything(self.directory, folder.name)
                forget(self.directory, folder.name)
                shutil.rmtree(folder, ignore_errors=True)

    async def power_off(self, seconds: float = 0) -> None:
        """The machine is gone: nothing on it runs on (after so long a time to end by SIGTERM), nothing is told."""
        for task in [self._task, *(pod.task for pod in self.pods.values())]:
            task.cancel()
        if seconds and self.pods:
            kill_everything(self.directory, number=signal.SIGTERM)
            await asyncio.sleep(seconds)
        kill_everything(self.directory)
        forget(self.directory)
        if self._joined:
            await self.client.close()


class Agent:
    def __init__(self, directory: Path, world: str, rotate_after: float) -> None:
        folder = directory / "agent"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = (folder / "lock").open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.rotate_after, self._world, self.joins = rotate_after, world, asyncio.Semaphore(16)
        self._heartbeat_seconds = 1.0
        self.session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        self.nodes: dict[str, Node] = {}
        self._clusters: dict[str, asyncio.Task[tuple[str, KubeClient]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.logs = LogServer(folder, self.nodes)

    async def run(self) -> None:
        await self.logs.runner.setup()
        self._spawn(self._beat())
        since = 0
        try:
            while True:
                try:
                    async with self.session.get(f"{self._world}/hypervisor/machines?since={since}") as answer:
                        found = await answer.json()
                    since, self._heartbeat_seconds = found["since"], found["heartbeatSeconds"]
                    for line in found["machines"]:
                        self._see(line)
                except (aiohttp.ClientError, TimeoutError, ValueError) as error:
                    log.info("the world does not answer: %s", error)
                    await asyncio.sleep(0.5)
        finally:
            await asyncio.gather(*(node.power_off(POWER_OFF_SECONDS) for node in self.nodes.values()))
            for task in self._clusters.values():
                if task.done() and not task.exception():
                    await task.result()[1].close()
            await self.session.close()

    def _see(self, line: Json) -> None:
        node = self.nodes.get(line["id"])
        if line["nodeConfig"] and node:
            self._spawn(node.set_effects(set(line["effects"])))
        elif line["nodeConfig"]:
            self.nodes[line["id"]] = Node(self, line)
        elif node:
            self._spawn(self.nodes.pop(line["id"]).power_off())
        elif line["state"] in ("stopping", "terminated"):
            kill_everything(Path(line["directory"]))  # left by an agent that was killed before
            forget(Path(line["directory"]))

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._heartbeat_seconds)
            await asyncio.gather(*(node.beat() for node in self.nodes.values()))

    async def cluster(self, server: str) -> tuple[str, KubeClient]:
        """CA of a cluster in PEM, and a client for machines that have no certificate yet; asked once for all Nodes."""
        task = self._clusters.get(server)
        if task is None or (task.done() and task.exception()):
            task = self._clusters[server] = asyncio.create_task(self._meet(server))
        return await asyncio.shield(task)

    async def _meet(self, server: str) -> tuple[str, KubeClient]:
        """The CA is the last of the certificates that the server shows; the join token says which one it must be."""
        at, anybody = urlsplit(server), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
        _, writer = await asyncio.open_connection(at.hostname, at.port, ssl=anybody)
        try:
            connection: Any = writer.get_extra_info("ssl_object")
            shown = connection._sslobj.get_unverified_chain()[-1]  # public from Python 3.13 on
        finally:
            writer.transport.abort()
        pem = ssl.DER_cert_to_PEM_cert(shown.public_bytes(2))
        return pem, KubeClient(server, pem)

    async def image(self, reference: str) -> Json:
        """From the registry; raises ClientResponseError with status 400 for what is no reference at all."""
        async with self.session.get(f"{self._world}/registry/images", params={"reference": reference}) as answer:
            found: Json = await answer.json()
            if answer.status == 200:
                return found
            raise aiohttp.ClientResponseError(answer.request_info, (), status=answer.status, message=found["message"])

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class LogServer:
    """`/containerLogs` over TLS, for the API server of each Node's cluster only: one port on every Node's address."""

    def __init__(self, folder: Path, nodes: dict[str, Node]) -> None:
        self._nodes, self._key, recorded = nodes, folder / "kubelet.pem", folder / "port"
        if not recorded.exists():
            _private(self._key, Authority("kubelet").issue("kubelet"))
            recorded.write_text(str(free_port("127.0.0.1")))
        self.port = int(recorded.read_text())
        self._contexts: dict[str, ssl.SSLContext] = {}
        app = web.Application()
        app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._serve)
        self.runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)

    async def listen(self, node: Node) -> None:
        if node.authority not in self._contexts:
            context = self._contexts[node.authority] = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self._key)
            context.load_verify_locations(cadata=node.authority)
            context.verify_mode = ssl.CERT_REQUIRED
        await web.TCPSite(self.runner, node.address, self.port, ssl_context=self._contexts[node.authority]).start()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        assert request.transport
        address, query = request.transport.get_extra_info("sockname")[0], request.query
        wanted = {"namespace": request.match_info["namespace"], "name": request.match_info["pod"]}
        pods = [pod for node in self._nodes.values() if node.address == address for pod in node.pods.values()]
        found = [pod for pod in pods if wanted.items() <= pod.object["metadata"].items()]
        runs = [run for pod in found for run in pod.runs_of(request.match_info["container"])]
        runs = runs[:-1] if query.get("previous") == "true" else runs
        if not runs:
            return web.Response(status=400, text=f"pod {wanted['name']} has no such run (yet)")
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        async for chunk in _read(runs[-1].folder, int(query.get("tailLines", -1)), query.get("follow") == "true"):
            await response.write(chunk)
        return response


async def _read(run: Path, tail: int, follow: bool) -> AsyncIterator[bytes]:
    """The last lines (all for -1); then what is appended, until the run has ended. A shortened log is read anew."""
    position = 0
    while True:
        ended, path = (run / "exit.json").exists(), run / "log"
        data = path.read_bytes() if path.exists() else b""
        fresh = data[position if position <= len(data) else 0 :]
        if tail >= 0:
            fresh, tail = b"".join(fresh.splitlines(keepends=True)[-tail or len(fresh) :]), -1
        yield fresh
        position = len(data)
        if ended or not follow:
            return
        await asyncio.sleep(FOLLOW_SECONDS)


def _private(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)
