"""The kubelets' port: `/containerLogs` over TLS, for the API server of each Node's cluster only."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from aiohttp import web

from anycloud_sandbox.agent.container import LOG_BYTES
from anycloud_sandbox.pki import Authority
from anycloud_sandbox.world.ports import free_port

if TYPE_CHECKING:
    from anycloud_sandbox.agent.node import Node
    from anycloud_sandbox.agent.pod import Container

FOLLOW_SECONDS = 0.2


class LogServer:
    """One port on every Node's own address; it stays the same over restarts."""

    def __init__(self, folder: Path, nodes: Mapping[str, Node]) -> None:
        self._nodes, self._key = nodes, folder / "kubelet.pem"
        recorded = folder / "port"
        if not recorded.exists():
            recorded.write_text(str(free_port("127.0.0.1")))
        self.port = int(recorded.read_text())
        if not self._key.exists():
            certificate, key = Authority.new("kubelet").issue("kubelet")
            self._key.touch(mode=0o600)
            self._key.write_text(key + certificate)
        self._contexts: dict[str, ssl.SSLContext] = {}
        app = web.Application()
        app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._serve)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)

    async def start(self) -> None:
        await self._runner.setup()

    async def listen(self, node: Node) -> None:
        context = self._contexts.get(node.authority)
        if context is None:
            context = self._contexts[node.authority] = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self._key)
            context.load_verify_locations(cadata=node.authority)
            context.verify_mode = ssl.CERT_REQUIRED
        await web.TCPSite(self._runner, node.address, self.port, ssl_context=context, reuse_address=True).start()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        assert request.transport
        address, names = request.transport.get_extra_info("sockname")[0], request.match_info
        container = self._find(address, names["namespace"], names["pod"], names["container"])
        path = container.runs.log(request.query.get("previous") == "true") if container else None
        if path is None:
            which = f'container "{names["container"]}" in pod "{names["pod"]}"'
            return web.Response(status=400, text=f"{which} is waiting to start or has no previous run")
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        data = path.read_bytes() if path.exists() else b""
        if "tailLines" in request.query:
            count = int(request.query["tailLines"])
            data = b"".join(data.splitlines(keepends=True)[-count:] if count else [])
        await response.write(data[: int(request.query.get("limitBytes", LOG_BYTES))])
        if request.query.get("follow") == "true":
            async for chunk in _follow(path):
                await response.write(chunk)
        return response

    def _find(self, address: str, namespace: str, pod: str, container: str) -> Container | None:
        for node in self._nodes.values():
            for item in node.pods.values() if node.address == address else ():
                meta = item.object["metadata"]
                if (meta["namespace"], meta["name"]) == (namespace, pod):
                    return next((found for found in item.containers if found.name == container), None)
        return None


async def _follow(path: Path) -> AsyncIterator[bytes]:
    """What is appended from now on, until the run has ended; when the shim shortens the log, it goes on in the new file."""
    with path.open("rb") as file:
        file.seek(0, 2)
        number = path.stat().st_ino
        while True:
            ended = (path.parent / "exit.json").exists()
            if chunk := file.read():
                yield chunk
            elif ended or not path.exists():
                return
            elif path.stat().st_ino != number:
                number = path.stat().st_ino
                file = path.open("rb")
                file.seek(LOG_BYTES // 2)
            else:
                await asyncio.sleep(FOLLOW_SECONDS)
