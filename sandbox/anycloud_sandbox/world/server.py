"""The world's HTTP API on loopback, and the process that holds all of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import orjson
from aiohttp import web

from anycloud_sandbox.faults import Faults, WorldError
from anycloud_sandbox.pace import Pace
from anycloud_sandbox.state import Json, State
from anycloud_sandbox.world import clouds, objects
from anycloud_sandbox.world.edge import Dns, GitHub
from anycloud_sandbox.world.machines import Machines
from anycloud_sandbox.world.registry import Registry

log = logging.getLogger(__name__)
Handler = Callable[[web.Request, Json], Awaitable[Json]]


class World:
    def __init__(self, directory: Path, pace: Pace) -> None:
        self.state = State(directory)
        self.faults = Faults(self.state)
        self.machines = Machines(self.state, self.faults, directory, pace)
        self.clouds = clouds.Clouds(self.state, self.faults, pace.delay, self.machines.changed)
        self.buckets = objects.Buckets(self.state)
        self.github = GitHub(self.faults)
        self.dns = Dns(self.state, self.github)
        self.registry = Registry(self.state, self.faults)

    async def start(self) -> None:
        self.clouds.resume()
        await self.machines.resume(self.clouds.machines)

    async def close(self) -> None:
        await self.machines.close()
        self.state.close()

    def app(self) -> web.Application:
        app = web.Application(client_max_size=256 * 2**20)
        routes: list[tuple[str, str, Handler]] = [
            ("POST", "/cloud/{provider}/{action}", self._cloud),
            ("POST", "/objects/{provider}/{action}", self._objects),
            ("PUT", "/dns/records/{name}", self._dns),
            ("GET", "/dns/records/{name}", self._dns),
            ("DELETE", "/dns/records/{name}", self._dns),
            ("POST", "/dns/certificates", self._certificates),
            ("DELETE", "/dns/certificates/{name}", self._certificates),
            ("GET", "/github/user", self._github),
            ("POST", "/registry/images", self._registry),
            ("GET", "/registry/images", self._registry),
            ("GET", "/hypervisor/machines", self._hypervisor),
            ("POST", "/faults", self._faults),
            ("GET", "/faults", self._faults),
            ("DELETE", "/faults/{name}", self._faults),
        ]
        for method, path, handler in routes:
            app.router.add_route(method, path, self._route(handler))
        return app

    def _route(self, handler: Handler) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            try:
                body = orjson.loads(await request.read() or b"{}")
                response = web.json_response(await handler(request, body), dumps=_dumps)
            except WorldError as error:
                response = error.response()
            except ConnectionAbortedError:
                response = web.Response(status=500)
                if request.transport:
                    request.transport.abort()
            except (KeyError, TypeError, AttributeError, ValueError) as error:
                log.debug("malformed request %s %s", request.method, request.path, exc_info=True)
                response = WorldError("invalid", f"malformed request: {error!r}").response()
            self.state.commit()
            return response

        return handle

    async def _faulty(self, work: Callable[[], Json], **fields: object) -> Json:
        """The work between the faults that hit it."""
        lost = await self.faults.before(**fields)
        answer = work()
        if lost:
            raise ConnectionAbortedError
        return answer

    async def _cloud(self, request: web.Request, body: Json) -> Json:
        provider, action = request.match_info["provider"], request.match_info["action"]
        account = clouds.account_of(provider, request.headers)
        if action not in clouds.ACTIONS:
            raise WorldError("invalid", f"no action {action}")
        fields = {**_texts(body), "area": "cloud", "provider": provider, "action": action, "account": account}
        return await self._faulty(lambda: self.clouds.call(provider, action, account, body), **fields)

    async def _objects(self, request: web.Request, body: Json) -> Json:
        provider, action = request.match_info["provider"], request.match_info["action"]
        account = clouds.account_of(provider, request.headers)
        if action != "CreateBucket" and action not in objects.ACTIONS:
            raise WorldError("invalid", f"no action {action}")
        fields = {**_texts(body), "area": "objects", "provider": provider, "action": action}
        return await self._faulty(lambda: self.buckets.call(provider, action, account, body), **fields)

    async def _dns(self, request: web.Request, body: Json) -> Json:
        who, name = request.headers.get("Authorization", ""), request.match_info["name"]
        work: dict[str, Callable[[], Json]] = {
            "PUT": lambda: self.dns.put(who, name, body),
            "GET": lambda: self.dns.get(who, name),
            "DELETE": lambda: self.dns.delete(who, name),
        }
        return await self._faulty(work[request.method], area="dns", action=request.method, name=name)

    async def _certificates(self, request: web.Request, body: Json) -> Json:
        who = request.headers.get("Authorization", "")
        if request.method == "POST":
            return await self._faulty(lambda: self.dns.sign(who, body), area="certificates", **_texts(body))
        return self.dns.revoke(who, request.match_info["name"])

    async def _github(self, request: web.Request, body: Json) -> Json:
        who = request.headers.get("Authorization", "")
        return await self._faulty(lambda: self.github.user(who), area="github", action="user")

    async def _registry(self, request: web.Request, body: Json) -> Json:
        if request.method == "POST":
            return self.registry.register(body)
        reference = request.query["reference"]
        return await self._faulty(lambda: self.registry.get(reference), area="registry", reference=reference)

    async def _hypervisor(self, request: web.Request, body: Json) -> Json:
        wait = min(float(request.query.get("wait", 20)), 60)
        return await self.machines.listing(int(request.query.get("since", 0)), wait)

    async def _faults(self, request: web.Request, body: Json) -> Json:
        if request.method == "POST":
            return self.faults.add(body).document()
        if request.method == "DELETE":
            self.faults.remove(request.match_info["name"])
        return {"faults": [fault.document() for fault in self.faults.all.values()]}


def _texts(body: Json) -> dict[str, str]:
    return {name: value for name, value in body.items() if isinstance(value, str) and name != "userData"}


def _dumps(body: Json) -> str:
    return orjson.dumps(body).decode()


async def serve(directory: Path, host: str, port: int, pace: Pace, ready: Callable[[int], None]) -> None:
    """Runs until it is cancelled. `ready` gets the port once everything answers."""
    world = World(directory, pace)
    runner = web.AppRunner(world.app(), access_log=None, shutdown_timeout=0.2)
    try:
        await world.start()
        await runner.setup()
        site = web.TCPSite(runner, host, port, backlog=1024)
        await site.start()
        ready(runner.addresses[0][1])
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()
        await world.close()
