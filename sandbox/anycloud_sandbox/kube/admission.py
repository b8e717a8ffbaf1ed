"""What the API server adds to or refuses in an object."""

import base64
import re
import secrets
from collections.abc import Callable

from anycloud_sandbox.kube.objects import RESOURCES, dig, matches, problem
from anycloud_sandbox.state import Json

Key = tuple[str, str, str]  # plural, namespace ("" for a cluster's own), name
ACCOUNT_DIRECTORY = "/var/run/secrets/kubernetes.io/serviceaccount"


def check_name(key: Key) -> None:
    pattern = "[^/%]+" if key[0].startswith("clusterrole") else "[a-z0-9]([-a-z0-9.]*[a-z0-9])?"
    if len(key[2]) > (63 if key[0] in ("namespaces", "services") else 253) or not re.fullmatch(pattern, key[2]):
        raise problem(422, "Invalid", key, "is invalid: metadata.name: a lowercase RFC 1123 name is required")


def admit(find: Callable[[str, str, str], Json | None], key: Key, obj: Json) -> Json:
    """The object as it is stored; `find` looks up plural, namespace and name."""
    if key[0] == "secrets":
        texts = obj.pop("stringData", None) or {}
        data = {name: base64.b64encode(str(text).encode()).decode() for name, text in texts.items()}
        return {"type": "Opaque", **obj, "data": (obj.get("data") or {}) | data}
    if key[0] in ("deployments", "replicasets", "daemonsets"):
        labels = dig(obj, "spec.template.metadata.labels") or {}
        if not obj["spec"].get("selector") or not matches(obj["spec"]["selector"], labels):
            raise problem(422, "Invalid", key, "is invalid: `selector` does not match template `labels`")
        defaults: Json = {"replicas": 1, "strategy": {"type": "RollingUpdate"}} if key[0] == "deployments" else {}
        return {**obj, "spec": defaults | obj["spec"]}
    if key[0] != "pods":
        return {**obj, "status": {"phase": "Active"}} if key[0] == "namespaces" else obj
    spec = {"restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "serviceAccountName": "default"} | obj[
        "spec"
    ]
    account, runtime = find("serviceaccounts", key[1], spec["serviceAccountName"]), spec.get("runtimeClassName")
    if account is None or (runtime and not find("runtimeclasses", "", runtime)):
        raise problem(403, "Forbidden", key, f"is forbidden: no {runtime if account else spec['serviceAccountName']}")
    if spec.get("automountServiceAccountToken", account.get("automountServiceAccountToken", True)):
        spec = _with_token(spec)
    return {**obj, "spec": spec, "status": {"phase": "Pending"}}


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
        mounts = container.get("volumeMounts") or []
        if all(mount["mountPath"] != ACCOUNT_DIRECTORY for mount in mounts):
            mounts = [*mounts, {"name": volume, "mountPath": ACCOUNT_DIRECTORY, "readOnly": True}]
        containers.append({**container, "volumeMounts": mounts})
    volumes = [*(spec.get("volumes") or []), {"name": volume, "projected": {"sources": sources}}]
    return {**spec, "containers": containers, "volumes": volumes}


def check_change(key: Key, old: Json, new: Json) -> None:
    """Refuses changes of what stays as it was made."""
    pairs = [(path, dig(old, path), dig(new, path)) for path in [RESOURCES[key[0]].immutable]]
    if key[0] == "pods":
        names = ("nodeName", "volumes", "serviceAccountName")
        pairs += [(f"spec.{name}", old["spec"].get(name), new["spec"].get(name)) for name in names]
    for path, before, after in pairs:
        if before != after:
            raise problem(422, "Invalid", key, f"is invalid: {path}: Invalid value: field is immutable")
