"""The objects of one cluster: versions, identity, ownership, and the log that watches are fed from.

An object is never changed in place: each write puts a new dict, so that readers and watches may hold what they got.
"""

import secrets
import time
import uuid
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass

from anycloud_sandbox.kube.admission import Key, admit, check_change, check_name
from anycloud_sandbox.kube.objects import RESOURCES, KubeError, merge, problem, prune, timestamp
from anycloud_sandbox.state import Json, State

HISTORY = 10_000  # events that a watch may be behind
KEPT = (
    "uid",
    "name",
    "namespace",
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)


def key_of(plural: str, obj: Json) -> Key:
    return plural, obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


@dataclass
class Event:
    version: int
    type: str  # ADDED, MODIFIED, DELETED
    key: Key
    object: Json
    before: Json | None


class Store:
    """`listeners` hear of a change in the writer's turn, `followers` after its commit."""

    def __init__(self, state: State, space: str) -> None:
        self._state, self._space = state, space
        self.objects: dict[str, dict[tuple[str, str], Json]] = {plural: {} for plural in RESOURCES}
        self.by_uid: dict[str, Key] = {}
        self.owned: defaultdict[str, set[Key]] = defaultdict(set)  # by the owner's UID
        self.content: defaultdict[str, set[Key]] = defaultdict(set)  # by namespace
        self.log: deque[Event] = deque(maxlen=HISTORY)
        self.listeners: list[Callable[[Event], None]] = []
        self.followers: list[Callable[[Event], None]] = []
        self._untold: list[Event] = []
        self._applied: defaultdict[Key, Json] = defaultdict(dict)  # by manager: the fields that it applied last
        self.version = int(state.load(space + "/meta").get("version", {}).get("value", 1))
        for text, document in state.load(space).items():
            plural, namespace, name = text.split("/", 2)
            self._index((plural, namespace, name), document["object"], None)
            self._applied[plural, namespace, name] = document["applied"]

    def find(self, plural: str, namespace: str, name: str) -> Json | None:
        return self.objects[plural].get((namespace, name))

    def get(self, key: Key) -> Json:
        if found := self.find(*key):
            return found
        raise problem(404, "NotFound", key, "not found")

    def all(self, plural: str) -> list[Json]:
        return list(self.objects[plural].values())

    def owned_by(self, owner: Json, plural: str) -> list[Json]:
        return [self.get(key) for key in sorted(self.owned[owner["metadata"]["uid"]]) if key[0] == plural]

    def create(self, plural: str, namespace: str, body: Json) -> Json:
        resource, meta = RESOURCES[plural], body.get("metadata") or {}
        key = (plural, namespace, meta.get("name") or meta.get("generateName", "") + secrets.token_hex(3)[:5])
        check_name(key)
        if self.find(*key):
            raise problem(409, "AlreadyExists", key, "already exists")
        if namespace and "deletionTimestamp" in self.get(("namespaces", "", namespace))["metadata"]:
            text = f"unable to create new content in namespace {namespace} because it is being terminated"
            raise KubeError(403, "Forbidden", text, causes=[{"reason": "NamespaceTerminating", "message": text}])
        meta = {name: value for name, value in meta.items() if name not in (*KEPT, "managedFields")}
        meta |= {"name": key[2], "uid": str(uuid.uuid4()), "creationTimestamp": timestamp(time.time()), "generation": 1}
        meta |= {"namespace": namespace} if namespace else {}
        obj = {**body, "apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta}
        if resource.status and plural != "nodes":
            obj["status"] = {}
        return self._write(key, admit(self.find, key, obj), "ADDED")

    def update(self, key: Key, new: Json, subresource: str = "") -> Json:
        """Replaces an object, or only its status; checks resourceVersion and UID where the new one names them."""
        resource, old, meta = RESOURCES[key[0]], self.get(key), new["metadata"]
        for name in ("resourceVersion", "uid"):
            if meta.get(name) not in (None, "", old["metadata"][name]):
                raise problem(409, "Conflict", key, f"has been modified: its {name} is {old['metadata'][name]}")
        if subresource:
            obj = old | {"status": new.get("status") or {}}
        else:
            kept = {name: old["metadata"][name] for name in (*KEPT, "resourceVersion") if name in old["metadata"]}
            meta = {name: value for name, value in meta.items() if name not in (*KEPT, "managedFields")} | kept
            meta["generation"] += new.get("spec") != old.get("spec")
            head = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta}
            obj = new | head | ({"status": old.get("status", {})} if resource.status else {})
            check_change(key, old, obj)
        if obj == old:
            return old
        obj = self._write(key, obj, "MODIFIED")
        if "deletionTimestamp" in meta and old["metadata"].get("finalizers") and not meta.get("finalizers"):
            self.remove(key)
        return obj

    def patch(self, key: Key, patch: Json, subresource: str = "") -> Json:
        return self.update(key, merge(self.get(key), patch), subresource)

    def apply(self, key: Key, body: Json, manager: str, subresource: str = "") -> Json:
        """Server-side apply as if nobody else owned a field: the manager's last fields are replaced by these."""
        if old := self.find(*key):
            last = self._applied[key].get(manager, {})
            obj = self.update(key, merge(prune(old, last, body), body), subresource)
        elif body["metadata"].get("uid"):
            raise problem(409, "Conflict", key, f"does not exist with uid {body['metadata']['uid']}")
        else:
            obj = self.create(key[0], key[1], merge(body, {"metadata": {"name": key[2]}}))
        self._applied[key][manager] = {k: v for k, v in body.items() if k not in ("apiVersion", "kind")}
        self._save(key)
        return obj

    def bind(self, key: Key, node: str) -> Json:
        pod = self.get(key)
        if pod["spec"].get("nodeName"):
            raise problem(409, "Conflict", key, f"is already assigned to node {pod['spec']['nodeName']}")
        status = {"conditions": [{"type": "PodScheduled", "status": "True"}]}
        return self._write(key, merge(pod, {"spec": {"nodeName": node}, "status": status}), "MODIFIED")

    def delete(self, key: Key, preconditions: Json | None = None, grace: int | None = None) -> Json:
        """Removes an object, or marks it: a namespace with content, a Pod that a Node still runs, a finalizer."""
        obj, seconds = self.get(key), 0
        meta = obj["metadata"]
        for name, wanted in (preconditions or {}).items():
            if wanted != meta[name]:
                raise problem(409, "Conflict", key, f"precondition failed: {name} is {meta[name]}, not {wanted}")
        if key[0] == "pods" and obj["spec"].get("nodeName") and obj["status"]["phase"] not in ("Succeeded", "Failed"):
            seconds = obj["spec"]["terminationGracePeriodSeconds"] if grace is None else grace
        inside = list(self.content[key[2]]) if key[0] == "namespaces" else []
        if not (seconds or inside or meta.get("finalizers")):
            return self.remove(key)
        if "deletionTimestamp" not in meta or meta["deletionGracePeriodSeconds"] > seconds:
            due = {"deletionTimestamp": timestamp(time.time() + seconds), "deletionGracePeriodSeconds": seconds}
            phase = {"status": {"phase": "Terminating"}} if key[0] == "namespaces" else {}
            obj = self._write(key, merge(obj, {"metadata": due, **phase}), "MODIFIED")
        for child in inside:
            if self.find(*child):
                self.delete(child)
        return obj

    def remove(self, key: Key) -> Json:
        """Takes the object away at once, and what only it owned with it."""
        obj = self._write(key, self.get(key), "DELETED")
        for child in list(self.owned.pop(obj["metadata"]["uid"], ())):
            owners = (self.find(*child) or {}).get("metadata", {}).get("ownerReferences")
            if owners and not any(ref["uid"] in self.by_uid for ref in owners):
                self.delete(child)
        namespace = self.find("namespaces", "", key[1])
        if namespace and "deletionTimestamp" in namespace["metadata"] and not self.content[key[1]]:
            self.remove(("namespaces", "", key[1]))
        return obj

    def _write(self, key: Key, obj: Json, kind: str) -> Json:
        before = self.find(*key)
        self.version += 1
        obj = obj | {"metadata": obj["metadata"] | {"resourceVersion": str(self.version)}}
        self._index(key, None if kind == "DELETED" else obj, before)
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
        document = {"object": self.find(*key), "applied": self._applied[key]}
        self._state.put(self._space, "/".join(key), document if document["object"] else None)
        self._state.put(self._space + "/meta", "version", {"value": self.version})

    def _index(self, key: Key, obj: Json | None, before: Json | None) -> None:
        for ref in (before or {}).get("metadata", {}).get("ownerReferences") or []:
            self.owned[ref["uid"]].discard(key)
        if obj is None:
            del self.by_uid[self.objects[key[0]].pop(key[1:])["metadata"]["uid"]]
            self._applied.pop(key, None)
            self.content[key[1]].discard(key)
            return
        self.objects[key[0]][key[1:]] = obj
        self.by_uid[obj["metadata"]["uid"]] = key
        self.content[key[1]].add(key)
        for ref in obj["metadata"].get("ownerReferences") or []:
            self.owned[ref["uid"]].add(key)

    def _tell(self) -> None:
        events, self._untold = self._untold, []
        for event in events:
            for follower in self.followers:
                follower(event)
