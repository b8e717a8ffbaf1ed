"""The kinds that this API serves, its errors, selectors and merges."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from anycloud_sandbox.state import Json


@dataclass(frozen=True)
class Resource:
    plural: str
    kind: str
    group: str
    version: str
    namespaced: bool
    status: bool  # has a status subresource

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


def _table() -> dict[str, Resource]:
    rows = """
        namespaces Namespace . v1 cluster status
        nodes Node . v1 cluster status
        persistentvolumes PersistentVolume . v1 cluster status
        pods Pod . v1 namespaced status
        secrets Secret . v1 namespaced -
        serviceaccounts ServiceAccount . v1 namespaced -
        services Service . v1 namespaced status
        configmaps ConfigMap . v1 namespaced -
        events Event . v1 namespaced -
        persistentvolumeclaims PersistentVolumeClaim . v1 namespaced status
        deployments Deployment apps v1 namespaced status
        replicasets ReplicaSet apps v1 namespaced status
        daemonsets DaemonSet apps v1 namespaced status
        jobs Job batch v1 namespaced status
        leases Lease coordination.k8s.io v1 namespaced -
        certificatesigningrequests CertificateSigningRequest certificates.k8s.io v1 cluster status
        networkpolicies NetworkPolicy networking.k8s.io v1 namespaced -
        ingresses Ingress networking.k8s.io v1 namespaced status
        runtimeclasses RuntimeClass node.k8s.io v1 cluster -
        roles Role rbac.authorization.k8s.io v1 namespaced -
        rolebindings RoleBinding rbac.authorization.k8s.io v1 namespaced -
        clusterroles ClusterRole rbac.authorization.k8s.io v1 cluster -
        clusterrolebindings ClusterRoleBinding rbac.authorization.k8s.io v1 cluster -
        helmcharts HelmChart helm.cattle.io v1 namespaced status
        helmchartconfigs HelmChartConfig helm.cattle.io v1 namespaced -
    """
    table = {}
    for plural, kind, group, version, scope, status in (line.split() for line in rows.strip().splitlines()):
        group = "" if group == "." else group
        table[plural] = Resource(plural, kind, group, version, scope == "namespaced", status == "status")
    return table


RESOURCES = _table()

# Fields that a later write may not change (422), as paths below the object.
IMMUTABLE = {
    "deployments": ["spec.selector"],
    "replicasets": ["spec.selector"],
    "daemonsets": ["spec.selector"],
    "jobs": ["spec.selector", "spec.template"],
    "secrets": ["type"],
    "runtimeclasses": ["handler"],
    "clusterrolebindings": ["roleRef"],
    "rolebindings": ["roleRef"],
}


class KubeError(Exception):
    """Answered as a Status object."""

    def __init__(self, code: int, reason: str, message: str, details: Json | None = None) -> None:
        super().__init__(message)
        self.code, self.reason, self.message, self.details = code, reason, message, details or {}

    def status(self) -> Json:
        head = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        return {**head, "message": self.message, "reason": self.reason, "details": self.details, "code": self.code}


def not_found(resource: Resource, name: str) -> KubeError:
    details = {"name": name, "group": resource.group, "kind": resource.plural}
    return KubeError(404, "NotFound", f'{resource.qualified} "{name}" not found', details)


def conflict(resource: Resource, name: str, why: str) -> KubeError:
    details = {"name": name, "group": resource.group, "kind": resource.plural}
    text = f'Operation cannot be fulfilled on {resource.qualified} "{name}": {why}'
    return KubeError(409, "Conflict", text, details)


def invalid(resource: Resource, name: str, why: str) -> KubeError:
    details = {"name": name, "group": resource.group, "kind": resource.kind}
    return KubeError(422, "Invalid", f'{resource.kind} "{name}" is invalid: {why}', details)


def timestamp(at: float) -> str:
    return dt.datetime.fromtimestamp(at, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_timestamp(at: float) -> str:
    return dt.datetime.fromtimestamp(at, dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def seconds_of(text: str) -> float:
    return dt.datetime.fromisoformat(text).timestamp()


def dig(obj: Any, path: str) -> Any:
    for part in path.split("."):
        obj = obj.get(part) if isinstance(obj, dict) else None
    return obj


def merge(target: Any, patch: Any, by_name: bool = False) -> Any:
    """A JSON merge patch (RFC 7396) as a new value; with `by_name` lists merge by name, type or key as kubectl's do."""
    if isinstance(patch, dict):
        out = dict(target) if isinstance(target, dict) else {}
        for key, value in patch.items():
            if value is None:
                out.pop(key, None)
            else:
                out[key] = merge(out.get(key), value, by_name)
        return out
    if by_name and isinstance(patch, list) and isinstance(target, list):
        return _merge_list(target, patch)
    return patch


