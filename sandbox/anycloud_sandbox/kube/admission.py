"""What the API server adds to or refuses in a new object."""

from __future__ import annotations

import base64
import re
import secrets
from typing import TYPE_CHECKING

from anycloud_sandbox.kube.resources import KubeError, Resource, invalid, matches_label_selector
from anycloud_sandbox.state import Json

if TYPE_CHECKING:
    from anycloud_sandbox.kube.store import Store

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_RBAC_NAME = re.compile(r"[^/%]+")
SERVICE_ACCOUNT_DIR = "/var/run/secrets/kubernetes.io/serviceaccount"


def check_name(resource: Resource, name: str | None) -> str:
    pattern = _RBAC_NAME if resource.group.startswith("rbac") else _NAME
    longest = 63 if resource.plural in ("namespaces", "services") else 253
    if not name:
        raise invalid(resource, "", "metadata.name: Required value: name or generateName is required")
    if len(name) > longest or not pattern.fullmatch(name):
        raise invalid(resource, name, f'metadata.name: Invalid value: "{name}": a lowercase RFC 1123 name is required')
    return name


def admit(store: Store, resource: Resource, obj: Json) -> Json:
    match resource.plural:
        case "namespaces":
            return {**obj, "status": {"phase": "Active"}}
        case "pods":
            return _pod(store, resource, obj)
        case "secrets":
            return _secret(obj)
        case "deployments" | "replicasets" | "daemonsets":
            return _workload(resource, obj)
        case "persistentvolumeclaims":
            return {**obj, "status": {"phase": "Pending"}}
    return obj


def _secret(obj: Json) -> Json:
    obj = {"type": "Opaque", **obj}
    texts = obj.pop("stringData", None) or {}
    data = {name: base64.b64encode(str(text).encode()).decode() for name, text in texts.items()}
    return {**obj, "data": {**(obj.get("data") or {}), **data}}


def _workload(resource: Resource, obj: Json) -> Json:
    name, spec = obj["metadata"]["name"], {**(obj.get("spec") or {})}
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    if not spec.get("selector") or not matches_label_selector(spec["selector"], labels):
        raise invalid(resource, name, "spec.template.metadata.labels: Invalid value: `selector` does not match them")
    if resource.plural != "daemonsets":
        spec.setdefault("replicas", 1)
    if resource.plural == "deployments":
        spec.setdefault("strategy", {"type": "RollingUpdate"})
        spec.setdefault("progressDeadlineSeconds", 600)
        spec.setdefault("revisionHistoryLimit", 10)
    return {**obj, "spec": spec, "status": {}}


def _pod(store: Store, resource: Resource, obj: Json) -> Json:
    meta, spec = obj["metadata"], {"restartPolicy": "Always", "terminationGracePeriodSeconds": 30, **obj["spec"]}
    if not spec.get("containers"):
        raise invalid(resource, meta["name"], "spec.containers: Required value")
    spec.setdefault("serviceAccountName", "default")
    account = store.find("serviceaccounts", meta["namespace"], spec["serviceAccountName"])
    if account is None:
        text = f'pods "{meta["name"]}" is forbidden: serviceaccount "{spec["serviceAccountName"]}" not found'
        raise KubeError(403, "Forbidden", text)
    runtime = spec.get("runtimeClassName")
    if runtime and not store.find("runtimeclasses", "", runtime):
        raise KubeError(403, "Forbidden", f'pods "{meta["name"]}" is forbidden: RuntimeClass "{runtime}" not found')
    tolerations = list(spec.get("tolerations") or [])
    for condition in ("not-ready", "unreachable"):
        key = f"node.kubernetes.io/{condition}"
        if not any(item.get("key", key) == key and item.get("effect") in (None, "NoExecute") for item in tolerations):
            wait = {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            tolerations.append(wait)
    spec["tolerations"] = tolerations
    if spec.get("automountServiceAccountToken", account.get("automountServiceAccountToken", True)):
        spec = _with_token(spec)
    return {**obj, "spec": spec, "status": {"phase": "Pending", "qosClass": "BestEffort"}}


def _with_token(spec: Json) -> Json:
    """The volume by which a Pod can speak to the API, mounted where nothing else is."""
    volume = "kube-api-access-" + secrets.token_hex(3)[:5]
    sources = [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
    ]
    containers = []
    for container in spec["containers"]:
        mounts = list(container.get("volumeMounts") or [])
        if not any(mount["mountPath"] == SERVICE_ACCOUNT_DIR for mount in mounts):
            mounts.append({"name": volume, "mountPath": SERVICE_ACCOUNT_DIR, "readOnly": True})
        containers.append({**container, "volumeMounts": mounts})
    volumes = [*(spec.get("volumes") or []), {"name": volume, "projected": {"sources": sources}}]
    return {**spec, "containers": containers, "volumes": volumes}
