"""The processes of every installation: migrator, four services, Envoy."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from anycloud_supervisor.envoy import Listen, envoy
from anycloud_supervisor.failures import SupervisorError
from anycloud_supervisor.plan import ProcessSpec, Step
from anycloud_supervisor.probes import grpc_answers, grpc_health

SERVICES = ("cluster", "nodepool", "deployment", "release")

_METRICS = "ANYCLOUD_METRICS_PORT"  # of the first service's Prometheus metrics; the others have the next ports

# What children may know of the environment in which `api start` was typed. Cloud keys aren't among it: the API uses
# saved credentials only, and nothing that happens to lie around.
_INHERITED = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "LC_ALL",
    "TZ",
    "TMPDIR",
    "XDG_RUNTIME_DIR",
    "PYTHONPATH",
    "PYTHONDONTWRITEBYTECODE",
    "VIRTUAL_ENV",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "ANYCLOUD_API_VERSION",
    _METRICS,
)


def inherited(environ: Mapping[str, str]) -> dict[str, str]:
    """The part of the environment that every child gets."""
    return {name: environ[name] for name in _INHERITED if name in environ}


def python(*words: str) -> list[str]:
    """A command of this very Python environment."""
    return [sys.executable, "-m", *words]


def service_steps(env: Mapping[str, str], runtime_dir: Path, listen: Listen, access_log: Path) -> list[Step]:
    """The steps from an existing data directory to an API that serves. Raises SupervisorError, OSError.

    Services and Envoy are one step: Envoy is ready when they are, and while all of them stop together it still carries
    the last answers out."""
    everything = dict(env)
    services = [
        ProcessSpec(
            name,
            python(f"anycloud_{name}"),
            {**everything, **_metrics(env, position)},
            grpc_health(runtime_dir / f"{name}.sock"),
            answers=grpc_answers(runtime_dir / f"{name}.sock"),
        )
        for position, name in enumerate(SERVICES)
    ]
    door = envoy(listen, runtime_dir, access_log, everything)
    return [
        Step([ProcessSpec("migrate", python("anycloud_release.migrate"), everything, ready=None)]),
        Step([*services, door]),
    ]


def _metrics(env: Mapping[str, str], position: int) -> dict[str, str]:
    """Ports in a row, when somebody asked for metrics. Raises SupervisorError."""
    first = env.get(_METRICS)
    if not first:
        return {}
    if not (first.isascii() and first.isdigit() and 0 < int(first) <= 65536 - len(SERVICES)):
        raise SupervisorError(f"{_METRICS} is {first!r}; it must be the first of {len(SERVICES)} free ports.")
    return {_METRICS: str(int(first) + position)}
