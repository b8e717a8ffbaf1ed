"""The HTTP face of one cluster's API: paths and verbs to the store, and the few calls that are not objects."""

import logging
from typing import NamedTuple

import aiohttp
import orjson
import yaml
from aiohttp import web

from anycloud_sandbox.faults import Faults, WorldError
from anycloud_sandbox.kube.auth import JOINING, Authenticator, User
from anycloud_sandbox.kube.objects import RESOURCES, KubeError, Resource, dig, selector
from anycloud_sandbox.kube.admission import Key
from anycloud_sandbox.kube.store import Store, key_of
from anycloud_sandbox.kube.watch import JSON, Watches
from anycloud_sandbox.state import Json, State

log = logging.getLogger(__name__)
REASONS = {400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 409: "Conflict"}
REASONS |= {429: "TooManyRequests", 503: "ServiceUnavailable"}
RETURNED = ("pods", "services", "serviceaccounts", "persistentvolumeclaims")  # kinds whose DELETE answers the object
SUCCESS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]
NO_SUCH_PATH = KubeError(404, "NotFound", "the server could not find the requested resource")


def reply(body: Json, status: int = 200) -> web.Response:
    headers = {**JSON, "Retry-After": "1"} if status == 429 else JSON
    return web.Response(body=orjson.dumps(body), status=status, headers=headers)


