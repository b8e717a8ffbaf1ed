"""A door in front of an API server, through which the product's requests go and where a test stands.

It ends TLS with a certificate of its own, so it sees each request: `async with Door(endpoint, ca) as door: …`. Clients
use `door.host`, `door.port` and `door.ca`, with the tokens of the server behind it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import aiohttp
from aiohttp import web
from anycloud_control_plane.certificates import Authority

HOST = "127.0.0.1"
_quiet = logging.getLogger("door")
_quiet.setLevel(logging.CRITICAL + 1)  # broken connections are what it is for
_VERBS = {"POST": "create", "PATCH": "patch", "DELETE": "delete", "PUT": "update"}
_HOP_BY_HOP = {"connection", "transfer-encoding", "content-length", "keep-alive", "host"}


class Lost(Exception):
    """The request's connection breaks without an answer."""


@dataclass
class Call:
    """One request. `status` is the server's answer, 0 without one."""

    verb: str
    resource: str
    namespace: str
    name: str
    token: str
    at: float
    content_type: str
    body: Any
    forward: Callable[[], Awaitable[web.StreamResponse]]
    status: int = 0
    expired: bool = False  # a watch whose version was too old

    def __str__(self) -> str:
        return f"{self.verb} {self.resource} {self.namespace}/{self.name}"

    def is_a(self, verb: str, resource: str, namespace: str | None = None) -> bool:
        """Whether it is of that verb, one of several with "|", on that resource."""
        return self.verb in verb.split("|") and self.resource == resource and (namespace in (None, self.namespace))


Fault = Callable[[Call], Awaitable[web.StreamResponse | None]]
"""May answer in the server's place, raise Lost, wait, or forward and do as it likes with the answer. None: passes."""


class Door:
    def __init__(self, endpoint: str, ca: str) -> None:
        authority = Authority("door")
        self.host, self.port, self.ca = HOST, 0, authority.pem
        self.calls: list[Call] = []
        self.fault: Fault | None = None
        self.closed = False  # while true, every request breaks
        self._upstream = endpoint
        self._certificate = authority.issue("door", hosts=[HOST])
        self._trusted = ssl.create_default_context(cadata=ca)
        self._connections: dict[asyncio.Task[Any], asyncio.Transport] = {}  # by the request that is under way
        self._transports: set[asyncio.Transport] = set()
        self._stranded: set[asyncio.Transport] = set()
        self._watches: set[asyncio.Task[Any]] = set()
        self._stack = AsyncExitStack()
        self._session: aiohttp.ClientSession

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(ssl=self._trusted, limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        self._session = aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False)
        await self._stack.enter_async_context(self._session)
        runner = web.ServerRunner(
            web.Server(self._serve, logger=_quiet), handler_cancellation=True, shutdown_timeout=0.1
        )
        await runner.setup()
        self._stack.push_async_callback(runner.cleanup)
        site = web.TCPSite(runner, HOST, 0, ssl_context=self._tls())
        await site.start()
        self.port = runner.addresses[0][1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        under_way = list(self._connections)
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        await self._stack.aclose()

    def cut(self) -> None:
        """Breaks all connections, watches included, as a network does."""
        for transport in list(self._connections.values()):
            transport.abort()

    def end_watches(self) -> None:
        """Ends each watch in order, as a server does when its time is up."""
        for reading in list(self._watches):
            reading.cancel()

    def strand(self) -> None:
        """Nothing comes through the connections of now any more, in either direction, and none ends. New ones work."""
        self._stranded |= self._transports

    def made(self, resource: str, name: str | None = None) -> list[Call]:
        """Requests by which an object came to be, in their order."""
        return [
            call
            for call in self.calls
            if call.is_a("create", resource) and call.status == 201 and name in (None, call.name)
        ]

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        transport, task = request.transport, asyncio.current_task()
        assert isinstance(transport, asyncio.Transport)
        assert task is not None
        if self.closed:
            transport.abort()
            raise ConnectionResetError
        self._transports.add(transport)
        body = await request.read()
        self._connections[task] = transport
        call = _call(request, body)
        call.forward = lambda: self._forward(request, body, call)
        self.calls.append(call)
        try:
            await self._pass(transport)
            answer = await self.fault(call) if self.fault is not None else None
            return answer if answer is not None else await call.forward()
        except (Lost, OSError, aiohttp.ClientError):
            transport.abort()
            raise ConnectionResetError from None
        finally:
            del self._connections[task]

    async def _forward(self, request: web.BaseRequest, body: bytes, call: Call) -> web.StreamResponse:
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP_BY_HOP}
        url = self._upstream + request.path_qs
        async with self._session.request(request.method, url, data=body or None, headers=headers) as answer:
            call.status = answer.status
            kept = {name: value for name, value in answer.headers.items() if name.lower() not in _HOP_BY_HOP}
            if call.verb != "watch" or answer.status != 200:
                return web.Response(status=answer.status, headers=kept, body=await answer.read())
            return await self._watch(request, call, answer, web.StreamResponse(status=200, headers=kept))

    async def _watch(
        self, request: web.BaseRequest, call: Call, answer: aiohttp.ClientResponse, stream: web.StreamResponse
    ) -> web.StreamResponse:
        await stream.prepare(request)
        assert isinstance(request.transport, asyncio.Transport)
        reading = asyncio.create_task(self._copy(call, answer, stream, request.transport))
        self._watches.add(reading)
        try:
            await asyncio.wait([reading])
        finally:
            self._watches.discard(reading)
            ended = reading.cancel() or reading.cancelled()
        if not ended:
            reading.result()
        await stream.write_eof()
        return stream

    async def _copy(
        self, call: Call, answer: aiohttp.ClientResponse, stream: web.StreamResponse, transport: asyncio.Transport
    ) -> None:
        async for chunk in answer.content.iter_any():
            call.expired = call.expired or b'"code":410' in chunk
            await self._pass(transport)
            await stream.write(chunk)

    async def _pass(self, transport: asyncio.Transport) -> None:
        if transport in self._stranded:
            await asyncio.Event().wait()

    def _tls(self) -> ssl.SSLContext:
        import tempfile

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(self._certificate)
            file.flush()
            context.load_cert_chain(file.name)
        return context


def answer(status: int, reason: str, message: str = "as told", retry_after: int | None = None) -> web.Response:
    """An error as API servers answer it."""
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message}
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    return web.json_response({**body, "code": status}, status=status, headers=headers)


def _call(request: web.BaseRequest, body: bytes) -> Call:
    parts = request.path.strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    namespace = ""
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    resource, name, sub = (*rest, "", "", "")[:3]
    told = _json(body)
    verb = _VERBS.get(request.method) or _reading(request, name)
    if verb == "create" and not name and isinstance(told, dict):
        name = str((told.get("metadata") or {}).get("name", ""))
    return Call(
        verb=verb,
        resource=f"{resource}/{sub}" if sub else resource or request.path,
        namespace=namespace,
        name=name,
        token=request.headers.get("Authorization", "").removeprefix("Bearer "),
        at=asyncio.get_running_loop().time(),
        content_type=request.headers.get("Content-Type", ""),
        body=told,
        forward=_nowhere,
    )


def _reading(request: web.BaseRequest, name: str) -> str:
    if request.query.get("watch") == "true":
        return "watch"
    return "get" if name else "list"


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None


async def _nowhere() -> web.StreamResponse:
    raise Lost
