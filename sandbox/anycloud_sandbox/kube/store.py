"""The objects of one cluster: kinds, selectors, merges, versions, identity, ownership, and the log that feeds watches.

An object is never changed in place: each write puts a new dict, so that readers and watches may hold what they got.
"""

import base64
import datetime as dt
import re
import secrets
import time
import uuid
from collections import defaultdict, deque, namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from anycloud_sandbox.state import Json, State

Key = tuple[str, str, str]  # plural, namespace ("" for a cluster's own), name
Selector = Callable[[Json], bool]
Event = namedtuple("Event", "version type key object before")  # type: ADDED, MODIFIED, DELETED
Resource = namedtuple("Resource", "plural kind api_version scope sub short immutable")  # a line of kinds.txt
LINES = Path(__file__).with_name("kinds.txt").read_text().splitlines()[1:]
RESOURCES = {line.split()[0]: Resource(*line.split()) for line in LINES}
PLURALS = {resource.kind: plural for plural, resource in RESOURCES.items()}
TEMPLATES: Json = yaml.safe_load(Path(__file__).with_name("templates.yaml").read_text())
ACCOUNT_DIRECTORY = "/var/run/secrets/kubernetes.io/serviceaccount"
LABEL_TERM = re.compile(r"(!?[\w./-]+)\s*(?:(!=|==?|\bin\b|\bnotin\b)\s*(\([^)]*\)|[\w./-]*))?")
KEPT: tuple[str, ...] = ("uid", "name", "namespace", "creationTimestamp", "generation")  # a writer has no say in these
KEPT += ("deletionTimestamp", "deletionGracePeriodSeconds")
ENDED = ("Succeeded", "Failed")  # phases of a Pod


class KubeError(Exception):
    """Answered as a Status object; code 0 is a client's own: no answer came."""

    def __init__(self, code: int, reason: str, message: str, **details: Any) -> None:
        super().__init__(message)
        self.code, self.reason, self.message, self.details = code, reason, message, details

    def status(self) -> Json:
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", **vars(self)}


def problem(code: int, reason: str, key: Key, why: str) -> KubeError:
    group = RESOURCES[key[0]].api_version.rpartition("/")[0]
    text = f'{key[0]}{"." * bool(group)}{group} "{key[2]}" {why}'
    return KubeError(code, reason, text, name=key[2], kind=key[0], group=group)


def key_of(obj: Json) -> Key:
    return PLURALS[obj["kind"]], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def owners_of(obj: Json) -> set[str]:
    """The UIDs of the objects that own it."""
    return {ref["uid"] for ref in obj["metadata"].get("ownerReferences") or ()}


def fill(template: str, /, **values: Any) -> Any:
    """A document of templates.yaml, with the value of that name in the place of each `$word`."""

    def put(part: Any) -> Any:
        if isinstance(part, dict):
            return {key: put(value) for key, value in part.items()}
        if isinstance(part, list):
            return [put(value) for value in part]
        return values[part[1:]] if isinstance(part, str) and part.startswith("$") else part

    return put(TEMPLATES[template])


def timestamp(at: float, micro: bool = False) -> str:
    return dt.datetime.fromtimestamp(at, dt.UTC).strftime(f"%Y-%m-%dT%H:%M:%S{'.%f' * micro}Z")


def seconds_of(text: str) -> float:
    return dt.datetime.fromisoformat(text).timestamp()


def dig(obj: Any, path: str) -> Any:
    """The value at a dotted path, None where it ends early."""
    for part in path.split("."):
        obj = obj.get(part) if isinstance(obj, dict) else None
    return obj


def ready(obj: Json) -> str:
    """Status of the Ready condition of a Node or Pod."""
    conditions = dig(obj, "status.conditions") or []
    return next((str(item["status"]) for item in conditions if item["type"] == "Ready"), "False")


def merge(target: Any, patch: Any) -> Any:
    """A JSON merge patch (RFC 7396), as a new value."""
    if not isinstance(patch, dict):
        return patch
    old = target if isinstance(target, dict) else {}
    kept = {key: value for key, value in old.items() if key not in patch}
    return kept | {key: merge(old.get(key), value) for key, value in patch.items() if value is not None}


