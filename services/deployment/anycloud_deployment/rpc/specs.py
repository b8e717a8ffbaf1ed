"""Requests about Deployments as specs and updates."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from anycloudapi.common.v1 import types_pb2
from anycloudapi.deployment.v1 import deployments_pb2 as pb

from anycloud_deployment.domain.model import DockerOptions, Probe, Spec
from anycloud_deployment.domain.refusal import invalid
from anycloud_deployment.domain.spec import refuse_unsupported
from anycloud_deployment.domain.update import OPTIONS, Update

_TIMINGS = (
    "initial_delay_seconds",
    "period_seconds",
    "timeout_seconds",
    "success_threshold",
    "failure_threshold",
)
_OPTIONS_FIELD = "docker_options"


def spec(message: pb.DeploymentSpec) -> Spec:
    """What a create asks for, unchecked but for options that there aren't."""
    return Spec(
        image=message.image,
        command=_words(message, "command"),
        env=dict(message.env),
        secrets=tuple(message.secrets),
        options=docker_options(message.docker_options),
        probe=_probe(message.readiness_probe) if message.HasField("readiness_probe") else None,
        replicas=message.replicas if message.HasField("replicas") else 1,
        slots=message.max_concurrent_jobs_per_replica if message.HasField("max_concurrent_jobs_per_replica") else 1,
    )


def update(request: pb.UpdateDeploymentRequest) -> Update:
    """What an update changes: what the mask names, or without one every field that is set. Raises Refusal for a mask
    that names what there isn't."""
    change = request.deployment
    if not request.HasField("update_mask"):
        given = [field.name for field, _ in change.ListFields() if field.name != _OPTIONS_FIELD]
        options = [field.name for field, _ in change.docker_options.ListFields()]
        return _update(change, given, options, whole=False)
    paths = list(dict.fromkeys(request.update_mask.paths))
    inner = [path.removeprefix(f"{_OPTIONS_FIELD}.") for path in paths if path.startswith(f"{_OPTIONS_FIELD}.")]
    outer = [path for path in paths if "." not in path and path != _OPTIONS_FIELD]
    _refuse_unknown(set(inner) - set(OPTIONS), set(outer) - set(_SETTINGS), paths, len(inner) + len(outer))
    whole = _OPTIONS_FIELD in paths
    if whole:
        inner = [field.name for field, _ in change.docker_options.ListFields()]
    return _update(change, outer, inner, whole=whole)


def _update(change: Any, settings: Iterable[str], options: Iterable[str], *, whole: bool) -> Update:
    read = dict(_SETTINGS[name](change) for name in settings)
    chosen = {name: _option(change.docker_options, name) for name in options}
    sent_empty = change.HasField(_OPTIONS_FIELD) and not chosen
    return Update(read, chosen, clear_options=whole, empty_options=sent_empty)


def _refuse_unknown(options: set[str], settings: set[str], paths: list[str], known: int) -> None:
    unknown = sorted({f"{_OPTIONS_FIELD}.{name}" for name in options} | settings)
    if unknown:
        raise invalid(f"update_mask names {unknown[0]}, which no update changes.")
    if known + (_OPTIONS_FIELD in paths) != len(paths):
        raise invalid("update_mask goes deeper into a field than an update can.")


def _setting(name: str, read: Callable[[Any], Any], field: str | None = None) -> Callable[[Any], tuple[str, Any]]:
    """Reads one field of an update under the name that `Spec` has for it; None when it isn't set."""

    def setting(change: Any) -> tuple[str, Any]:
        return name, read(change) if change.HasField(field or name) else None

    return setting


_SETTINGS: dict[str, Callable[[Any], tuple[str, Any]]] = {
    "image": _setting("image", lambda change: change.image),
    "command": _setting("command", lambda change: tuple(change.command.values)),
    "env": _setting("env", lambda change: dict(change.env.entries)),
    "secrets": _setting("secrets", lambda change: tuple(change.secrets.values)),
    "readiness_probe": _setting("probe", lambda change: _probe(change.readiness_probe), "readiness_probe"),
    "replicas": _setting("replicas", lambda change: change.replicas),
    "max_concurrent_jobs_per_replica": _setting(
        "slots", lambda change: change.max_concurrent_jobs_per_replica, "max_concurrent_jobs_per_replica"
    ),
}


def docker_options(message: types_pb2.DockerOptions) -> DockerOptions:
    refuse_unsupported(
        ipc=message.HasField("ipc"),
        network=message.HasField("network"),
        ulimits=message.HasField("ulimits"),
    )
    return DockerOptions(**{name: _option(message, name) for name in OPTIONS})


def _option(message: Any, name: str) -> Any:
    if not message.HasField(name):
        return None
    return tuple(message.binds.values) if name == "binds" else getattr(message, name)


def _words(message: Any, field: str) -> tuple[str, ...] | None:
    return tuple(getattr(message, field).values) if message.HasField(field) else None


def _probe(message: Any) -> Probe:
    timings = {name: getattr(message, name) if message.HasField(name) else None for name in _TIMINGS}
    return Probe(tuple(message.exec.command), **timings)
