"""How processes show that they are ready: gRPC health on a Unix socket, or an HTTP answer."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from anycloud_supervisor.plan import Probe

_SECONDS = 2.0


def grpc_health(socket: Path) -> Probe:
    """Ready when `grpc.health.v1` says SERVING for the whole server."""

    async def probe() -> bool:
        return os.access(socket, os.W_OK) and await _serving(socket)

    return probe


async def _serving(socket: Path) -> bool:
    from grpc import aio
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    async with aio.insecure_channel(f"unix:{socket}") as channel:  # a channel kept from before would back off
        try:
            answer = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=_SECONDS)
        except aio.AioRpcError:
            return False
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


def http_ok(url: str) -> Probe:
    """Ready when a GET is answered with 200."""

    async def probe() -> bool:
        try:
            return (await http("GET", url)).status == 200
        except (OSError, TimeoutError, ValueError):
            return False

    return probe


class HttpAnswer(NamedTuple):
    status: int
    body: bytes


async def http(method: str, url: str, body: Any = None, socket: Path | None = None) -> HttpAnswer:
    """One plain HTTP exchange on this machine, over TCP or a Unix socket. Raises OSError, TimeoutError, ValueError."""
    return await asyncio.wait_for(_exchange(method, url, body, socket), _SECONDS * 5)


async def _exchange(method: str, url: str, body: Any, socket: Path | None) -> HttpAnswer:
    parts = urlsplit(url)
    if socket is not None:
        reader, writer = await asyncio.open_unix_connection(socket)
    else:
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port or 80)
    try:
        data = b"" if body is None else json.dumps(body).encode()
        target = parts.path + (f"?{parts.query}" if parts.query else "") or "/"
        head = f"{method} {target} HTTP/1.0\r\nHost: {parts.netloc}\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: {len(data)}\r\n\r\n".encode("ascii") + data)
        answer = await reader.read()
    finally:
        writer.close()
    intro, _, rest = answer.partition(b"\r\n\r\n")
    return HttpAnswer(int(intro.split(maxsplit=2)[1]), rest)