def left_out(last: Json, now: Json) -> Json:
    """The merge patch that removes what a manager applied last time and leaves out now."""
    inner = {key: value for key, value in last.items() if value and isinstance(value, dict)}
    deep = {key: left_out(value, now.get(key) or {}) for key, value in inner.items()}
    return deep | {key: None for key in last if key not in now and key not in deep}


def selector(labels: str, fields: str) -> Selector:
    """Of the query parameters labelSelector (`a=b,c!=d,e,!f,g in (h,i)`) and fieldSelector (name or Node only)."""
    terms = [(key, mark, re.split(r"[(),\s]+", words)) for key, mark, words in LABEL_TERM.findall(labels)]
    values = [term.partition("=")[::2] for term in fields.split(",") if term]
    if not all(path in ("metadata.name", "spec.nodeName") for path, _ in values):
        raise KubeError(400, "BadRequest", f"field label not supported: {fields}")

    def fits(obj: Json) -> bool:
        found = obj["metadata"].get("labels") or {}
        for key, mark, words in terms:
            hit = found.get(key) in words if mark else key.lstrip("!") in found
            if hit == (mark in ("!=", "notin") or key.startswith("!")):
                return False
        return all(dig(obj, path) == wanted for path, wanted in values)

    return fits


def matches(selector: Json, labels: Json) -> bool:
    """Of an object's matchLabels and matchExpressions."""
    for item in selector.get("matchExpressions") or []:
        found = item["key"] in labels if "Exist" in item["operator"] else labels.get(item["key"]) in item["values"]
        if found != (item["operator"] in ("In", "Exists")):
            return False
    return (selector.get("matchLabels") or {}).items() <= labels.items()


