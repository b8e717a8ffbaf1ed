"""The HTTP face of one cluster's API: paths and verbs to the store, and the few calls that are not objects."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import orjson
import yaml
from aiohttp import web

from anycloud_sandbox.faults import ERROR_STATUS, WorldError
from anycloud_sandbox.kube import kubelet_proxy
from anycloud_sandbox.kube.auth import JOINING, User
from anycloud_sandbox.kube.resources import RESOURCES, KubeError, Resource, field_selector, label_selector
from anycloud_sandbox.kube.store import Key
from anycloud_sandbox.kube.watch import watch
from anycloud_sandbox.state import Json

if TYPE_CHECKING:
    from anycloud_sandbox.kube.cluster import Cluster

log = logging.getLogger(__name__)
JSON = {"Content-Type": "application/json"}  # exactly this: some clients parse errors of no other spelling
PATCHES = {
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "names",
    "application/apply-patch+yaml": "apply",
}
RETURNED = ("pods", "services", "serviceaccounts", "persistentvolumeclaims")  # kinds whose DELETE answers the object
_REASONS = {400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 409: "Conflict"}
_REASONS |= {429: "TooManyRequests", 503: "ServiceUnavailable"}


def reply(body: Json, status: int = 200) -> web.Response:
    return web.Response(body=orjson.dumps(body), status=status, headers=JSON)


def failure(error: KubeError) -> web.Response:
    response = reply(error.status(), error.code)
    if error.code == 429:
        response.headers["Retry-After"] = "1"
    return response


class Api:
    """One per cluster. `handle` is the only route."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._store = cluster.store
        self._reviews: dict[str, Callable[[Json], Json]] = {
            "tokenreviews": lambda body: cluster.auth.review(body),
            "selfsubjectaccessreviews": self._access_review,
        }

    async def handle(self, request: web.Request) -> web.StreamResponse:
        try:
            response = await self._guarded(request)
        except KubeError as error:
            response = failure(error)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            log.debug("malformed request %s %s", request.method, request.path, exc_info=True)
            response = failure(KubeError(400, "BadRequest", f"malformed object: {error!r}"))
        self._cluster.state.commit()
        return response

    async def _guarded(self, request: web.Request) -> web.StreamResponse:
        if request.path == "/cacerts":
            return web.Response(text=self._cluster.authority.pem, content_type="text/plain")
        parts = [part for part in request.path.split("/") if part]
        resource, namespace, name, sub = _target(parts)
        fields = {"area": "kube", "action": request.method, "cluster": self._cluster.machine_id}
        fields |= {"resource": resource.plural if resource else parts[-1:], "namespace": namespace, "name": name}
        faults = self._cluster.faults
        if faults.all and faults.holds("down", **fields):
            return _broken(request)
        try:
            lost = await faults.before(**fields)
        except WorldError as error:
            code = ERROR_STATUS[error.kind]
            raise KubeError(code, _REASONS[code], error.message) from error
        user = self._cluster.auth.user(request)
        if user is None:
            raise KubeError(401, "Unauthorized", "Unauthorized")
        response = await self._route(request, user, parts, (resource, namespace, name, sub))
        return _broken(request) if lost else response

    async def _route(
        self, request: web.Request, user: User, parts: list[str], target: tuple[Resource | None, str, str, str]
    ) -> web.StreamResponse:
        resource, namespace, name, sub = target
        joining = JOINING in user.groups
        if joining and not (resource and resource.plural == "certificatesigningrequests"):
            raise KubeError(403, "Forbidden", f'User "{user.name}" may only ask for certificates')
        if resource is None:
            return await self._no_object(request, parts)
        if request.query.get("dryRun"):
            raise KubeError(400, "BadRequest", "the sandbox has no dry run")
        if sub and sub != "status":
            return await self._subresource(request, resource, (resource.plural, namespace, name), sub)
        if not name:
            return await self._collection(request, user, resource, namespace)
        key = (resource.plural, namespace, name)
        methods: dict[str, Callable[[web.Request, Key, str], Awaitable[web.StreamResponse]]] = {
            "GET": self._get,
            "PUT": self._put,
            "PATCH": self._patch,
            "DELETE": self._delete,
        }
        if request.method not in methods:
            raise KubeError(405, "MethodNotAllowed", f"{request.method} is not allowed here")
        return await methods[request.method](request, key, sub)

    async def _no_object(self, request: web.Request, parts: list[str]) -> web.StreamResponse:
        if parts == ["version"]:
            major, minor = self._cluster.version.lstrip("v").split(".")[:2]
            about = dict.fromkeys(("buildDate", "compiler", "gitCommit", "gitTreeState", "goVersion"), "sandbox")
            about |= {"major": major, "minor": minor, "gitVersion": self._cluster.version, "platform": "linux/amd64"}
            return reply(about)
        if parts in (["healthz"], ["readyz"], ["livez"]):
            return web.Response(text="ok")
        if parts and parts[-1] in self._reviews and request.method == "POST":
            return reply(self._reviews[parts[-1]](await _body(request)), 201)
        if found := _discovery(parts):
            return reply(found)
        raise KubeError(404, "NotFound", "the server could not find the requested resource")

    def _access_review(self, body: Json) -> Json:
        asked = {name: value for name, value in body["spec"].get("resourceAttributes", {}).items() if value}
        refused = self._cluster.faults.take("denied", **{"area": "access", **asked})
        return {**body, "status": {"allowed": not refused, "reason": refused.message if refused else "sandbox"}}

    async def _collection(
        self, request: web.Request, user: User, resource: Resource, namespace: str
    ) -> web.StreamResponse:
        if request.method == "POST":
            body = await _body(request)
            if body.get("kind", resource.kind) != resource.kind:
                text = f"the object has kind {body['kind']}, expected {resource.kind}"
                raise KubeError(400, "BadRequest", text)
            if resource.plural == "certificatesigningrequests":
                return reply(self._cluster.joining.request(body, user, request.headers), 201)
            return reply(self._store.create(resource.plural, namespace, body), 201)
        labels, fields = (
            label_selector(request.query.get("labelSelector")),
            field_selector(request.query.get("fieldSelector")),
        )

        def wanted(obj: Json) -> bool:
            return labels(obj) and fields(obj) and (not namespace or obj["metadata"]["namespace"] == namespace)

        if request.method == "GET" and request.query.get("watch") in ("true", "1", "True"):
            return await watch(request, self._cluster, resource.plural, wanted)
        items = [obj for obj in self._store.list(resource.plural) if wanted(obj)]
        if request.method == "DELETE":
            for obj in items:
                self._store.delete((resource.plural, obj["metadata"].get("namespace", ""), obj["metadata"]["name"]))
        elif request.method != "GET":
            raise KubeError(405, "MethodNotAllowed", f"{request.method} is not allowed here")
        head = {"kind": resource.kind + "List", "apiVersion": resource.api_version}
        return reply({**head, "metadata": {"resourceVersion": str(self._store.version)}, "items": items})

    async def _get(self, request: web.Request, key: Key, sub: str) -> web.StreamResponse:
        return reply(self._store.get(key))

    async def _put(self, request: web.Request, key: Key, sub: str) -> web.StreamResponse:
        return reply(self._store.update(key, await _body(request), sub))

    async def _patch(self, request: web.Request, key: Key, sub: str) -> web.StreamResponse:
        kind = PATCHES.get(request.content_type)
        if kind is None:
            accepted = ", ".join(PATCHES)
            raise KubeError(415, "UnsupportedMediaType", f"the sandbox takes patches of the types {accepted}")
        body = await _body(request)
        if kind == "apply":
            manager = request.query.get("fieldManager")
            if not manager:
                raise KubeError(400, "BadRequest", "fieldManager is required for apply patch")
            obj, created = self._store.apply(key, body, manager, sub)
            return reply(obj, 201 if created else 200)
        return reply(self._store.patch(key, body, sub, by_name=kind == "names"))

    async def _delete(self, request: web.Request, key: Key, sub: str) -> web.StreamResponse:
        options = await _body(request) if request.can_read_body else {}
        wanted = options.get("preconditions") or {}
        grace = options.get("gracePeriodSeconds", request.query.get("gracePeriodSeconds"))
        obj = self._store.delete(
            key, wanted.get("uid"), wanted.get("resourceVersion"), None if grace is None else int(grace)
        )
        if self._store.find(*key) or key[0] in RETURNED:
            return reply(obj)
        details = {"name": key[2], "kind": key[0], "uid": obj["metadata"]["uid"]}
        return reply({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})

    async def _subresource(self, request: web.Request, resource: Resource, key: Key, sub: str) -> web.StreamResponse:
        match (resource.plural, sub, request.method):
            case ("pods", "log", "GET"):
                return await kubelet_proxy.logs(request, self._cluster, self._store.get(key))
            case ("pods", "binding", "POST"):
                self._store.bind(key, (await _body(request))["target"]["name"])
                head = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
                return reply(head, 201)
            case ("serviceaccounts", "token", "POST"):
                return reply(self._cluster.auth.request_token(key[1], key[2], await _body(request)), 201)
        raise KubeError(404, "NotFound", "the server could not find the requested resource")


