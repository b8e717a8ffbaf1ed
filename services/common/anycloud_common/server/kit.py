"""What a service process is assembled from, and its start and end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import grpc
from google.protobuf import descriptor_pool
from grpc_health.v1 import health_pb2_grpc
from grpc_health.v1._async import HealthServicer

from anycloud_common.clock import Clock, SystemClock
from anycloud_common.rest import Binding, Codec, route
from anycloud_common.server import channels, reflection, sockets
from anycloud_common.server.draining import Draining
from anycloud_common.server.entry import Entry, Identify, Method
from anycloud_common.server.forms import Native, Rest
from anycloud_common.server.gate import Authenticator, Gate
from anycloud_common.server.policy import policy_of
from anycloud_common.server.shape import Shapes
from anycloud_common.settings import Settings

log = logging.getLogger(__name__)

GRACE = 10.0  # seconds that calls get to finish after SIGTERM
CRASH_GRACE = 1.0
STREAM_GRACE = 1.0  # of these, what streams get to end by themselves

_OPTIONS = [
    ("grpc.max_receive_message_length", channels.MESSAGE_BYTES),
    ("grpc.max_send_message_length", channels.MESSAGE_BYTES),
    # Without these grpc refuses a part of every burst beyond some 1,000 calls.
    ("grpc.server.max_pending_requests", 20_000),
    ("grpc.server.max_pending_requests_hard_limit", 40_000),
    # The gateway takes 24 KiB of headers; grpc's own limit begins to refuse at 8.
    ("grpc.max_metadata_size", 32 << 10),
    ("grpc.absolute_max_metadata_size", 64 << 10),
    ("grpc.so_reuseport", 0),
]


class ServerKit:
    """Handed to a service's `build`, which adds its servicers, sets the authenticator and spawns its loops.

    `server` is grpc's own: a servicer that is added to it directly, not by `add`, is open to everybody.
    """

    def __init__(self, name: str, settings: Settings, clock: Clock) -> None:
        self.name = name
        self.settings = settings
        self.clock = clock
        self.draining = Draining()
        self._gate = Gate(settings.api_version, clock)
        self._entry = Entry(self._gate, clock)
        self.server = grpc.aio.server(options=_OPTIONS)
        self._health = HealthServicer()
        self._codec = Codec()
        self._shapes = Shapes()
        self._services: list[str] = []
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._on_close: list[Callable[[], Awaitable[None]]] = []
        self._crashed = asyncio.Event()

    @property
    def authenticator(self) -> Authenticator | None:
        return self._gate.authenticator

    @authenticator.setter
    def authenticator(self, authenticator: Authenticator) -> None:
        self._gate.authenticator = authenticator

    def add(self, add_fn: Callable[[Any, Any], None], servicer: object) -> None:
        """Serves a servicer: `kit.add(clusters_pb2_grpc.add_ClustersServicer_to_server, Clusters(...))`.

        Handlers are `async def`; those of response streams are async generators. A servicer of workload or sign-in
        methods, which checks its callers itself, has `async def identify(self, variables)` too: it raises what it has
        against a caller, for requests that can't be decoded. Raises ValueError when the options of a method contradict
        each other.
        """
        identify: Identify | None = getattr(servicer, "identify", None)
        found = _Registered()
        add_fn(servicer, found)
        for name, handlers in found.services.items():
            self._services.append(name)
            wrapped = {method: self._wrap(name, method, handler, identify) for method, handler in handlers.items()}
            self.server.add_registered_method_handlers(name, wrapped)

    def spawn(self, work: Callable[[], Awaitable[None]], name: str) -> None:
        """Runs `work` beside the server until the process ends. If it raises, the process ends with exit code 1."""
        task = asyncio.create_task(self._watched(work, name), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def on_close(self, close: Callable[[], Awaitable[None]]) -> None:
        """Runs after the last call and background task have ended; the last one registered runs first."""
        self._on_close.append(close)

    def channel(self, service: str) -> grpc.aio.Channel:
        """To a sibling's socket; one a sibling, closed with the process. Unary calls have 5 s unless they say more."""
        if service not in self._channels:
            socket = self.settings.socket(service)
            self._channels[service] = channels.to_sibling(socket, self.name, self.settings.api_version)
        return self._channels[service]

    @property
    def crashed(self) -> asyncio.Event:
        """Set when a background task has raised."""
        return self._crashed

    async def start(self) -> None:
        """Listens. Raises SocketError."""
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self.server)
        reflection.add_to(self.server, self._services)
        socket = self.settings.socket(self.name)
        sockets.private_directory(socket.parent)
        sockets.clear(socket)
        with sockets.private_files():
            self.server.add_insecure_port(f"unix:{socket}")
        await self.server.start()
        log.info("serving", extra={"socket": str(socket), "services": self._services})

    async def stop(self) -> None:
        """Lets calls finish, long-polls answer and streams end, then ends the rest."""
        await self._health.enter_graceful_shutdown()
        self.draining.begin()
        ending = asyncio.create_task(self._end_streams())
        await self.server.stop(CRASH_GRACE if self._crashed.is_set() else GRACE)
        ending.cancel()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        while self._on_close:
            await self._closed(self._on_close.pop())
        for channel in self._channels.values():
            await channel.close()

    def _wrap(self, service: str, name: str, handler: Any, identify: Identify | None) -> Any:
        method = descriptor_pool.Default().FindServiceByName(service).methods_by_name[name]
        policy, http = policy_of(method), route(method)
        rest = Rest(Binding(http, self._codec)) if http is not None else None
        variables = frozenset(param.path[0] for param in (http.params if http else ()) if param.in_path)
        check = None if policy.access == "internal" else self._shapes.of(method.input_type, variables)
        return self._entry.wrap(Method(policy, handler, Native(handler, check, variables), rest, identify))

    async def _end_streams(self) -> None:
        await self.clock.sleep(STREAM_GRACE)
        self._entry.end_streams()

    async def _watched(self, work: Callable[[], Awaitable[None]], name: str) -> None:
        try:
            await work()
        except Exception:
            log.critical("background task crashed; the process ends", exc_info=True, extra={"task": name})
            self._crashed.set()

    async def _closed(self, close: Callable[[], Awaitable[None]]) -> None:
        try:
            await close()
        except Exception:
            log.exception("closing failed")


class _Registered:
    """Stands in for the server in the generated `add_…_to_server`: what these would serve unwrapped, by service."""

    def __init__(self) -> None:
        self.services: dict[str, Mapping[str, Any]] = {}

    def add_generic_rpc_handlers(self, handlers: Any) -> None:
        """The same handlers in the form of older releases of grpc."""

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        self.services[service] = handlers


@asynccontextmanager
async def serving(
    name: str,
    settings: Settings,
    build: Callable[[ServerKit], Awaitable[None]],
    clock: Clock | None = None,
) -> AsyncIterator[ServerKit]:
    """A service inside this process, listening on its socket until the block ends. Tests use it as it is."""
    kit = ServerKit(name, settings, clock or SystemClock())
    try:
        await build(kit)
        await kit.start()
        yield kit
    finally:
        await kit.stop()
