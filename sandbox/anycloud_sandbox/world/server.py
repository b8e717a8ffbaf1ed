"""The world's HTTP API on loopback: clouds, GitHub, DNS, images, faults; and the process that holds all of it."""

import asyncio
import hashlib
import logging
import re
import secrets
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import orjson
from aiohttp import web
from anycloud_control_plane.certificates import Authority, key_pem
from anycloud_control_plane.doors import Doors
from anycloud_control_plane.images import stand_ins

from anycloud_sandbox.state import Faults, Json, Pace, State, WorldError
from anycloud_sandbox.world.clouds import Buckets, Clouds, account_of, free_port
from anycloud_sandbox.world.github import DeviceFlow
from anycloud_sandbox.world.machines import Machines

log = logging.getLogger(__name__)
Handler = Callable[[web.Request, Json], Json]
EDGE_ADDRESS = "127.0.0.2"  # not an address that clients take for a local API
REFERENCE = re.compile(r"([a-z0-9]+(?:[._/:-]+[a-z0-9]+)*?)(?::([\w][\w.-]{0,127}))?(?:@(sha256:[0-9a-f]{64}))?")


class Edge:
    """GitHub's sign-in, and the worker that keeps DNS records for GitHub accounts and signs their certificates."""

    def __init__(self, state: State, faults: Faults) -> None:
        self._state, self._faults = state, faults
        self._records, self._certificates = state.load("dns"), state.load("certificates")
        self._on_record: Callable[[str, Json | None], None] = lambda name, record: None
        stored = state.load("edge").get("authority")
        self._authority = Authority.load(**stored) if stored else Authority("sandbox origin CA")
        state.put("edge", "authority", {"key": key_pem(self._authority.key), "pem": self._authority.pem})

    def user(self, authorization: str) -> Json:
        found = re.fullmatch(r"(?:Bearer|token) ghs_sandbox_([\w-]+)", authorization)
        if found is None or self._faults.take("refused", area="github", login=found[1]):
            raise WorldError("auth", "Bad credentials")
        return {"id": int(hashlib.sha256(found[1].encode()).hexdigest()[:7], 16), "login": found[1]}

    def record(self, method: str, authorization: str, name: str, body: Json) -> Json:
        """GET, PUT or DELETE. A record's URL stands for its name, and keeps its port as long as the record lives."""
        owner, record = self.user(authorization)["login"], self._records.get(name)
        if record is None and method == "PUT":
            record = {"name": name, "owner": owner, "url": f"http://{EDGE_ADDRESS}:{free_port(EDGE_ADDRESS)}"}
        if record is None:
            raise WorldError("not_found", f"no record {name}")
        if record["owner"] != owner:
            raise WorldError("auth", f"another account holds {name}", 403)
        if method == "PUT":
            self._records[name] = record = record | {"address": body["address"], "proxied": bool(body.get("proxied"))}
        elif method == "DELETE":
            del self._records[name]
        self._state.put("dns", name, self._records.get(name))
        if method != "GET":
            self._on_record(name, self._records.get(name))
        return {"record": record}

    def follow(self, on_record: Callable[[str, Json | None], None]) -> None:
        """Tells of all records, and from now on of each that comes, changes or goes (None)."""
        self._on_record = on_record
        for name, record in self._records.items():
            on_record(name, record)

    def certificate(self, authorization: str, name: str, body: Json) -> Json:
        """Signs a request for a record's holder; or, with the name of a certificate, revokes that."""
        if name:
            self.user(authorization)
            if self._certificates.pop(name, None) is None:
                raise WorldError("not_found", f"no certificate {name}")
            self._state.put("certificates", name, None)
            return {}
        self.record("GET", authorization, body["name"], {})
        made = {"id": "cert-" + secrets.token_hex(8), "name": body["name"]}
        self._certificates[made["id"]] = made | {"certificate": self._authority.sign(body["csr"])}
        self._state.put("certificates", made["id"], self._certificates[made["id"]])
        return self._certificates[made["id"]]


