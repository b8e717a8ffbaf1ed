"""The world's HTTP API on loopback, and the process that holds all of it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import orjson
from aiohttp import web

from anycloud_sandbox.faults import Faults, WorldError
from anycloud_sandbox.state import Json, Pace, State
from anycloud_sandbox.world.clouds import Buckets, Clouds, account_of
from anycloud_sandbox.world.machines import Machines
from anycloud_sandbox.world.services import Edge, Registry

log = logging.getLogger(__name__)
Handler = Callable[[web.Request, Json], Json]


class World:
    def __init__(self, directory: Path, pace: Pace) -> None:
        self.state = State(directory)
        self.faults = Faults(self.state)
        self.machines = Machines(self.state, self.faults, directory, pace)
        self.clouds = Clouds(self.state, self.faults, pace.delay, self.machines.changed)

    def app(self) -> web.Application:
        app, faults, buckets = web.Application(client_max_size=256 * 2**20), self.faults, Buckets(self.state)
        edge, registry = Edge(self.state, faults), Registry(self.state, faults)
        routes: list[tuple[str, str, Handler]] = [
            ("POST", "/cloud/{provider}/{action}", lambda request, body: self.clouds.call(*_caller(request), body)),
            ("POST", "/objects/{provider}/{action}", lambda request, body: buckets.call(*_caller(request), body)),
            ("*", "/dns/records/{name}", lambda request, body: edge.record(request.method, *_named(request), body)),
            ("POST", "/dns/certificates", lambda request, body: edge.sign(_named(request)[0], body)),
            ("DELETE", "/dns/certificates/{name}", lambda request, _: edge.revoke(*_named(request))),
            ("GET", "/github/user", lambda request, _: edge.user(_named(request)[0])),
            ("POST", "/registry/images", lambda _, body: registry.push(body)),
            ("GET", "/registry/images", lambda request, _: registry.get(request.query["reference"])),
            ("POST", "/faults", lambda _, body: faults.add(body)),
            ("GET", "/faults", lambda *_: {"faults": [vars(fault) for fault in faults.all.values()]}),
            ("DELETE", "/faults/{name}", lambda request, _: faults.remove(_named(request)[1])),
        ]
        for method, path, handler in routes:
            app.router.add_route(method, path, self._route(path.split("/")[1], handler))
        app.router.add_get("/hypervisor/machines", self._hypervisor)
        return app

    def _route(self, area: str, handler: Handler) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            lost = ""
            try:
                body = orjson.loads(await request.read() or b"{}")
                texts = {name: value for name, value in body.items() if isinstance(value, str) and name != "userData"}
                fields = {"action": request.method, **texts, **request.query, **request.match_info, "area": area}
                lost = await self.faults.before(**fields) if area != "faults" else ""
                response = web.json_response(body=orjson.dumps(handler(request, body)))
            except WorldError as error:
                response = web.json_response({"class": error.kind, "message": error.message}, status=error.status)
            except (KeyError, TypeError, AttributeError, ValueError) as error:
                log.info("malformed request %s %s", request.method, request.path, exc_info=True)
                response = web.json_response({"class": "invalid", "message": f"malformed: {error!r}"}, status=400)
            self.state.commit()
            if lost and request.transport:
                request.transport.abort()
            return response

        return handle

    async def _hypervisor(self, request: web.Request) -> web.Response:
        since, wait = int(request.query.get("since", 0)), float(request.query.get("wait", 20))
        return web.json_response(body=orjson.dumps(await self.machines.listing(since, wait)))


def _caller(request: web.Request) -> tuple[str, str, str]:
    """Provider, account and action."""
    provider = request.match_info["provider"]
    return provider, account_of(provider, request.headers), request.match_info["action"]


def _named(request: web.Request) -> tuple[str, str]:
    """The Authorization header, and the name in the path."""
    return request.headers.get("Authorization", ""), request.match_info.get("name", "")


async def serve(directory: Path, port: int, pace: Pace, ready: Callable[[str], None]) -> None:
    """Runs until it is cancelled. `ready` gets the URL once everything answers."""
    world = World(directory, pace)
    runner = web.AppRunner(world.app(), access_log=None, shutdown_timeout=0.2)
    try:
        world.clouds.resume()
        await world.machines.resume(world.clouds.machines)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port, backlog=1024).start()
        ready(f"http://127.0.0.1:{runner.addresses[0][1]}")
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()
        await world.machines.close()
        world.state.commit()
