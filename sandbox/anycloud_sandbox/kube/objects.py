"""Kinds, errors, selectors and merges: what is true of any object."""

import datetime as dt
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from anycloud_sandbox.state import Json

Selector = Callable[[Json], bool]


class Resource(NamedTuple):
    plural: str
    kind: str
    api_version: str
    namespaced: bool
    status: bool  # has a status subresource
    short: str
    immutable: str  # a field that never changes

    @property
    def group(self) -> str:
        return self.api_version.rpartition("/")[0]


def _resources() -> dict[str, Resource]:
    lines = Path(__file__).with_name("kinds.txt").read_text().splitlines()[1:]
    return {
        plural: Resource(plural, kind, version, scope == "namespaced", sub == "status", short, fixed)
        for plural, kind, version, scope, sub, short, fixed in map(str.split, lines)
    }


RESOURCES = _resources()
PLURALS = {resource.kind: plural for plural, resource in RESOURCES.items()}


class KubeError(Exception):
    """Answered as a Status object; code 0 is a client's own: no answer came."""

    def __init__(self, code: int, reason: str, message: str, **details: Any) -> None:
        super().__init__(message)
        self.code, self.reason, self.message, self.details = code, reason, message, details

    def status(self) -> Json:
        about = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": self.code}
        return {**about, "reason": self.reason, "message": self.message, "details": self.details}


def problem(code: int, reason: str, key: tuple[str, str, str], why: str) -> KubeError:
    text = f'{key[0]}{"." if RESOURCES[key[0]].group else ""}{RESOURCES[key[0]].group} "{key[2]}" {why}'
    return KubeError(code, reason, text, name=key[2], kind=key[0], group=RESOURCES[key[0]].group)


def timestamp(at: float, micro: bool = False) -> str:
    return dt.datetime.fromtimestamp(at, dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ" if micro else "%Y-%m-%dT%H:%M:%SZ")


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


def prune(target: Json, last: Json, now: Json) -> Json:
    """Target without the fields that a manager applied last time and left out now."""
    out = dict(target)
    for key, value in last.items():
        if isinstance(value, dict) and value and isinstance(out.get(key), dict):
            out[key] = prune(out[key], value, now.get(key) or {})
        if key not in now and not (isinstance(value, dict) and out.get(key)):
            out.pop(key, None)
    return out


def selector(labels: str, fields: str) -> Selector:
    """Of the query parameters labelSelector (`a=b,c!=d,e,!f,g in (h,i)`) and fieldSelector (name or Node only)."""
    tests = [_label_test(term.strip()) for term in re.findall(r"[^,(]+(?:\([^)]*\))?", labels)]
    values = [term.partition("=")[::2] for term in fields.split(",") if term]
    if not all(path in ("metadata.name", "spec.nodeName") for path, _ in values):
        raise KubeError(400, "BadRequest", f"field label not supported: {fields}")
    return lambda obj: (
        all(dig(obj, path) == wanted for path, wanted in values)
        and all(test(obj["metadata"].get("labels") or {}) for test in tests)
    )


def _label_test(term: str) -> Selector:
    if found := re.fullmatch(r"(\S+)\s+(in|notin)\s+\(([^)]*)\)", term):
        words = {word.strip() for word in found[3].split(",")}
        return lambda labels: (labels.get(found[1]) in words) == (found[2] == "in")
    if "=" in term:
        key, wanted = (word.strip() for word in re.split("!=|==?", term, maxsplit=1))
        return lambda labels: (labels.get(key) == wanted) == ("!=" not in term)
    return lambda labels: (term.lstrip("!") in labels) != term.startswith("!")


def matches(selector: Json, labels: Json) -> bool:
    """Of an object's matchLabels and matchExpressions."""
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    for item in selector.get("matchExpressions") or []:
        found = item["key"] in labels if "Exist" in item["operator"] else labels.get(item["key"]) in item["values"]
        if found != (item["operator"] in ("In", "Exists")):
            return False
    return True
