"""The Kubernetes objects of a Deployment: a ServiceAccount, a Secret and an apps/v1 Deployment, each named by its id.

Whatever changes a Pod here, for the same revision, starts one revision of every Deployment when the API is upgraded.
"""

from __future__ import annotations

import base64
import hashlib
import json
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from anycloud_common.kube import names

from anycloud_deployment.domain import quantities
from anycloud_deployment.domain.environment import ENV_API_URL, ENV_DEPLOYMENT_ID, ENV_TOKEN_FILE
from anycloud_deployment.domain.model import Probe, Resources, Revision

Object = dict[str, Any]

CONTAINER = "app"
KINDS = ("ServiceAccount", "Secret", "Deployment")  # in the order of their making

_TOKEN_SECONDS = 3600  # the kubelet writes a fresh one at 80% of it
_PROBE_FIELDS = {
    "initial_delay_seconds": "initialDelaySeconds",
    "period_seconds": "periodSeconds",
    "timeout_seconds": "timeoutSeconds",
    "success_threshold": "successThreshold",
    "failure_threshold": "failureThreshold",
}


@dataclass(frozen=True)
class Place:
    """Where a Deployment's objects go, and where its workers find the API."""

    deployment_id: str
    namespace: str
    node_pool_id: str
    public_url: str


def owner_labels(deployment_id: str) -> dict[str, str]:
    """What tells our objects of this Deployment from all others."""
    return {names.LABEL_MANAGED_BY: names.MANAGED_BY, names.LABEL_DEPLOYMENT: deployment_id}


def intent(deployment_id: str, kind: str) -> str:
    """The token of the row that an object was made from."""
    return f"{deployment_id}/{kind}"


def service_account(place: Place) -> Object:
    return {
        "metadata": _metadata(place, "ServiceAccount"),
        "automountServiceAccountToken": False,
    }


def secret(place: Place, values: Mapping[str, str]) -> Object:
    """The values of all Secrets that the Deployment names, merged."""
    return {"metadata": _metadata(place, "Secret"), "type": "Opaque", "data": encoded(values)}


def encoded(values: Mapping[str, str]) -> dict[str, str]:
    """As a Kubernetes Secret shows its data."""
    return {name: base64.b64encode(value.encode()).decode() for name, value in values.items()}


def deployment(place: Place, revision: Revision) -> Object:
    """Replacement is without surge: with one replica the old Pod is gone before the new one is made."""
    labels = owner_labels(place.deployment_id)
    spec = revision.spec
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    return {
        "metadata": _metadata(place, "Deployment"),
        "spec": {
            "replicas": spec.replicas,
            "strategy": {"type": "Recreate"} if spec.replicas == 1 else rolling,
            "revisionHistoryLimit": 1,
            "selector": {"matchLabels": {names.LABEL_DEPLOYMENT: place.deployment_id}},
            "template": {
                "metadata": {"labels": {**labels, names.LABEL_REVISION: str(revision.generation)}},
                "spec": _pod(place, revision),
            },
        },
    }


def fingerprint(place: Place, revision: Revision) -> str:
    """What a revision's Pods look like, but for the number of the revision."""
    return hashlib.sha256(json.dumps(_pod(place, revision), sort_keys=True).encode()).hexdigest()[:16]


def _metadata(place: Place, kind: str) -> Object:
    return {
        "name": place.deployment_id,
        "namespace": place.namespace,
        "labels": owner_labels(place.deployment_id),
        "annotations": {names.ANNOTATION_INTENT: intent(place.deployment_id, kind)},
    }


def _pod(place: Place, revision: Revision) -> Object:
    pod = {
        **names.pool_placement(place.node_pool_id),
        "serviceAccountName": place.deployment_id,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "dnsPolicy": "Default",
        "restartPolicy": "Always",
        "containers": [_container(place, revision)],
        "volumes": _volumes(revision),
    }
    if revision.resources.gpus:
        pod["runtimeClassName"] = names.RUNTIME_CLASS_NVIDIA
    return pod


def _container(place: Place, revision: Revision) -> Object:
    spec = revision.spec
    container: Object = {
        "name": CONTAINER,
        "image": spec.image,
        "env": _env(place, spec.env),
        "envFrom": [{"secretRef": {"name": place.deployment_id}}],
        "resources": _resources(revision.resources),
        "securityContext": _security(bool(spec.options.privileged)),
        "volumeMounts": _mounts(revision),
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    if spec.command:
        container["args"] = [_literal(word) for word in spec.command]
    if spec.probe is not None:
        container["readinessProbe"] = _probe(spec.probe)
    return container


def _env(place: Place, given: Mapping[str, str]) -> list[Object]:
    """Ours last: neither a variable nor a Secret's key takes their place."""
    env = [{"name": name, "value": _literal(value)} for name, value in sorted(given.items())]
    ours = {
        ENV_API_URL: place.public_url,
        ENV_DEPLOYMENT_ID: place.deployment_id,
        ENV_TOKEN_FILE: names.WORKLOAD_TOKEN_PATH,
    }
    return env + [{"name": name, "value": value} for name, value in ours.items()]


def _resources(resources: Resources) -> Object:
    cpu, memory = f"{resources.cpu_millis}m", str(resources.memory_bytes)
    limits = {}
    if resources.cpu_limited:
        limits["cpu"] = cpu
    if resources.memory_limited:
        limits["memory"] = memory
    requests = {"cpu": cpu, "memory": memory}
    if resources.gpus:
        requests[names.RESOURCE_NVIDIA_GPU] = limits[names.RESOURCE_NVIDIA_GPU] = str(resources.gpus)
    return {"requests": requests, "limits": limits} if limits else {"requests": requests}


def _security(privileged: bool) -> Object:
    if privileged:
        return {"privileged": True}
    return {"allowPrivilegeEscalation": False, "seccompProfile": {"type": "RuntimeDefault"}}


def _volumes(revision: Revision) -> list[Object]:
    token = {
        "audience": names.WORKLOAD_TOKEN_AUDIENCE,
        "expirationSeconds": _TOKEN_SECONDS,
        "path": posixpath.basename(names.WORKLOAD_TOKEN_PATH),
    }
    volumes: list[Object] = [{"name": "token", "projected": {"sources": [{"serviceAccountToken": token}]}}]
    options = revision.spec.options
    if options.shm_size is not None:
        size = str(quantities.size_bytes("shmSize", options.shm_size))
        volumes.append({"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": size}})
    binds = [{"name": f"bind-{index}", "emptyDir": {}} for index, _ in enumerate(options.binds or ())]
    return volumes + binds


def _mounts(revision: Revision) -> list[Object]:
    options = revision.spec.options
    mounts: list[Object] = [
        {"name": "token", "mountPath": posixpath.dirname(names.WORKLOAD_TOKEN_PATH), "readOnly": True}
    ]
    if options.shm_size is not None:
        mounts.append({"name": "shm", "mountPath": "/dev/shm"})  # noqa: S108 - the container's, not ours
    return mounts + [{"name": f"bind-{index}", "mountPath": path} for index, path in enumerate(options.binds or ())]


def _probe(probe: Probe) -> Object:
    timings = {wire: getattr(probe, name) for name, wire in _PROBE_FIELDS.items() if getattr(probe, name) is not None}
    return {"exec": {"command": [_literal(word) for word in probe.command]}, **timings}


def _literal(text: str) -> str:
    """Kubernetes replaces `$(NAME)` in words and values, and `$$` by `$`: doubling each `$` brings the text through."""
    return text.replace("$", "$$") if "$(" in text or "$$" in text else text
