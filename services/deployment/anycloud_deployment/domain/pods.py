"""The one Pod that all work on a node pool is made of: placement, container, resources, security, volumes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from anycloud_common.kube import names

from anycloud_deployment.domain import quantities
from anycloud_deployment.domain.model import DockerOptions, Probe, Resources, Spec

Object = dict[str, Any]

CONTAINER = "app"

_PROBE_FIELDS = {
    "initial_delay_seconds": "initialDelaySeconds",
    "period_seconds": "periodSeconds",
    "timeout_seconds": "timeoutSeconds",
    "success_threshold": "successThreshold",
    "failure_threshold": "failureThreshold",
}


class Volume(NamedTuple):
    """A volume, and how the container mounts it."""

    volume: Object
    mount: Object


def pod(
    pool_id: str,
    spec: Spec,
    resources: Resources,
    *,
    restart: Literal["Always", "Never"],
    secret: str | None,
    ours: Mapping[str, str],
    volumes: Sequence[Volume] = (),
) -> Object:
    """A Pod's spec on that pool. `secret` names the Kubernetes Secret whose keys become variables; `ours` are variables
    whose place neither a given one nor a Secret's key takes."""
    mounted = [*volumes, *_disposable(spec.options)]
    made = {
        **names.pool_placement(pool_id),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "dnsPolicy": "Default",
        "restartPolicy": restart,
        "containers": [_container(spec, resources, secret, ours, [one.mount for one in mounted])],
        "volumes": [one.volume for one in mounted],
    }
    if resources.gpus:
        made["runtimeClassName"] = names.RUNTIME_CLASS_NVIDIA
    return made


def _container(
    spec: Spec, resources: Resources, secret: str | None, ours: Mapping[str, str], mounts: list[Object]
) -> Object:
    container: Object = {
        "name": CONTAINER,
        "image": spec.image,
        "env": _env(spec.env, ours),
        "resources": _resources(resources),
        "securityContext": _security(bool(spec.options.privileged)),
        "volumeMounts": mounts,
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    if secret is not None:
        container["envFrom"] = [{"secretRef": {"name": secret}}]
    if spec.command:
        container["args"] = [_literal(word) for word in spec.command]
    if spec.probe is not None:
        container["readinessProbe"] = _probe(spec.probe)
    return container


def _env(given: Mapping[str, str], ours: Mapping[str, str]) -> list[Object]:
    env = [{"name": name, "value": _literal(value)} for name, value in sorted(given.items())]
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


def _disposable(options: DockerOptions) -> list[Volume]:
    """Shared memory and binds."""
    volumes = []
    if options.shm_size is not None:
        size = str(quantities.size_bytes("shmSize", options.shm_size))
        shared = {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": size}}
        volumes.append(Volume(shared, {"name": "shm", "mountPath": "/dev/shm"}))  # noqa: S108 - the container's
    for index, path in enumerate(options.binds or ()):
        name = f"bind-{index}"
        volumes.append(Volume({"name": name, "emptyDir": {}}, {"name": name, "mountPath": path}))
    return volumes


def _probe(probe: Probe) -> Object:
    timings = {wire: getattr(probe, name) for name, wire in _PROBE_FIELDS.items() if getattr(probe, name) is not None}
    return {"exec": {"command": [_literal(word) for word in probe.command]}, **timings}


def _literal(text: str) -> str:
    """Kubernetes replaces `$(NAME)` in words and values, and `$$` by `$`: doubling each `$` brings the text through."""
    return text.replace("$", "$$") if "$(" in text or "$$" in text else text
