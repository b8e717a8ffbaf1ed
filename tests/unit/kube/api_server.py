"""A small Kubernetes API server for tests of the client: objects, field owners, watches that can be cut, faults."""

from __future__ import annotations

import asyncio
import copy
import itertools
import json
import re
from typing import Any, NamedTuple

from aiohttp import web

Object = dict[str, Any]

_PATH = re.compile(
    r"^(?P<prefix>/api/v1|/apis/[^/]+/[^/]+)(/namespaces/(?P<ns>[^/]+)(?=/[^/]+))?/(?P<plural>[^/]+)"
    r"(/(?P<name>[^/]+)(/(?P<sub>[^/]+))?)?$"
)


class Seen(NamedTuple):
    """One request as it came."""

    method: str
    path: str
    query: dict[str, str]
    content_type: str
    token: str
    body: Any


class Refusal(Exception):
    def __init__(self, status: int, reason: str, message: str = "refused", **details: Any) -> None:
        super().__init__(message)
        self.status = status
        self.answer = {"kind": "Status", "status": "Failure", "code": status, "reason": reason}
        self.answer |= {"message": message, "details": details}


class Fault(NamedTuple):
    """What to do with the next request that matches: refuse it, or do the work and lose the answer, or hang."""

    method: str
    path: str
    effect: Refusal | str  # "lose" and "hang"


