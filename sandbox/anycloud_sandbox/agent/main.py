"""The node agent's process: follows the machines, beats for all Nodes, and serves their kubelets' one port."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import signal
import ssl
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import aiohttp

from anycloud_sandbox.agent.container import kill_everything
from anycloud_sandbox.agent.logs import LogServer
from anycloud_sandbox.agent.node import Node
from anycloud_sandbox.kube.client import KubeClient
from anycloud_sandbox.state import Json

log = logging.getLogger(__name__)
HEARTBEAT_SECONDS, STATUS_EVERY = 10.0, 6
POWER_OFF_SECONDS = 2.0


class Agent:
    def __init__(self, directory: Path, world: str, rotate_after: float) -> None:
        self.rotate_after, self._world = rotate_after, world
        self.nodes: dict[str, Node] = {}
        self.joins = asyncio.Semaphore(16)
        self.session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        self._clusters: dict[str, asyncio.Task[tuple[str, KubeClient]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._folder = directory / "agent"
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = (self._folder / "lock").open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.logs = LogServer(self._folder, self.nodes)
        self.kubelet_port = self.logs.port

    async def run(self) -> None:
        await self.logs.start()
        beats = asyncio.create_task(self._beat())
        try:
            await self._follow_machines()
        finally:
            beats.cancel()
            await self._power_off()

    async def _follow_machines(self) -> None:
        since = 0
        while True:
            try:
                params = {"since": str(since)}
                async with self.session.get(f"{self._world}/hypervisor/machines", params=params) as answer:
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
        if line["nodeConfig"] and node is None:
            self.nodes[line["id"]] = Node(self, line)
        elif line["nodeConfig"] and node:
            node.set_effects(set(line["effects"]))
        elif node:
            self.spawn(self.nodes.pop(line["id"]).power_off())
        elif line["state"] in ("stopping", "terminated"):
            kill_everything(Path(line["directory"]))  # left by an agent that was killed before

    async def _beat(self) -> None:
        count = 0
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            count += 1
            await asyncio.gather(*(node.beat(whole=count % STATUS_EVERY == 0) for node in self.nodes.values()))

    async def _power_off(self) -> None:
        for node in self.nodes.values():
            for pod in node.pods.values():
                for container in pod.containers:
                    if container.run:
                        container.run.signal(signal.SIGTERM)
        seconds = POWER_OFF_SECONDS if any(node.pods for node in self.nodes.values()) else 0
        await asyncio.gather(*(node.power_off(seconds) for node in self.nodes.values()))
        await self.session.close()

    async def cluster(self, server: str) -> tuple[str, KubeClient]:
        """CA of a cluster in PEM, and a client for machines that have no certificate yet; asked once for all Nodes."""
        task = self._clusters.get(server)
        if task is None or (task.done() and task.exception()):
            task = self._clusters[server] = asyncio.create_task(self._meet(server))
        return await asyncio.shield(task)

    async def _meet(self, server: str) -> tuple[str, KubeClient]:
        async with self.session.get(server + "/cacerts", ssl=False) as answer:
            pem = await answer.text()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=pem)
        return pem, KubeClient(server, context)

    async def image(self, reference: str) -> Json:
        """From the registry; raises ClientResponseError with status 400 for what is no reference at all."""
        async with self.session.get(f"{self._world}/registry/images", params={"reference": reference}) as answer:
            found: Json = await answer.json()
            if answer.status != 200:
                message = found.get("message", "")
                raise aiohttp.ClientResponseError(answer.request_info, (), status=answer.status, message=message)
            return found

    async def listen(self, node: Node) -> None:
        await self.logs.listen(node)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def run(directory: Path, world: str, rotate_after: float) -> None:
    await Agent(directory, world, rotate_after).run()