class Store:
    """`listeners` hear of a change in the writer's turn, `followers` after its commit."""

    def __init__(self, state: State, space: str) -> None:
        self._state, self._space = state, space
        self.objects: dict[str, dict[tuple[str, str], Json]] = {plural: {} for plural in RESOURCES}
        self.uids: set[str] = set()
        self.log: deque[Event] = deque(maxlen=10_000)  # as far as a watch may be behind
        self.listeners: list[Callable[[Event], None]] = []
        self.followers: list[Callable[[Event], None]] = []
        self._untold: list[Event] = []
        self._applied: defaultdict[Key, Json] = defaultdict(dict)  # by manager: the fields that it applied last
        self.version = int(state.load(space + "/meta").get("version", {}).get("value", 1))
        for text, document in state.load(space).items():
            plural, namespace, name = text.split("/", 2)
            self.objects[plural][namespace, name] = document["object"]
            self.uids.add(document["object"]["metadata"]["uid"])
            self._applied[plural, namespace, name] = document["applied"]

    def find(self, plural: str, namespace: str, name: str) -> Json | None:
        return self.objects[plural].get((namespace, name))

    def get(self, key: Key) -> Json:
        if found := self.find(*key):
            return found
        raise problem(404, "NotFound", key, "not found")

    def all(self, plural: str) -> list[Json]:
        return list(self.objects[plural].values())

    def _where(self, test: Callable[[Json], bool]) -> list[Json]:
        return [obj for found in self.objects.values() for obj in found.values() if test(obj)]

    def create(self, plural: str, namespace: str, body: Json, manager: str = "") -> Json:
        """A manager that is named owns the fields, as if it had applied them."""
        resource, meta = RESOURCES[plural], body.get("metadata") or {}
        key = (plural, namespace, meta.get("name") or meta.get("generateName", "") + secrets.token_hex(3)[:5])
        if self.find(*key):
            raise problem(409, "AlreadyExists", key, "already exists")
        if namespace and "deletionTimestamp" in self.get(("namespaces", "", namespace))["metadata"]:
            text = f"unable to create new content in namespace {namespace} because it is being terminated"
            raise KubeError(403, "Forbidden", text, causes=[{"reason": "NamespaceTerminating", "message": text}])
        meta = {name: value for name, value in meta.items() if name not in (*KEPT, "managedFields")}
        meta |= {"name": key[2], "uid": str(uuid.uuid4()), "creationTimestamp": timestamp(time.time()), "generation": 1}
        meta |= {"namespace": namespace} if namespace else {}
        obj = {**body, "apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta}
        obj |= {"status": {}} if resource.sub == "status" and plural != "nodes" else {}
        obj = self._admitted(key, obj)
        if manager:
            self._applied[key][manager] = merge(body, {"apiVersion": None, "kind": None})
        return self._write(key, obj, "ADDED")

    def _admitted(self, key: Key, obj: Json) -> Json:
        """What the API server adds to or refuses in a new object."""
        plural, longest = key[0], 63 if key[0] in ("namespaces", "services") else 253
        pattern = r"[^/%]+" if plural.startswith("clusterrole") else r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?"
        if not re.fullmatch(pattern, key[2]) or len(key[2]) > longest:
            raise problem(422, "Invalid", key, "is invalid: metadata.name: a lowercase RFC 1123 name is required")
        if plural == "secrets":
            texts = obj.pop("stringData", None) or {}
            data = {name: base64.b64encode(str(text).encode()).decode() for name, text in texts.items()}
            return {"type": "Opaque", **obj, "data": (obj.get("data") or {}) | data}
        if plural in ("deployments", "replicasets", "daemonsets"):
            labels, chosen = dig(obj, "spec.template.metadata.labels") or {}, obj["spec"].get("selector")
            if not chosen or not matches(chosen, labels):
                raise problem(422, "Invalid", key, "is invalid: `selector` does not match template `labels`")
            return obj | {"spec": (TEMPLATES["deployment-defaults"] if plural == "deployments" else {}) | obj["spec"]}
        if plural == "namespaces":
            return obj | {"status": {"phase": "Active"}}
        return self._admitted_pod(key, obj) if plural == "pods" else obj

    def _admitted_pod(self, key: Key, obj: Json) -> Json:
        spec: Json = TEMPLATES["pod-defaults"] | obj["spec"]
        account, runtime = (
            self.find("serviceaccounts", key[1], spec["serviceAccountName"]),
            spec.get("runtimeClassName"),
        )
        if account is None or (runtime and not self.find("runtimeclasses", "", runtime)):
            raise problem(
                403, "Forbidden", key, f"is forbidden: no {runtime if account else spec['serviceAccountName']}"
            )
        if spec.get("automountServiceAccountToken", account.get("automountServiceAccountToken", True)):
            volume = fill("token-volume", name="kube-api-access-" + secrets.token_hex(3)[:5])
            spec |= {"containers": [dict(item) for item in spec["containers"]]}
            spec["volumes"] = [*(spec.get("volumes") or []), volume]
            for item in spec["containers"]:  # where nothing else is mounted there
                mounts = item.get("volumeMounts") or []
                if all(mount["mountPath"] != ACCOUNT_DIRECTORY for mount in mounts):
                    item["volumeMounts"] = [*mounts, {"name": volume["name"], "mountPath": ACCOUNT_DIRECTORY}]
        return obj | {"spec": spec, "status": {"phase": "Pending"}}

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
            obj = new | head | ({"status": old.get("status", {})} if resource.sub == "status" else {})
            for path in (resource.immutable, *(("spec.nodeName", "spec.volumes") if key[0] == "pods" else ())):
                if dig(old, path) != dig(obj, path):
                    raise problem(422, "Invalid", key, f"is invalid: {path}: Invalid value: field is immutable")
        if obj == old:
            return old
        obj = self._write(key, obj, "MODIFIED")
        if "deletionTimestamp" in meta and old["metadata"].get("finalizers") and not meta.get("finalizers"):
            self.remove(key)
        return obj

    def patch(self, key: Key, patch: Json, subresource: str = "") -> Json:
        return self.update(key, merge(self.get(key), patch), subresource)

    def tell(self, obj: Json, status: Json) -> None:
        """Writes what a controller found into the status; `status` is a patch of the whole object."""
        self.patch(key_of(obj), status, "status")

    def apply(self, key: Key, body: Json, manager: str, subresource: str = "") -> Json:
        """Server-side apply as if nobody else owned a field: the manager's last fields are replaced by these."""
        if old := self.find(*key):
            forgotten = left_out(self._applied[key].get(manager, {}), body)
            obj = self.update(key, merge(merge(old, forgotten), body), subresource)
        elif body["metadata"].get("uid"):
            raise problem(409, "Conflict", key, f"does not exist with uid {body['metadata']['uid']}")
        else:
            obj = self.create(key[0], key[1], merge(body, {"metadata": {"name": key[2]}}))
        self._applied[key][manager] = merge(body, {"apiVersion": None, "kind": None})
        self._save(key)
        return obj

    def bind(self, key: Key, node: str) -> None:
        pod = self.get(key)
        if pod["spec"].get("nodeName"):
            raise problem(409, "Conflict", key, f"is already assigned to node {pod['spec']['nodeName']}")
        self._write(key, merge(pod, fill("bound", node=node)), "MODIFIED")

    def delete(self, key: Key, preconditions: Json | None = None, grace: int | None = None) -> Json:
        """Removes an object, or marks it: a namespace with content, a Pod that a Node still runs, a finalizer."""
        obj, seconds = self.get(key), 0
        meta = obj["metadata"]
        for name, wanted in (preconditions or {}).items():
            if wanted != meta[name]:
                raise problem(409, "Conflict", key, f"precondition failed: {name} is {meta[name]}, not {wanted}")
        if key[0] == "pods" and obj["spec"].get("nodeName") and obj["status"]["phase"] not in ENDED:
            seconds = obj["spec"]["terminationGracePeriodSeconds"] if grace is None else grace
        inside = self._where(lambda item: item["metadata"].get("namespace") == key[2]) if key[0] == "namespaces" else []
        if not (seconds or inside or meta.get("finalizers")):
            return self.remove(key)
        if "deletionTimestamp" not in meta or meta["deletionGracePeriodSeconds"] > seconds:
            due = {"deletionTimestamp": timestamp(time.time() + seconds), "deletionGracePeriodSeconds": seconds}
            held = sorted({name for item in inside for name in item["metadata"].get("finalizers") or ()})
            told = {"conditions": fill("namespace-held", by=f"finalizers remaining: {', '.join(held)}")} if held else {}
            phase = {"status": {"phase": "Terminating"} | told} if inside else {}
            obj = self._write(key, merge(obj, {"metadata": due, **phase}), "MODIFIED")
        for child in inside:
            if self.find(*key_of(child)):
                self.delete(key_of(child))
        return obj

    def remove(self, key: Key) -> Json:
        """Takes the object away at once, and what only it owned with it."""
        obj = self._write(key, self.get(key), "DELETED")
        for child in self._where(lambda item: obj["metadata"]["uid"] in owners_of(item)):
            if not owners_of(child) & self.uids and self.find(*key_of(child)):
                self.delete(key_of(child))
        ending = key[1] and "deletionTimestamp" in self.get(("namespaces", "", key[1]))["metadata"]
        if ending and not self._where(lambda item: item["metadata"].get("namespace") == key[1]):
            self.remove(("namespaces", "", key[1]))
        return obj

    def _write(self, key: Key, obj: Json, kind: str) -> Json:
        self.version += 1
        obj = obj | {"metadata": obj["metadata"] | {"resourceVersion": str(self.version)}}
        event = Event(self.version, kind, key, obj, self.find(*key))
        self.objects[key[0]][key[1:]] = obj
        self.uids.add(obj["metadata"]["uid"])
        if kind == "DELETED":
            del self.objects[key[0]][key[1:]]
            self.uids.remove(obj["metadata"]["uid"])
            self._applied.pop(key, None)
        self._save(key)
        self.log.append(event)
        if not self._untold:
            self._state.after_commit(self._tell_followers)
        self._untold.append(event)
        for listener in self.listeners:
            listener(event)
        return obj

    def _save(self, key: Key) -> None:
        document = {"object": self.find(*key), "applied": self._applied[key]}
        self._state.put(self._space, "/".join(key), document if document["object"] else None)
        self._state.put(self._space + "/meta", "version", {"value": self.version})

    def _tell_followers(self) -> None:
        events, self._untold = self._untold, []
        for event in events:
            for follower in self.followers:
                follower(event)