def _merge_list(target: list[Any], patch: list[Any]) -> list[Any]:
    for key in ("name", "type", "uid", "key"):
        if patch and all(isinstance(item, dict) and key in item for item in [*target, *patch]):
            merged = {item[key]: item for item in target}
            for item in patch:
                merged[item[key]] = merge(merged.get(item[key]), item, by_name=True)
            return list(merged.values())
    return patch


def prune(target: Json, last: Json, now: Json) -> Json:
    """Target without the fields that a manager applied last time and left out now."""
    out = dict(target)
    for key, value in last.items():
        if key not in out:
            continue
        if isinstance(value, dict) and value and isinstance(out[key], dict):
            rest = prune(out[key], value, now.get(key) or {})
            if rest or key in now:
                out[key] = rest
            else:
                del out[key]
        elif key not in now:
            del out[key]
    return out


Selector = Callable[[Json], bool]
_SET_TERM = re.compile(r"(\S+)\s+(in|notin)\s+\(([^)]*)\)")


def label_selector(text: str | None) -> Selector:
    """Of a query string: `a=b,c!=d,e,!f,g in (h,i)`."""
    terms = [_label_term(term.strip()) for term in re.findall(r"[^,(]+(?:\([^)]*\))?", text or "")]
    return lambda obj: all(term(obj["metadata"].get("labels") or {}) for term in terms)


def _label_term(term: str) -> Callable[[Json], bool]:
    if found := _SET_TERM.fullmatch(term):
        key, values, wanted = found[1], {value.strip() for value in found[3].split(",")}, found[2] == "in"
        return lambda labels: (labels.get(key) in values) == wanted
    if "=" in term:
        key, value = re.split("!=|==?", term, maxsplit=1)
        wanted = "!=" not in term
        return lambda labels: (labels.get(key.strip()) == value.strip()) == wanted
    if term.startswith("!"):
        return lambda labels: term[1:] not in labels
    return lambda labels: term in labels


def field_selector(text: str | None) -> Selector:
    terms = []
    for term in filter(None, (text or "").split(",")):
        path, value = re.split("!=|==?", term, maxsplit=1)
        if path not in ("metadata.name", "metadata.namespace", "spec.nodeName", "status.phase", "type"):
            raise KubeError(400, "BadRequest", f"field label not supported: {path}")
        terms.append((path, value, "!=" not in term))
    return lambda obj: all(((dig(obj, path) or "") == value) == wanted for path, value, wanted in terms)


def matches_label_selector(selector: Json | None, labels: Json) -> bool:
    """Of an object's `matchLabels` and `matchExpressions`."""
    selector = selector or {}
    wanted = (selector.get("matchLabels") or {}).items()
    return all(labels.get(key) == value for key, value in wanted) and all(
        matches_expression(expression, labels) for expression in selector.get("matchExpressions") or []
    )


def matches_expression(expression: Json, labels: Json) -> bool:
    key, values = expression["key"], expression.get("values") or []
    match expression["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case "Gt":
            return int(labels.get(key, 0)) > int(values[0])
        case _:
            return int(labels.get(key, 0)) < int(values[0])