class ApiServer:
    """State and controls; `app` serves it."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.faults: list[Fault] = []
        self.objects: dict[tuple[str, str, str, str], Object] = {}  # prefix, plural, namespace, name
        self.history: list[tuple[int, str, tuple[str, str, str, str], Object]] = []
        self.oldest = 0
        self.logs: dict[str, list[bytes]] = {}
        self.token_status: Object = {"authenticated": False}
        self.denied: set[tuple[str, str]] = set()
        self.git_version = "v1.36.5+k3s1"
        self.reviews_at_once = self._reviews_now = 0
        self.opened = 0
        self.peers: set[object] = set()  # the other end of each connection
        self._versions = itertools.count(1)
        self._uids = itertools.count(1)
        self._changed = asyncio.Condition()
        self._cut = 0
        self._end = 0
        self._conflict_patches = 0
        self.app = web.Application()
        self.app.router.add_route("*", "/{rest:.*}", self._handle)

    # Controls

    def put(self, plural: str, obj: Object, prefix: str = "/api/v1") -> Object:
        """Stores an object as if somebody else had written it."""
        metadata = obj["metadata"]
        key = (prefix, plural, metadata.get("namespace", ""), metadata["name"])
        before = self.objects.get(key)
        metadata.setdefault("uid", before["metadata"]["uid"] if before else f"uid-{next(self._uids)}")
        self._store(key, obj, "MODIFIED" if before else "ADDED")
        return obj

    def remove(self, plural: str, name: str, ns: str = "", prefix: str = "/api/v1") -> None:
        key = (prefix, plural, ns, name)
        obj = copy.deepcopy(self.objects[key])
        del self.objects[key]
        self._store(key, obj, "DELETED")

    def compact(self) -> None:
        """Forgets all history: a watch from an older version gets 410."""
        self.oldest = self.version
        self.history.clear()

    @property
    def version(self) -> int:
        return max((int(obj["metadata"]["resourceVersion"]) for *_, obj in self.history), default=self.oldest)

    async def cut_watches(self) -> None:
        """Breaks the connections of all watches."""
        self._cut += 1
        await self._wake()

    async def end_watches(self) -> None:
        """Ends all watches properly, as a server does after their timeout."""
        self._end += 1
        await self._wake()

    async def watching(self, count: int = 1) -> None:
        """Returns once that many watches have been opened, those that ended meanwhile included."""
        async with asyncio.timeout(5), self._changed:
            await self._changed.wait_for(lambda: self.opened >= count)

    def conflict_next_field_patches(self, times: int) -> None:
        """The next JSON patches find that the object changed meanwhile."""
        self._conflict_patches = times

    # Requests

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        self.peers.add(request.transport.get_extra_info("peername"))
        body = await request.json(loads=json.loads) if request.can_read_body else None
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        self.seen.append(
            Seen(request.method, request.path, dict(request.query), request.content_type, token, copy.deepcopy(body))
        )
        fault = next((f for f in self.faults if f.method == request.method and f.path in request.path), None)
        if fault:
            self.faults.remove(fault)
        try:
            if fault and isinstance(fault.effect, Refusal):
                raise fault.effect
            if fault and fault.effect == "hang":
                await asyncio.sleep(30)
            response = await self._route(request, body)
        except Refusal as refusal:
            return web.json_response(refusal.answer, status=refusal.status)
        if fault and fault.effect == "lose":
            assert request.transport is not None
            request.transport.abort()
        return response

    async def _route(self, request: web.Request, body: Any) -> web.StreamResponse:
        if request.path == "/version":
            return web.json_response({"gitVersion": self.git_version})
        match = _PATH.match(request.path)
        if not match:
            raise Refusal(404, "NotFound")
        key = (match["prefix"], match["plural"], match["ns"] or "", match["name"] or "")
        if match["plural"].endswith("reviews"):
            return web.json_response({**body, "status": await self._review(match["plural"], body)}, status=201)
        if match["sub"] == "log":
            return await self._log(request, match["name"])
        if not match["name"]:
            if request.method == "POST":
                return web.json_response(self._create(key, body, request.query["fieldManager"]), status=201)
            return await (self._watch(request, key) if request.query.get("watch") else self._list(request, key))
        return web.json_response(self._one(request, key, body))

    def _one(self, request: web.Request, key: tuple[str, str, str, str], body: Any) -> Object:
        current = self.objects.get(key)
        if current is None and not (request.method == "PATCH" and "apply" in request.content_type):
            raise Refusal(404, "NotFound", f"{key[1]} {key[3]!r} not found")
        if request.method == "GET":
            assert current
            return current
        if request.method == "DELETE":
            return self._delete(key, body)
        if "apply" in request.content_type:
            return self._apply(key, body, request.query["fieldManager"])
        assert current
        if "json-patch" in request.content_type:
            return self._json_patch(key, body)
        _same_uid(current, body)
        return self._store(key, _merged(current, body), "MODIFIED")

    def _create(self, key: tuple[str, str, str, str], body: Object, manager: str) -> Object:
        key = (*key[:3], body["metadata"]["name"])
        if key in self.objects:
            raise Refusal(409, "AlreadyExists", f"{key[1]} {key[3]!r} already exists")
        obj = copy.deepcopy(body)
        obj["metadata"] |= {"uid": f"uid-{next(self._uids)}"}
        obj["metadata"]["managedFields"] = [{"manager": manager, "operation": "Update", "fieldsV1": _tree(body)}]
        return self._store(key, obj, "ADDED")

    def _apply(self, key: tuple[str, str, str, str], body: Object, manager: str) -> Object:
        current = self.objects.get(key)
        if current is None:
            raise Refusal(409, "Conflict", "uid mismatch: no existing object was found")
        _same_uid(current, body)
        entries = current["metadata"].get("managedFields", [])
        mine = next((e for e in entries if (e["manager"], e["operation"]) == (manager, "Apply")), None)
        others = [entry for entry in entries if entry is not mine]
        owned = _tree(body)
        obj = _merged(current, {k: v for k, v in body.items() if k != "metadata"})
        for path in _paths(mine["fieldsV1"]) if mine else ():
            if path not in _paths(owned) and not any(path in _paths(entry["fieldsV1"]) for entry in others):
                _drop(obj, path)
        obj["metadata"] = {**obj["metadata"], **{k: body["metadata"][k] for k in ("labels",) if k in body["metadata"]}}
        obj["metadata"]["managedFields"] = [*others, {"manager": manager, "operation": "Apply", "fieldsV1": owned}]
        return self._store(key, obj, "MODIFIED")

    def _json_patch(self, key: tuple[str, str, str, str], operations: list[Object]) -> Object:
        obj = copy.deepcopy(self.objects[key])
        if self._conflict_patches:
            self._conflict_patches -= 1
            raise Refusal(409, "Conflict", "the object has been modified")
        for operation in operations:
            field = operation["path"].removeprefix("/metadata/")
            if field != "managedFields" and obj["metadata"][field] != operation["value"]:
                raise Refusal(409, "Conflict", "the object has been modified")
            obj["metadata"][field] = operation["value"]
        return self._store(key, obj, "MODIFIED")

    def _delete(self, key: tuple[str, str, str, str], options: Object) -> Object:
        obj = copy.deepcopy(self.objects[key])
        wanted = options["preconditions"]["uid"]
        if obj["metadata"]["uid"] != wanted:
            raise Refusal(409, "Conflict", f"Precondition failed: UID in precondition: {wanted}")
        if obj["metadata"].get("finalizers"):
            obj["metadata"]["deletionTimestamp"] = "2026-10-01T00:00:00Z"
            return self._store(key, obj, "MODIFIED")
        del self.objects[key]
        return self._store(key, obj, "DELETED")

    def _store(self, key: tuple[str, str, str, str], obj: Object, event: str) -> Object:
        version = next(self._versions)
        obj["metadata"]["resourceVersion"] = str(version)
        if event != "DELETED":
            self.objects[key] = obj
        self.history.append((version, event, key, copy.deepcopy(obj)))
        asyncio.get_running_loop().create_task(self._wake())
        return obj

    async def _wake(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _review(self, plural: str, body: Object) -> Object:
        if plural == "tokenreviews":
            return self.token_status
        self._reviews_now += 1
        self.reviews_at_once = max(self.reviews_at_once, self._reviews_now)
        await asyncio.sleep(0.005)
        self._reviews_now -= 1
        attributes = body["spec"]["resourceAttributes"]
        return {"allowed": (attributes["verb"], attributes["resource"]) not in self.denied}

    async def _log(self, request: web.Request, pod: str) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for line in self.logs[pod]:
            await response.write(line)
        return response

    async def _list(self, request: web.Request, key: tuple[str, str, str, str]) -> web.StreamResponse:
        found = [obj for k, obj in sorted(self.objects.items()) if _selected(request, key, k, obj)]
        limit = int(request.query.get("limit", 0)) or len(found)
        start = int(request.query.get("continue", 0))
        metadata = {"resourceVersion": str(self.version)}
        if start + limit < len(found):
            metadata["continue"] = str(start + limit)
        return web.json_response({"items": found[start : start + limit], "metadata": metadata})

    async def _watch(self, request: web.Request, key: tuple[str, str, str, str]) -> web.StreamResponse:
        since = int(request.query["resourceVersion"])
        response = web.StreamResponse()
        await response.prepare(request)
        if since < self.oldest:
            status = Refusal(410, "Expired", "too old resource version").answer
            await response.write(json.dumps({"type": "ERROR", "object": status}).encode() + b"\n")
            return response
        cut, end = self._cut, self._end
        self.opened += 1
        await self._wake()
        while (cut, end) == (self._cut, self._end):
            since = await self._send(response, request, key, since)
            async with self._changed:
                await self._changed.wait_for(
                    lambda: (cut, end) != (self._cut, self._end) or self.version > since  # noqa: B023
                )
        if cut != self._cut and request.transport is not None:
            request.transport.abort()
        return response

    async def _send(
        self, response: web.StreamResponse, request: web.Request, key: tuple[str, str, str, str], since: int
    ) -> int:
        for version, event, changed, obj in list(self.history):
            if version > since and _selected(request, key, changed, obj):
                await response.write(json.dumps({"type": event, "object": obj}).encode() + b"\n")
        bookmark = {"kind": "Bookmark", "metadata": {"resourceVersion": str(self.version)}}
        await response.write(json.dumps({"type": "BOOKMARK", "object": bookmark}).encode() + b"\n")
        return self.version


def _selected(
    request: web.Request, key: tuple[str, str, str, str], other: tuple[str, str, str, str], obj: Object
) -> bool:
    if other[:2] != key[:2] or key[2] not in ("", other[2]):
        return False
    labels = obj["metadata"].get("labels", {})
    selector = request.query.get("labelSelector", "")
    return all(labels.get(k) == v for k, _, v in (part.partition("=") for part in selector.split(",") if part))


def _same_uid(current: Object, body: Object) -> None:
    if body["metadata"]["uid"] != current["metadata"]["uid"]:
        raise Refusal(422, "Invalid", "field is immutable", causes=[{"field": "metadata.uid"}])


def _merged(one: Any, change: Any) -> Any:
    if not isinstance(change, dict):
        return copy.deepcopy(change)
    base = dict(one) if isinstance(one, dict) else {}
    for name, value in change.items():
        if value is None:
            base.pop(name, None)
        else:
            base[name] = _merged(base.get(name), value)
    return base


def _tree(value: Any) -> Object:
    """fieldsV1 of a body: dicts by field, everything else is a leaf."""
    skipped = ("apiVersion", "kind", "metadata")

    def walk(value: Any) -> Object:
        return {f"f:{name}": walk(below) for name, below in value.items()} if isinstance(value, dict) else {}

    return walk({k: v for k, v in value.items() if k not in skipped})


def _paths(tree: Object, front: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    found: set[tuple[str, ...]] = set()
    for name, below in tree.items():
        path = (*front, name.removeprefix("f:"))
        found |= _paths(below, path) if below else {path}
    return found


def _drop(obj: Object, path: tuple[str, ...]) -> None:
    for name in path[:-1]:
        obj = obj.get(name, {})
    obj.pop(path[-1], None)
