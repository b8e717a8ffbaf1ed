"""The HTTP face of one cluster's API: paths and verbs to the store, watches, and the calls that are not objects."""

import asyncio
import logging

import aiohttp
import orjson
import yaml
from aiohttp import web

from anycloud_sandbox.kube.auth import JOINING, Authenticator
from anycloud_sandbox.kube.store import (
    RESOURCES,
    Event,
    Key,
    KubeError,
    Resource,
    Selector,
    Store,
    dig,
    fill,
    key_of,
    selector,
)
from anycloud_sandbox.state import Faults, Json, State, WorldError

log = logging.getLogger(__name__)
JSON = {"Content-Type": "application/json"}  # exactly this: some clients parse errors of no other spelling
REASONS = {400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 409: "Conflict"}
REASONS |= {429: "TooManyRequests", 503: "ServiceUnavailable"}
RETURNED = ("pods", "services", "serviceaccounts", "persistentvolumeclaims")  # kinds whose DELETE answers the object
SUCCESS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]
NO_SUCH_PATH = KubeError(404, "NotFound", "the server could not find the requested resource")
BOOKMARK_SECONDS, LONGEST_SECONDS = 20.0, 3600.0
END, CUT = b"", b"cut"  # last lines of a watch: it ends, or its connection breaks
Queue = asyncio.Queue[bytes]


def reply(body: Json, status: int = 200) -> web.Response:
    headers = JSON | ({"Retry-After": "1"} if status == 429 else {})
    return web.Response(body=orjson.dumps(body), status=status, headers=headers)