def _target(parts: list[str]) -> tuple[Resource | None, str, str, str]:
    """Resource, namespace, name and subresource of a path; no resource for what is not an object."""
    if parts[:1] == ["api"]:
        group, rest = "", parts[2:]
    elif parts[:1] == ["apis"]:
        group, rest = parts[1] if len(parts) > 1 else "", parts[3:]
    else:
        return None, "", "", ""
    namespace = ""
    if rest[:1] == ["namespaces"] and len(rest) > 2 and rest[2] in RESOURCES:
        namespace, rest = rest[1], rest[2:]
    plural, name, sub = (*rest, "", "", "")[:3]
    resource = RESOURCES.get(plural)
    if resource is None or resource.group != group:
        return None, "", "", ""
    if name and resource.namespaced and not namespace:
        raise KubeError(404, "NotFound", "the server could not find the requested resource")
    return resource, namespace, name, sub


async def _body(request: web.Request) -> Json:
    raw = await request.read()
    if "protobuf" in request.content_type:
        text = "the body of the request was in an unknown format - accepted media types include: application/json"
        raise KubeError(415, "UnsupportedMediaType", text)
    try:
        body = yaml.safe_load(raw) if raw and "yaml" in request.content_type else orjson.loads(raw or b"{}")
    except (ValueError, yaml.YAMLError) as error:
        raise KubeError(400, "BadRequest", f"the body can't be read: {error}") from error
    if not isinstance(body, dict):
        raise KubeError(400, "BadRequest", "the body is not an object")
    return body


