"""The node agent's process: follows the machines, beats for all Nodes, and serves their kubelets' one port."""

import asyncio
import fcntl
import logging
import ssl
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from anycloud_sandbox.agent.container import kill_everything, runs_in
from anycloud_sandbox.agent.node import Node
from anycloud_sandbox.kube.client import KubeClient
from anycloud_sandbox.pki import Authority
from anycloud_sandbox.state import Json
from anycloud_sandbox.world.clouds import free_port

log = logging.getLogger(__name__)
HEARTBEAT_SECONDS, POWER_OFF_SECONDS, FOLLOW_SECONDS = 10.0, 2.0, 0.2


class Agent:
    def __init__(self, directory: Path, world: str, rotate_after: float) -> None:
        folder = directory / "agent"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = (folder / "lock").open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.rotate_after, self._world, self.joins = rotate_after, world, asyncio.Semaphore(16)
        self.session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        self.nodes: dict[str, Node] = {}
        self._clusters: dict[str, asyncio.Task[tuple[str, KubeClient]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.logs = LogServer(folder, self.nodes)

    async def run(self) -> None:
        await self.logs.start()
        self._spawn(self._beat())
        try:
            await self._follow_machines()
        finally:
            await asyncio.gather(*(node.power_off(POWER_OFF_SECONDS) for node in self.nodes.values()))
            await self.session.close()

    async def _follow_machines(self) -> None:
        since = 0
        while True:
            try:
                async with self.session.get(f"{self._world}/hypervisor/machines?since={since}") as answer:
                    found = await answer.json()
            except (aiohttp.ClientError, TimeoutError, ValueError) as error:
                log.info("the world does not answer: %s", error)
                await asyncio.sleep(0.5)
                continue
            since = found["since"]
            for line in found["machines"]:
                self._see(line)

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

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            await asyncio.gather(*(node.beat() for node in self.nodes.values()))

    async def cluster(self, server: str) -> tuple[str, KubeClient]:
        """CA of a cluster in PEM, and a client for machines that have no certificate yet; asked once for all Nodes."""
        task = self._clusters.get(server)
        if task is None or (task.done() and task.exception()):
            task = self._clusters[server] = asyncio.create_task(self._meet(server))
        return await asyncio.shield(task)

    async def _meet(self, server: str) -> tuple[str, KubeClient]:
        async with self.session.get(server + "/cacerts", ssl=False) as answer:
            pem = await answer.text()
        return pem, KubeClient(server, pem)

    async def image(self, reference: str) -> Json:
        """From the registry; raises ClientResponseError with status 400 for what is no reference at all."""
        async with self.session.get(f"{self._world}/registry/images", params={"reference": reference}) as answer:
            found: Json = await answer.json()
            if answer.status != 200:
                info = answer.request_info
                raise aiohttp.ClientResponseError(info, (), status=answer.status, message=found["message"])
            return found

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class LogServer:
    """`/containerLogs` over TLS, for the API server of each Node's cluster only: one port on every Node's address."""

    def __init__(self, folder: Path, nodes: dict[str, Node]) -> None:
        self._nodes, self._key, recorded = nodes, folder / "kubelet.pem", folder / "port"
        if not recorded.exists():
            self._key.touch(mode=0o600)
            self._key.write_text(Authority("kubelet").issue("kubelet"))
            recorded.write_text(str(free_port("127.0.0.1")))
        self.port = int(recorded.read_text())
        self._contexts: dict[str, ssl.SSLContext] = {}
        app = web.Application()
        app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._serve)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
        self.start = self._runner.setup

    async def listen(self, node: Node) -> None:
        if node.authority not in self._contexts:
            context = self._contexts[node.authority] = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self._key)
            context.load_verify_locations(cadata=node.authority)
            context.verify_mode = ssl.CERT_REQUIRED
        await web.TCPSite(self._runner, node.address, self.port, ssl_context=self._contexts[node.authority]).start()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        assert request.transport
        address, query = request.transport.get_extra_info("sockname")[0], request.query
        namespace, name, container = (request.match_info[field] for field in ("namespace", "pod", "container"))
        pods = [pod for node in self._nodes.values() if node.address == address for pod in node.pods.values()]
        metas = [(pod.folder, pod.object["metadata"]) for pod in pods]
        found = [folder for folder, meta in metas if (meta["namespace"], meta["name"]) == (namespace, name)]
        runs = runs_in(found[0] / container / "runs") if found else []
        if query.get("previous") == "true":
            runs = runs[:-1]
        if not runs:
            return web.Response(status=400, text=f'container "{container}" in pod "{name}" has no such run (yet)')
        path = runs[-1].folder / "log"
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        async for chunk in _read(path, int(query.get("tailLines", -1)), query.get("follow") == "true"):
            await response.write(chunk)
        return response


async def _read(path: Path, tail: int, follow: bool) -> AsyncIterator[bytes]:
    """The last lines (all for -1); then what is appended, until the run has ended. A shortened log is read anew."""
    data = path.read_bytes() if path.exists() else b""
    yield data if tail < 0 else b"".join(data.splitlines(keepends=True)[-tail or len(data) :])
    position = len(data)
    while follow:
        follow = not (path.parent / "exit.json").exists()
        data = path.read_bytes() if path.exists() else b""
        position = position if position <= len(data) else 0
        if len(data) > position:
            yield data[position:]
            position = len(data)
        else:
            await asyncio.sleep(FOLLOW_SECONDS)


async def run(directory: Path, world: str, rotate_after: float) -> None:
    await Agent(directory, world, rotate_after).run()