class Api:
    """`handle` is the only route of a cluster."""

    kubelets: aiohttp.ClientSession

    def __init__(self, state: State, faults: Faults, store: Store, auth: Authenticator, record: Json) -> None:
        self._state, self._faults, self._store, self._auth = state, faults, store, auth
        self._record = record
        self._watches: dict[Queue, tuple[str, Selector]] = {}
        store.followers.append(self._follow)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        lost, response = "", web.StreamResponse()
        try:
            key, sub = _target(request.path)
            fields = {"area": "kube", "action": request.method, "cluster": self._record["machine"], "resource": key[0]}
            lost = await self._faults.before(**fields, namespace=key[1], name=key[2])
            if lost != "down":
                response = await self._answer(request, key, sub)
        except WorldError as error:
            response = reply(KubeError(error.status, REASONS[error.status], error.message).status(), error.status)
        except KubeError as error:
            response = reply(error.status(), error.code)
        except (KeyError, TypeError, AttributeError, ValueError, yaml.YAMLError) as error:
            log.info("malformed request %s %s", request.method, request.path, exc_info=True)
            response = reply(KubeError(400, "BadRequest", f"malformed object: {error!r}").status(), 400)
        self._state.commit()
        if lost and request.transport:
            request.transport.abort()
        return response

    async def _answer(self, request: web.Request, key: Key, sub: str) -> web.StreamResponse:
        user = self._auth.user(request)
        if request.path == "/cacerts":
            return web.Response(text=self._record["ca"])
        if user is None:
            raise KubeError(401, "Unauthorized", "Unauthorized")
        if user is JOINING and key[0] != "certificatesigningrequests":
            raise KubeError(403, "Forbidden", "a machine that joins may only ask for a certificate")
        if request.query.keys() & {"dryRun", "sendInitialEvents"} or "protobuf" in request.content_type:
            raise KubeError(415, "UnsupportedMediaType", "the sandbox has no protobuf, dryRun or sendInitialEvents")
        raw = await request.read()
        body = yaml.safe_load(raw) if raw and "yaml" in request.content_type else orjson.loads(raw or b"{}")
        if not key[0]:
            return self._no_object(request.path.strip("/").split("/"), body)
        if (*key[::2], sub, request.method) == ("pods", key[2], "log", "GET"):
            return await self._log(request, self._store.get(key))
        if not key[2] and request.method != "POST":
            return await self._list(request, key)
        return self._object(request, user, key, sub, body)

    def _no_object(self, parts: list[str], body: Json) -> web.Response:
        match parts:
            case ["version"]:
                version = self._record["version"]
                major, minor = version.lstrip("v").split(".")[:2]
                return reply(fill("version", major=major, minor=minor, version=version))
            case ["apis", "authentication.k8s.io", "v1", "tokenreviews"]:
                return reply(self._auth.review(body), 201)
            case ["apis", "authorization.k8s.io", "v1", "selfsubjectaccessreviews"]:
                asked = {**(body["spec"].get("resourceAttributes") or {}), "area": "access"}
                return reply({**body, "status": {"allowed": not self._faults.take("denied", **asked)}}, 201)
            case ["api"]:
                return reply({"kind": "APIVersions", "versions": ["v1"]})
            case ["apis"]:
                versions = sorted({res.api_version for res in RESOURCES.values()} - {"v1"})
                pairs = [(full.split("/")[0], {"groupVersion": full, "version": "v1"}) for full in versions]
                groups = [{"name": name, "versions": [one], "preferredVersion": one} for name, one in pairs]
                return reply({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
        version = "/".join(parts[1:])
        resources = [res for res in RESOURCES.values() if res.api_version == version]
        if not resources:
            raise NO_SUCH_PATH
        about = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version}
        return reply(about | {"resources": [line for res in resources for line in _discovery(res)]})

    async def _list(self, request: web.Request, key: Key) -> web.StreamResponse:
        query, plural, namespace = request.query, *key[:2]
        chosen = selector(query.get("labelSelector", ""), query.get("fieldSelector", ""))

        def wanted(obj: Json) -> bool:
            return chosen(obj) and (not namespace or obj["metadata"]["namespace"] == namespace)

        if query.get("watch") in ("true", "1", "True"):
            return await self._watch(request, plural, wanted)
        items = [obj for obj in self._store.all(plural) if wanted(obj)]
        for obj in items if request.method == "DELETE" else ():
            self._store.delete(key_of(obj))
        head = {"kind": RESOURCES[plural].kind + "List", "apiVersion": RESOURCES[plural].api_version}
        return reply({**head, "metadata": {"resourceVersion": str(self._store.version)}, "items": items})

    def _object(self, request: web.Request, user: Json, key: Key, sub: str, body: Json) -> web.Response:
        answer, status = SUCCESS, 200
        match request.method, request.content_type, (key[0], sub):
            case "GET", _, (_, "" | "status"):
                answer = self._store.get(key)
            case "POST", _, ("pods", "binding"):
                self._store.bind(key, body["target"]["name"])
            case "POST", _, ("serviceaccounts", "token"):
                answer, status = self._auth.request_token(key, body), 201
            case "POST", _, ("certificatesigningrequests", ""):
                answer, status = self._auth.request_certificate(body, user, request.headers), 201
            case "POST", _, (_, ""):
                if body.get("kind", RESOURCES[key[0]].kind) != RESOURCES[key[0]].kind:
                    raise KubeError(400, "BadRequest", f"the object has kind {body['kind']}, not one of {key[0]}")
                answer, status = self._store.create(key[0], key[1], body, request.query.get("fieldManager", "")), 201
            case "PUT", _, (_, "" | "status"):
                answer = self._store.update(key, body, sub)
            case "PATCH", "application/apply-patch+yaml", (_, "" | "status"):
                status = 200 if self._store.find(*key) else 201
                answer = self._store.apply(key, body, request.query["fieldManager"], sub)
            case "PATCH", ("application/merge-patch+json" | "application/strategic-merge-patch+json"), (
                _,
                "" | "status",
            ):
                answer = self._store.patch(key, body, sub)
            case "DELETE", _, (_, ""):
                grace = body.get("gracePeriodSeconds", request.query.get("gracePeriodSeconds"))
                obj = self._store.delete(key, body.get("preconditions"), None if grace is None else int(grace))
                answer = obj if self._store.find(*key) or key[0] in RETURNED else SUCCESS
            case method, kind, _:
                raise KubeError(
                    415, "UnsupportedMediaType", f"the sandbox has no {method} of {key[0]}/{sub} with {kind}"
                )
        return reply(answer, status)

    async def _log(self, request: web.Request, pod: Json) -> web.StreamResponse:
        """Asked of the kubelet of the Pod's Node, as the real API server does; empty while there is no Node."""
        if not pod["spec"].get("nodeName"):
            return web.Response(text="")
        meta, name = pod["metadata"], request.query.get("container") or pod["spec"]["containers"][0]["name"]
        node = self._store.get(("nodes", "", pod["spec"]["nodeName"]))
        address = next(item["address"] for item in node["status"]["addresses"] if item["type"] == "InternalIP")
        place = f"https://{address}:{dig(node, 'status.daemonEndpoints.kubeletEndpoint.Port')}/containerLogs"
        timeout, url = aiohttp.ClientTimeout(sock_connect=5), f"{place}/{meta['namespace']}/{meta['name']}/{name}"
        try:
            async with self.kubelets.get(url, params=request.query, timeout=timeout) as answer:
                if answer.status != 200:
                    raise KubeError(400, "BadRequest", await answer.text())
                response = web.StreamResponse(headers={"Content-Type": "text/plain"})
                await response.prepare(request)
                async for chunk in answer.content.iter_any():
                    await response.write(chunk)
                return response
        except aiohttp.ClientConnectionError as error:
            raise KubeError(502, "InternalError", f"the kubelet at {place} does not answer") from error

    async def _watch(self, request: web.Request, plural: str, wanted: Selector) -> web.StreamResponse:
        """Replay from a version, then live events; bookmarks; 410 when the version is too old."""
        store, since, queue = self._store, int(request.query.get("resourceVersion") or 0), Queue()
        self._state.commit()  # what followers were told and what is replayed here must meet exactly
        oldest = store.log[0].version if store.log else store.version + 1
        lines = [_line("ADDED", obj) for obj in store.all(plural) if not since and wanted(obj)]
        if since and not oldest - 1 <= since <= store.version:
            gone = KubeError(410, "Expired", f"too old resource version: {since} ({oldest})").status()
            lines = [_line("ERROR", gone), END]
        elif since:
            recent = (event for event in store.log if event.version > since and event.key[0] == plural)
            lines = [line for event in recent if (line := _line_for(event, wanted))]
        for line in lines:
            queue.put_nowait(line)
        self._watches[queue] = (plural, wanted)
        try:
            return await self._stream(request, plural, queue)
        finally:
            del self._watches[queue]

    async def _stream(self, request: web.Request, plural: str, queue: Queue) -> web.StreamResponse:
        response, now, lines = web.StreamResponse(headers=JSON), asyncio.get_running_loop().time, list[bytes]()
        await response.prepare(request)
        end = now() + float(request.query.get("timeoutSeconds") or LONGEST_SECONDS)
        while END not in lines and CUT not in lines:
            lines = []
            try:
                lines.append(await asyncio.wait_for(queue.get(), min(max(end - now(), 0), BOOKMARK_SECONDS)))
            except TimeoutError:
                self._state.commit()
                head = {"kind": RESOURCES[plural].kind, "apiVersion": RESOURCES[plural].api_version}
                mark = _line("BOOKMARK", {**head, "metadata": {"resourceVersion": str(self._store.version)}})
                lines += [mark] if queue.empty() and request.query.get("allowWatchBookmarks") else []
                lines += [END] if now() >= end else []
            while not queue.empty():
                lines.append(queue.get_nowait())
            if CUT in lines and request.transport:
                request.transport.abort()
            elif chunk := b"".join(lines):
                await response.write(chunk)
        return response

    def _follow(self, event: Event) -> None:
        for queue, (plural, wanted) in self._watches.items():
            if plural == event.key[0] and (line := _line_for(event, wanted)):
                queue.put_nowait(line)

    def end_watches(self, last: bytes, plural: str | None = None) -> None:
        for queue, (watched, _) in self._watches.items():
            if plural in (None, watched):
                queue.put_nowait(last)


def _line(kind: str, obj: Json) -> bytes:
    return orjson.dumps({"type": kind, "object": obj}) + b"\n"


def _line_for(event: Event, wanted: Selector) -> bytes | None:
    """What a watch with this selector is told; what leaves the selection is deleted for it."""
    now, before = wanted(event.object), event.before is not None and wanted(event.before)
    if event.type == "DELETED" or not now:
        return _line("DELETED", event.object) if now or before else None
    return _line("MODIFIED" if before else "ADDED", event.object)


def _target(path: str) -> tuple[Key, str]:
    """Key and subresource of a path; empty for what is not an object."""
    root, *parts = [part for part in path.split("/") if part] or [""]
    version, rest = ("/".join(parts[:2]), parts[2:]) if root == "apis" else ("".join(parts[:1]), parts[1:])
    namespace = rest[1] if rest[:1] == ["namespaces"] and len(rest) > 2 and rest[2] in RESOURCES else ""
    plural, name, sub = (*(rest[2:] if namespace else rest), "", "", "")[:3]
    if root not in ("api", "apis") or plural not in RESOURCES or RESOURCES[plural].api_version != version:
        return ("", "", ""), ""
    if name and (RESOURCES[plural].scope == "namespaced") != bool(namespace):
        raise NO_SUCH_PATH
    return (plural, namespace, name), sub


def _discovery(res: Resource) -> list[Json]:
    about = {
        "kind": res.kind,
        "namespaced": res.scope == "namespaced",
        "singularName": res.kind.lower(),
        "verbs": VERBS,
    }
    subs = [{"name": f"{res.plural}/status", **about}] if res.sub == "status" else []
    return [{"name": res.plural, "shortNames": [res.short], **about}, *subs]
