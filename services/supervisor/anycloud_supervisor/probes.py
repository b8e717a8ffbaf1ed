"""How processes show that they are ready: gRPC health on a Unix socket, or an HTTP answer."""

from __future__ import annotations

import asyncio
import json
import os
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from socket import AF_UNIX
from socket import socket as Socket  # noqa: N812
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from anycloud_supervisor.plan import Probe

_HEALTH_SECONDS = 2.0
_HTTP_SECONDS = 5.0
_HUNG_SECONDS = 15.0  # generous: a busy machine is no hung process


def grpc_health(socket: Path) -> Probe:
    """Ready when `grpc.health.v1` says SERVING for the whole server."""

    async def probe() -> bool:
        from grpc_health.v1 import health_pb2

        return (
            os.access(socket, os.W_OK)
            and await _health(socket, _HEALTH_SECONDS) == health_pb2.HealthCheckResponse.SERVING
        )

    return probe


def grpc_answers(socket: Path) -> Probe:
    """Whether the server says anything about its health, be it that it can't serve."""

    async def probe() -> bool:
        return await _health(socket, _HUNG_SECONDS) is not None

    return probe


async def _health(socket: Path, seconds: float) -> int | None:
    from grpc import aio
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    async with aio.insecure_channel(f"unix:{socket}") as channel:  # a channel kept from before would back off
        try:
            answer = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=seconds)
        except aio.AioRpcError:
            return None
    return int(answer.status)


def http_ok(url: str) -> Probe:
    """Ready when a GET is answered with 200."""

    async def probe() -> bool:
        try:
            return (await http("GET", url)).status == 200
        except (OSError, HTTPException):
            return False

    return probe


def http_answers(url: str) -> Probe:
    """Whether a GET is answered with anything."""

    async def probe() -> bool:
        try:
            await http("GET", url, seconds=_HUNG_SECONDS)
        except (OSError, HTTPException):
            return False
        return True

    return probe


class HttpAnswer(NamedTuple):
    status: int
    body: bytes


async def http(
    method: str, url: str, body: Any = None, socket: Path | None = None, seconds: float = _HTTP_SECONDS
) -> HttpAnswer:
    """One plain HTTP exchange on this machine, over TCP or a Unix socket. Raises OSError, HTTPException."""
    return await asyncio.to_thread(_exchange, method, url, body, socket, seconds)


def _exchange(method: str, url: str, body: Any, socket: Path | None, seconds: float) -> HttpAnswer:
    parts = urlsplit(url)
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=seconds)
    try:
        if socket is not None:
            connection.sock = _unix(socket)
        data = None if body is None else json.dumps(body).encode()
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        connection.request(method, target, body=data, headers={"Content-Type": "application/json"})
        answer = connection.getresponse()
        return HttpAnswer(answer.status, answer.read())
    finally:
        connection.close()


def _unix(path: Path) -> Socket:
    made = Socket(AF_UNIX)
    made.settimeout(_HTTP_SECONDS)
    made.connect(str(path))
    return made