class Registry:
    """Images are directories on this machine, with a manifest: accelerator, env, command, labels."""

    def __init__(self, state: State, faults: Faults) -> None:
        self._state, self._faults = state, faults
        self._images = state.load("images")  # "name@digest": the image; "name:tag": {"digest"}
        self.stand_ins: dict[str, Json] = {}  # by name: manifests for whichever version is asked for

    def push(self, body: Json) -> Json:
        """The digest is the manifest's, or the reference's own: of what it stands in for."""
        name, tag, given = _parse(body["reference"])
        manifest = {"accelerator": "none", "env": {}, "command": [], "labels": {}, **(body.get("manifest") or {})}
        computed = "sha256:" + hashlib.sha256(orjson.dumps(manifest, option=orjson.OPT_SORT_KEYS)).hexdigest()
        digest = given or computed
        image = {"digest": digest, "manifest": manifest, "directory": body.get("directory")}
        for key, document in ((f"{name}@{digest}", image), (f"{name}:{tag}", {"digest": digest})):
            self._images[key] = document
            self._state.put("images", key, document)
        return {"digest": digest}

    def get(self, reference: str) -> Json:
        """The image of a tag or digest. Faults on an image show here, as the node agent asks at every start."""
        name, tag, digest = _parse(reference)
        if fault := self._faults.take("pull-failure", area="registry", reference=reference):
            raise WorldError("unreachable", fault["message"])
        digest = digest or self._images.get(f"{name}:{tag}", {}).get("digest", "")
        image = self._images.get(f"{name}@{digest}")
        if image is None and name in self.stand_ins:
            image = {"digest": digest, "manifest": self.stand_ins[name], "directory": None}
        if image is None:
            raise WorldError("not_found", f"{reference}: not found")
        broken = self._faults.take("crash-loop", area="registry", reference=reference)
        return {"reference": f"{name}@{digest}", **image, "command": ["/bin/false"] if broken else None}


def _parse(reference: str) -> tuple[str, str, str]:
    """Name, tag and digest; raises for what is no reference."""
    found = REFERENCE.fullmatch(reference)
    if found is None:
        raise WorldError("invalid", f"invalid reference format: {reference!r}")
    return found[1], found[2] or "latest", found[3] or ""


class World:
    def __init__(self, directory: Path, pace: Pace, assets: Sequence[Path]) -> None:
        self.state = State(directory)
        self.faults = Faults(self.state)
        self.registry, self.edge, self.doors = Registry(self.state, self.faults), Edge(self.state, self.faults), Doors()
        self.machines = Machines(self.state, self.faults, directory, pace, assets)
        self.clouds = Clouds(self.state, self.faults, pace.delay, self.machines.changed)
        self.device_flow = DeviceFlow(pace.delay)

    def app(self) -> web.Application:
        app, faults, buckets = web.Application(client_max_size=256 * 2**20), self.faults, Buckets(self.state)
        edge, registry = self.edge, self.registry
        routes: list[tuple[str, str, Handler]] = [
            ("POST", "/cloud/{provider}/{action}", lambda request, body: self.clouds.call(*_caller(request), body)),
            ("POST", "/objects/{provider}/{action}", lambda request, body: buckets.call(*_caller(request), body)),
            ("*", "/dns/records/{name}", lambda request, body: edge.record(request.method, *_named(request), body)),
            ("*", "/dns/certificates{name:/?.*}", lambda request, body: edge.certificate(*_named(request), body)),
            ("GET", "/github/user", lambda request, _: edge.user(_named(request)[0])),
            ("POST", "/registry/images", lambda _, body: registry.push(body)),
            ("GET", "/registry/images", lambda request, _: registry.get(request.query["reference"])),
            ("POST", "/faults", lambda _, body: faults.add(body)),
            ("GET", "/faults", lambda *_: {"faults": list(faults.all.values())}),
            ("DELETE", "/faults/{name}", lambda request, _: faults.remove(_named(request)[1])),
        ]
        for method, path, handler in routes:
            app.router.add_route(method, path, self._route(path.split("/")[1], handler))
        app.router.add_get("/hypervisor/machines", self._hypervisor)
        app.router.add_routes(self.device_flow.routes())
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
    return request.headers.get("Authorization", ""), request.match_info.get("name", "").lstrip("/")


async def serve(directory: Path, port: int, pace: Pace, ready: Callable[[str], None], assets: Sequence[Path]) -> None:
    """Runs until it is cancelled. `ready` gets the URL once everything answers. With `assets`, the folders of
    Kubernetes' own programs, those are the control planes of the machines."""
    world = World(directory, pace, assets)
    runner = web.AppRunner(world.app(), access_log=None, shutdown_timeout=0.2)
    try:
        world.clouds.resume()
        await world.machines.resume(world.clouds.machines)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port, backlog=1024).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        if assets:
            world.edge.follow(world.doors.follow)
            world.registry.stand_ins = stand_ins(assets, url)
        ready(url)
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()
        world.doors.close()
        await world.machines.close()
        world.state.commit()
