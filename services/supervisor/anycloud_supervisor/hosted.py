"""The installation inside a Pod on the cluster: in the foreground, configured by its environment."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from anycloud_common.clock import SystemClock

from anycloud_supervisor import files, leftovers, places, record
from anycloud_supervisor.envoy import Listen
from anycloud_supervisor.failures import SupervisorError
from anycloud_supervisor.life import live
from anycloud_supervisor.runtime_dir import runtime_dir
from anycloud_supervisor.services import inherited, service_steps
from anycloud_supervisor.supervisor import Supervisor

log = logging.getLogger(__name__)
_BEHIND_INGRESS = Listen("0.0.0.0", 8080)  # noqa: S104  (the Pod's own network)
_HANDED_ON = (
    "ANYCLOUD_RELEASE_VALUES",
    "ANYCLOUD_PUBLIC_URL",
    "ANYCLOUD_SERVICEACCOUNT_DIR",
    "KUBERNETES_SERVICE_HOST",
    "KUBERNETES_SERVICE_PORT",
)


def run(environ: Mapping[str, str]) -> int:
    """Serves until SIGTERM; the exit code. Everything is told on stderr, by the processes themselves too."""
    from anycloud_common.telemetry import logs

    logs.configure("supervisor")
    try:
        data = Path(_required(environ, "ANYCLOUD_DATA_DIR"))
        files.make_directory(data)
        files.make_directory(places.supervisor_dir(data))
        with files.locked(places.supervisor_dir(data) / "lock") as ours:
            if not ours:
                raise SupervisorError(f"Another API uses {data}.")
            _run_locked(data, environ)
    except SupervisorError as error:
        log.critical(str(error))
        return 1
    except OSError as error:
        log.critical(f"Cannot use {error.filename or 'the data directory'}: {error.strerror or error}.")
        return 1
    return 0


def _run_locked(data: Path, environ: Mapping[str, str]) -> None:
    state_file = places.state_file(data)
    facts = record.read(state_file)
    if facts is not None:
        for name in leftovers.end_recorded(facts):
            log.warning("ended a leftover", extra={"child": name})
    url = _required(environ, "ANYCLOUD_PUBLIC_URL")
    with runtime_dir(data, environ) as sockets:
        steps = service_steps(environment(data, sockets, environ), sockets, listen_address(url), Path("/dev/stdout"))
        state = record.Record(state_file, {"url": url, "dataDir": str(data)}, SystemClock())
        asyncio.run(live(Supervisor(steps, state, SystemClock()), state, lambda: None))


def environment(data: Path, sockets: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """What the services of this Pod are told. Raises SupervisorError, OSError."""
    env = {
        **inherited(environ),
        **{name: environ[name] for name in _HANDED_ON if name in environ},
        "ANYCLOUD_MODE": "hosted",
        "ANYCLOUD_DATA_DIR": str(data),
        "ANYCLOUD_RUNTIME_DIR": str(sockets),
    }
    world = _release_values(environ).get("sandboxUrl")
    return {**env, "ANYCLOUD_SANDBOX_URL": world} if isinstance(world, str) and world else env


def _release_values(environ: Mapping[str, str]) -> dict[str, object]:
    path = _required(environ, "ANYCLOUD_RELEASE_VALUES")
    try:
        values = json.loads(Path(path).read_text("utf-8"))
    except ValueError as error:
        raise SupervisorError(f"The release values in {path} aren't JSON.") from error
    if not isinstance(values, dict):
        raise SupervisorError(f"The release values in {path} aren't a JSON object.")
    return values


def listen_address(url: str) -> Listen:
    """An address in the URL is where Envoy listens; a name's traffic comes through the ingress."""
    parts = urlsplit(url)
    try:
        address = str(ipaddress.ip_address(parts.hostname or ""))
        return Listen(address, parts.port or 80)
    except ValueError:
        return _BEHIND_INGRESS


def _required(environ: Mapping[str, str], name: str) -> str:
    value = environ.get(name, "").strip()
    if not value:
        raise SupervisorError(f"{name} is not set; it must have a value.")
    return value