class Api(NamedTuple):
    """`handle` is the only route of a cluster."""

    machine_id: str
    version: str
    ca: str
    state: State
    faults: Faults
    store: Store
    auth: Authenticator
    watches: Watches
    kubelets: aiohttp.ClientSession

    async def handle(self, request: web.Request) -> web.StreamResponse:
        parts = [part for part in request.path.split("/") if part]
        lost, response = "", web.StreamResponse()
        try:
            resource, key, sub = _target(parts)
            fields = {"area": "kube", "action": request.method, "cluster": self.machine_id, "resource": key[0]}
            lost = await self.faults.before(**fields, namespace=key[1], name=key[2])
            if lost != "down":
                response = await self._answer(request, parts, resource, key, sub)
        except WorldError as error:
            response = reply(KubeError(error.status, REASONS[error.status], error.message).status(), error.status)
        except KubeError as error:
            response = reply(error.status(), error.code)
        except (KeyError, TypeError, AttributeError, ValueError, yaml.YAMLError) as error:
            log.info("malformed request %s %s", request.method, request.path, exc_info=True)
            response = reply(KubeError(400, "BadRequest", f"malformed object: {error!r}").status(), 400)
        self.state.commit()
        if lost and request.transport:
            request.transport.abort()
        return response

    async def _answer(
        self, request: web.Request, parts: list[str], resource: Resource | None, key: Key, sub: str
    ) -> web.StreamResponse:
        if parts == ["cacerts"]:
            return web.Response(text=self.ca)
        user = self.auth.user(request)
        if user is None:
            raise KubeError(401, "Unauthorized", "Unauthorized")
        if user.group == JOINING and key[0] != "certificatesigningrequests":
            raise KubeError(403, "Forbidden", f'User "{user.name}" may only ask for certificates')
        if request.query.get("dryRun") or request.query.get("sendInitialEvents"):
            raise KubeError(422, "Invalid", "the sandbox has no dryRun and no sendInitialEvents")
        body = await _body(request)
        if resource is None:
            return self._no_object(parts, body)
        if sub not in ("", "status"):
            return await self._subresource(request, key, sub, body)
        return (
            self._object(request, key, sub, body)
            if key[2]
            else await self._collection(request, user, resource, key[1], body)
        )

    def _no_object(self, parts: list[str], body: Json) -> web.Response:
        match parts:
            case ["version"]:
                names = ("buildDate", "compiler", "gitCommit", "gitTreeState", "goVersion", "platform")
                major, minor = self.version.lstrip("v").split(".")[:2]
                about = {"gitVersion": self.version, "major": major, "minor": minor}
                return reply(dict.fromkeys(names, "sandbox") | about)
            case [("healthz" | "readyz" | "livez")]:
                return web.Response(text="ok")
            case ["apis", "authentication.k8s.io", "v1", "tokenreviews"]:
                return reply(self.auth.review(body), 201)
            case ["apis", "authorization.k8s.io", "v1", "selfsubjectaccessreviews"]:
                asked = {**(body["spec"].get("resourceAttributes") or {}), "area": "access"}
                return reply({**body, "status": {"allowed": not self.faults.take("denied", **asked)}}, 201)
            case ["api"]:
                return reply({"kind": "APIVersions", "versions": ["v1"]})
            case ["apis"]:
                versions = {res.group: res.api_version for res in RESOURCES.values() if res.group}
                pairs = {name: {"groupVersion": full, "version": full.split("/")[1]} for name, full in versions.items()}
                groups = [{"name": name, "versions": [one], "preferredVersion": one} for name, one in pairs.items()]
                return reply({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
        found = [
            {"name": res.plural + sub, "kind": res.kind, "namespaced": res.namespaced, "verbs": VERBS}
            | {"singularName": res.kind.lower(), "shortNames": [res.short]}
            for res in RESOURCES.values()
            for sub in ("", "/status")[: 1 + res.status]
            if res.api_version == "/".join(parts[1:])
        ]
        if not found:
            raise NO_SUCH_PATH
        about = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "/".join(parts[1:])}
        return reply({**about, "resources": found})

    async def _collection(
        self, request: web.Request, user: User, resource: Resource, namespace: str, body: Json
    ) -> web.StreamResponse:
        query, plural = request.query, resource.plural
        if request.method == "POST":
            if body.get("kind", resource.kind) != resource.kind:
                raise KubeError(400, "BadRequest", f"the object has kind {body['kind']}, expected {resource.kind}")
            if plural == "certificatesigningrequests":
                return reply(self.auth.request_certificate(body, user, request.headers), 201)
            return reply(self.store.create(plural, namespace, body), 201)
        chosen = selector(query.get("labelSelector", ""), query.get("fieldSelector", ""))

        def wanted(obj: Json) -> bool:
            return chosen(obj) and (not namespace or obj["metadata"]["namespace"] == namespace)

        if query.get("watch") in ("true", "1", "True"):
            return await self.watches.serve(request, plural, wanted)
        items = [obj for obj in self.store.all(plural) if wanted(obj)]
        for obj in items if request.method == "DELETE" else ():
            self.store.delete(key_of(plural, obj))
        head = {"kind": resource.kind + "List", "apiVersion": resource.api_version}
        return reply({**head, "metadata": {"resourceVersion": str(self.store.version)}, "items": items})

    def _object(self, request: web.Request, key: Key, sub: str, body: Json) -> web.Response:
        match request.method, request.content_type:
            case "GET", _:
                return reply(self.store.get(key))
            case "PUT", _:
                return reply(self.store.update(key, body, sub))
            case "PATCH", "application/apply-patch+yaml":
                status = 200 if self.store.find(*key) else 201
                return reply(self.store.apply(key, body, request.query["fieldManager"], sub), status)
            case "PATCH", ("application/merge-patch+json" | "application/strategic-merge-patch+json"):
                return reply(self.store.patch(key, body, sub))
            case "DELETE", _:
                grace = body.get("gracePeriodSeconds", request.query.get("gracePeriodSeconds"))
                obj = self.store.delete(key, body.get("preconditions"), None if grace is None else int(grace))
                return reply(obj if self.store.find(*key) or key[0] in RETURNED else SUCCESS)
        raise KubeError(415, "UnsupportedMediaType", f"no {request.method} with {request.content_type} in the sandbox")

    async def _subresource(self, request: web.Request, key: Key, sub: str, body: Json) -> web.StreamResponse:
        match key[0], sub, request.method:
            case "pods", "log", "GET":
                return await self._log(request, self.store.get(key))
            case "pods", "binding", "POST":
                self.store.bind(key, body["target"]["name"])
                return reply(SUCCESS, 201)
            case "serviceaccounts", "token", "POST":
                return reply(self.auth.request_token(key[1], key[2], body), 201)
        raise NO_SUCH_PATH

    async def _log(self, request: web.Request, pod: Json) -> web.StreamResponse:
        """Asked of the kubelet of the Pod's Node, as the real API server does."""
        meta, name = pod["metadata"], request.query.get("container") or pod["spec"]["containers"][0]["name"]
        node = self.store.find("nodes", "", pod["spec"].get("nodeName", ""))
        if node is None:
            raise KubeError(400, "BadRequest", f"pod {meta['name']} is on no Node")
        address = next(item["address"] for item in node["status"]["addresses"] if item["type"] == "InternalIP")
        port = dig(node, "status.daemonEndpoints.kubeletEndpoint.Port")
        url = f"https://{address}:{port}/containerLogs/{meta['namespace']}/{meta['name']}/{name}"
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5)
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
            raise KubeError(502, "InternalError", f"the kubelet at {address}:{port} does not answer") from error


def _target(parts: list[str]) -> tuple[Resource | None, Key, str]:
    """Resource, key and subresource of a path; no resource for what is not an object."""
    head = 2 if parts[:1] == ["api"] else 3
    rest, namespace = parts[head:], ""
    if rest[:1] == ["namespaces"] and len(rest) > 2 and rest[2] in RESOURCES:
        namespace, rest = rest[1], rest[2:]
    plural, name, sub = (*rest, "", "", "")[:3]
    resource = RESOURCES.get(plural)
    if resource is None or "/".join(parts[1:head]) != resource.api_version:
        return None, (plural, "", ""), ""
    if name and resource.namespaced != bool(namespace):
        raise NO_SUCH_PATH
    return resource, (plural, namespace, name), sub


async def _body(request: web.Request) -> Json:
    if "protobuf" in request.content_type:
        text = "the body of the request was in an unknown format - accepted media types include: application/json"
        raise KubeError(415, "UnsupportedMediaType", text)
    raw = await request.read()
    body: Json = yaml.safe_load(raw) if raw and "yaml" in request.content_type else orjson.loads(raw or b"{}")
    return body
