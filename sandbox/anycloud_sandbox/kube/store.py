"""The objects of one cluster: versions, identity, ownership, and the log that watches are fed from.

An object is never changed in place: each write puts a new dict, so that readers and watches may hold what they got.
"""

from __future__ import annotations

import secrets
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson

from anycloud_sandbox.kube.admission import admit, check_name
from anycloud_sandbox.kube.resources import (
    IMMUTABLE,
    RESOURCES,
    KubeError,
    Resource,
    conflict,
    dig,
    invalid,
    merge,
    not_found,
    prune,
    timestamp,
)
from anycloud_sandbox.state import Json, State

Key = tuple[str, str, str]  # plural, namespace ("" for a cluster's own), name
HISTORY = 10_000  # events that a watch may be behind


@dataclass
class Event:
    version: int
    type: str  # ADDED, MODIFIED, DELETED
    key: Key
    object: Json
    before: Json | None
    lines: dict[str, bytes] = field(default_factory=dict)

    def line(self, kind: str) -> bytes:
        """The watch line, made once for all watches."""
        if kind not in self.lines:
            self.lines[kind] = orjson.dumps({"type": kind, "object": self.object}) + b"\n"
        return self.lines[kind]


class Store:
    def __init__(self, state: State, space: str) -> None:
        self._state, self._space = state, space
        self.objects: dict[str, dict[tuple[str, str], Json]] = {plural: {} for plural in RESOURCES}
        self.by_uid: dict[str, Key] = {}
        self.dependents: dict[str, set[Key]] = {}  # owner UID -> what it owns
        self.content: dict[str, set[Key]] = {}  # namespace -> what is in it
        self._applied: dict[Key, dict[str, Json]] = {}  # manager -> the fields it applied last
        self.log: deque[Event] = deque(maxlen=HISTORY)
        self.listeners: list[Callable[[Event], None]] = []  # at once, in the writer's turn
        self.followers: list[Callable[[Event], None]] = []  # after the commit
        self._untold: list[Event] = []
        self.version = int(state.load(space + "/meta").get("version", {}).get("value", 1))
        for text, document in state.load(space).items():
            plural, namespace, name = text.split("/", 2)
            self._index((plural, namespace, name), document["object"], None)
            self._applied[(plural, namespace, name)] = document["applied"]

    def find(self, plural: str, namespace: str, name: str) -> Json | None:
        return self.objects[plural].get((namespace, name))

    def get(self, key: Key) -> Json:
        obj = self.find(*key)
        if obj is None:
            raise not_found(RESOURCES[key[0]], key[2])
        return obj

    def list(self, plural: str, namespace: str | None = None) -> Iterator[Json]:
        items = self.objects[plural]
        if namespace:
            return iter([obj for (ns, _), obj in items.items() if ns == namespace])
        return iter(list(items.values()))

    def create(self, plural: str, namespace: str, body: Json) -> Json:
        resource = RESOURCES[plural]
        meta = dict(body.get("metadata") or {})
        if not meta.get("name") and meta.get("generateName"):
            meta["name"] = meta["generateName"] + secrets.token_hex(3)[:5]
        key = (plural, namespace, check_name(resource, meta.get("name")))
        if self.find(*key):
            details = {"name": key[2], "group": resource.group, "kind": plural}
            raise KubeError(409, "AlreadyExists", f'{resource.qualified} "{key[2]}" already exists', details)
        if namespace:
            self._check_namespace(namespace)
            meta["namespace"] = namespace
        for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "managedFields"):
            meta.pop(name, None)
        meta.update(uid=str(uuid.uuid4()), creationTimestamp=timestamp(time.time()), generation=1)
        kept = {name: value for name, value in body.items() if name != "status" or plural == "nodes"}
        obj = {**kept, "apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta}
        obj = admit(self, resource, obj)
        return self._write(key, obj, "ADDED")

    def _check_namespace(self, namespace: str) -> None:
        found = self.get(("namespaces", "", namespace))
        if found["metadata"].get("deletionTimestamp"):
            text = f"unable to create new content in namespace {namespace} because it is being terminated"
            raise KubeError(403, "Forbidden", text, {"causes": [{"reason": "NamespaceTerminating", "message": text}]})

    def update(self, key: Key, new: Json, subresource: str | None = None) -> Json:
        """Replaces an object, or only its status; checks resourceVersion and UID where the new one names them."""
        resource, old = RESOURCES[key[0]], self.get(key)
        old_meta, new_meta = old["metadata"], new.get("metadata") or {}
        if new_meta.get("resourceVersion") not in (None, "", old_meta["resourceVersion"]):
            why = "the object has been modified; please apply your changes to the latest version and try again"
            raise conflict(resource, key[2], why)
        if new_meta.get("uid") not in (None, "", old_meta["uid"]):
            raise conflict(resource, key[2], f"uid {new_meta['uid']} does not match {old_meta['uid']}")
        if subresource == "status":
            obj = {**old, "status": new.get("status") or {}}
        else:
            obj = self._replaced(resource, old, new)
        if obj == old:
            return old
        obj = self._write(key, obj, "MODIFIED")
        deleting = obj["metadata"].get("deletionTimestamp")
        if deleting and not obj["metadata"].get("finalizers") and old_meta.get("finalizers"):
            self.remove(key)
        return obj

    def _replaced(self, resource: Resource, old: Json, new: Json) -> Json:
        meta = {name: value for name, value in (new.get("metadata") or {}).items() if name != "managedFields"}
        fixed = ("uid", "name", "namespace", "creationTimestamp", "generation", "resourceVersion")
        for name in (*fixed, "deletionTimestamp", "deletionGracePeriodSeconds"):
            meta.pop(name, None)
            if name in old["metadata"]:
                meta[name] = old["metadata"][name]
        obj = {**new, "apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta}
        if resource.status:
            obj.pop("status", None)
            if "status" in old:
                obj["status"] = old["status"]
        if obj.get("spec") != old.get("spec"):
            meta["generation"] = old["metadata"]["generation"] + 1
        for path in IMMUTABLE.get(resource.plural, []):
            if dig(obj, path) != dig(old, path):
                raise invalid(resource, meta["name"], f"{path}: Invalid value: field is immutable")
        if resource.plural == "pods" and _pod_identity(obj) != _pod_identity(old):
            raise invalid(resource, meta["name"], "spec: Forbidden: pod updates may not change fields other than image")
        return obj

    def patch(self, key: Key, patch: Json, subresource: str | None, by_name: bool = False) -> Json:
        return self.update(key, merge(self.get(key), patch, by_name), subresource)

    def apply(self, key: Key, body: Json, manager: str, subresource: str | None) -> tuple[Json, bool]:
        """Server-side apply as if nobody else owned a field: the manager's last fields are replaced by these."""
        meta, old = body.get("metadata") or {}, self.find(*key)
        if old is None:
            if meta.get("uid"):
                raise conflict(RESOURCES[key[0]], key[2], f"no object has the uid {meta['uid']}")
            obj = self.create(key[0], key[1], {**body, "metadata": {**meta, "name": key[2]}})
        else:
            last = self._applied.get(key, {}).get(manager, {})
            obj = self.update(key, merge(prune(old, last, body), body), subresource)
        fields = {name: value for name, value in body.items() if name not in ("apiVersion", "kind")}
        if self._applied.get(key, {}).get(manager) != fields:
            self._applied[key] = {**self._applied.get(key, {}), manager: fields}
            self._save(key)
        return obj, old is None

    def bind(self, key: Key, node: str) -> Json:
        pod = self.get(key)
        if pod["spec"].get("nodeName"):
            raise conflict(RESOURCES["pods"], key[2], f"pod {key[2]} is already assigned to {pod['spec']['nodeName']}")
        condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": timestamp(time.time())}
        status = {**pod["status"], "conditions": [condition]}
        return self._write(key, {**pod, "spec": {**pod["spec"], "nodeName": node}, "status": status}, "MODIFIED")

    def delete(self, key: Key, uid: str | None = None, version: str | None = None, grace: int | None = None) -> Json:
        """Removes an object, or marks it: a namespace with content, a Pod that a Node still runs, a finalizer."""
        obj = self.get(key)
        meta = obj["metadata"]
        for name, wanted in (("uid", uid), ("resourceVersion", version)):
            if wanted and wanted != meta[name]:
                raise conflict(RESOURCES[key[0]], key[2], f"Precondition failed: {name} {wanted} is not {meta[name]}")
        if key[0] == "namespaces":
            return self._end_namespace(key, obj)
        seconds = _grace(obj, grace) if key[0] == "pods" else 0
        if seconds or meta.get("finalizers"):
            if "deletionTimestamp" in meta and meta.get("deletionGracePeriodSeconds", 0) <= seconds:
                return obj
            due = {"deletionTimestamp": timestamp(time.time() + seconds), "deletionGracePeriodSeconds": seconds}
            return self._write(key, {**obj, "metadata": {**meta, **due}}, "MODIFIED")
        return self.remove(key)

    def _end_namespace(self, key: Key, obj: Json) -> Json:
        if "deletionTimestamp" not in obj["metadata"]:
            meta = {**obj["metadata"], "deletionTimestamp": timestamp(time.time())}
            obj = self._write(key, {**obj, "metadata": meta, "status": {"phase": "Terminating"}}, "MODIFIED")
        for inside in list(self.content.get(key[2], ())):
            if self.find(*inside):
                self.delete(inside)
        self._sweep_namespace(key[2])
        return obj

    def _sweep_namespace(self, name: str) -> None:
        namespace = self.find("namespaces", "", name)
        if namespace and "deletionTimestamp" in namespace["metadata"] and not self.content.get(name):
            self.remove(("namespaces", "", name))

    def remove(self, key: Key) -> Json:
        """Takes the object away at once, and what only it owned with it."""
        obj = self._write(key, self.get(key), "DELETED")
        for child in list(self.dependents.get(obj["metadata"]["uid"], ())):
            found = self.find(*child)
            if found is None:
                continue
            owners = [ref for ref in found["metadata"]["ownerReferences"] if ref["uid"] in self.by_uid]
            if owners:
                self.update(child, merge(found, {"metadata": {"ownerReferences": owners}}))
            else:
                self.delete(child)
        self.dependents.pop(obj["metadata"]["uid"], None)
        if key[1]:
            self._sweep_namespace(key[1])
        return obj

    def _write(self, key: Key, obj: Json, kind: str) -> Json:
        before = self.find(*key)
        self.version += 1
        obj = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.version)}}
        self._index(key, None if kind == "DELETED" else obj, before)
        if kind == "DELETED":
            self._applied.pop(key, None)
        self._save(key)
        event = Event(self.version, kind, key, obj, before)
        self.log.append(event)
        if not self._untold:
            self._state.after_commit(self._tell)
        self._untold.append(event)
        for listener in self.listeners:
            listener(event)
        return obj

    def _save(self, key: Key) -> None:
        obj = self.find(*key)
        document = {"object": obj, "applied": self._applied.get(key, {})} if obj else None
        self._state.put(self._space, "/".join(key), document)
        self._state.put(self._space + "/meta", "version", {"value": self.version})

    def _index(self, key: Key, obj: Json | None, before: Json | None) -> None:
        for ref in (before or {}).get("metadata", {}).get("ownerReferences") or []:
            self.dependents.get(ref["uid"], set()).discard(key)
        if obj is None:
            assert before is not None
            del self.objects[key[0]][key[1:]]
            del self.by_uid[before["metadata"]["uid"]]
            self.content.get(key[1], set()).discard(key)
            return
        self.objects[key[0]][key[1:]] = obj
        self.by_uid[obj["metadata"]["uid"]] = key
        if key[1]:
            self.content.setdefault(key[1], set()).add(key)
        for ref in obj["metadata"].get("ownerReferences") or []:
            self.dependents.setdefault(ref["uid"], set()).add(key)

    def _tell(self) -> None:
        events, self._untold = self._untold, []
        for event in events:
            for follower in list(self.followers):
                follower(event)


def _grace(pod: Json, asked: int | None) -> int:
    """Seconds that a Pod gets; none when no kubelet has it, or when its containers have ended."""
    if not pod["spec"].get("nodeName") or dig(pod, "status.phase") in ("Succeeded", "Failed"):
        return 0
    return int(asked if asked is not None else pod["spec"].get("terminationGracePeriodSeconds", 30))


def _pod_identity(pod: Json) -> Any:
    spec: Json = {k: v for k, v in pod["spec"].items() if k not in ("activeDeadlineSeconds", "tolerations")}
    spec["containers"] = [{k: v for k, v in item.items() if k != "image"} for item in spec["containers"]]
    return spec