def _broken(request: web.Request) -> web.StreamResponse:
    if request.transport:
        request.transport.abort()
    return web.Response(status=503)


def _discovery(parts: list[str]) -> Json | None:
    groups = sorted({(res.group, res.version) for res in RESOURCES.values() if res.group})
    groups += [("authentication.k8s.io", "v1"), ("authorization.k8s.io", "v1")]
    if parts == ["api"]:
        return {"kind": "APIVersions", "versions": ["v1"]}
    if parts == ["apis"]:
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(*group) for group in groups]}
    if len(parts) == 2 and parts[0] == "apis":
        found = [_group(*group) for group in groups if group[0] == parts[1]]
        return {"kind": "APIGroup", "apiVersion": "v1", **found[0]} if found else None
    group = "" if parts[0:1] == ["api"] else parts[1] if len(parts) == 3 else None
    if group is None or (group, parts[-1]) not in [("", "v1"), *groups]:
        return None
    resources: list[Json] = []
    for resource in RESOURCES.values():
        if resource.group == group:
            about = {"kind": resource.kind, "namespaced": resource.namespaced, "singularName": resource.kind.lower()}
            verbs = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
            resources.append({"name": resource.plural, **about, "verbs": verbs})
            if resource.status:
                resources.append({"name": resource.plural + "/status", **about, "verbs": ["get", "patch", "update"]})
    version = f"{group}/{parts[-1]}" if group else parts[-1]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": resources}


def _group(name: str, version: str) -> Json:
    about = {"groupVersion": f"{name}/{version}", "version": version}
    return {"name": name, "versions": [about], "preferredVersion": about}
