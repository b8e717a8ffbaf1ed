"""The installation on a person's machine: `anycloud api start` runs this in the background."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from anycloud_common.clock import SystemClock

from anycloud_supervisor import files, kube_assets, leftovers, record, sandbox
from anycloud_supervisor.envoy import Listen
from anycloud_supervisor.failures import SupervisorError
from anycloud_supervisor.life import live
from anycloud_supervisor.logs import LogFile
from anycloud_supervisor.places import Places
from anycloud_supervisor.plan import Step
from anycloud_supervisor.reports import Reports
from anycloud_supervisor.runtime_dir import runtime_dir
from anycloud_supervisor.services import inherited, service_steps
from anycloud_supervisor.supervisor import Supervisor

log = logging.getLogger(__name__)
_HOST = "127.0.0.1"
_DEFAULT_PORT = 8080
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


class Request(NamedTuple):
    """What `api start` was asked for. `port` None takes the last one; `kube_assets` is a folder of programs."""

    port: int | None
    sandbox: bool
    kube_assets: str | None = None


Plan = Callable[[Places, Path, str, str | None, Mapping[str, str]], Sequence[Step]]
"""The steps for these places, this directory of sockets, this URL, the sandbox's URL if any, and this environment."""


def run(request: Request, reports: Reports, environ: Mapping[str, str], plan: Plan | None = None) -> int:
    """Serves until SIGTERM; the exit code. The reader of `reports` gets progress, then the URL or the reason."""
    places = Places.of(environ)
    try:
        for directory in (places.config, places.data, places.supervisor):
            files.make_directory(directory)
        with files.locked(places.lock) as ours:
            if ours:
                _run_locked(request, places, reports, environ, plan or installation)
            else:
                _second_start(request, places, reports)
    except (SupervisorError, OSError) as error:
        sentence = _sentence(error, places)
        log.error(sentence)
        reports.failed(sentence)
        return 1
    except Exception as error:
        log.critical("unexpected", exc_info=True)
        reports.failed(f"Unexpected {type(error).__name__}; {places.logs / 'supervisor.log'} shows where.")
        return 1
    return 0


def _sentence(error: SupervisorError | OSError, places: Places) -> str:
    if isinstance(error, OSError):
        return f"Cannot use {error.filename or places.data}: {error.strerror or error}."
    return str(error)


def _second_start(request: Request, places: Places, reports: Reports) -> None:
    """Another supervisor has the lock: fine when it serves what was asked for. Raises SupervisorError."""
    facts = record.read(places.state) or {}
    url, pid, phase = facts.get("url"), facts.get("pid"), facts.get("phase")
    if phase != "serving" or not isinstance(url, str) or not isinstance(pid, int):
        raise SupervisorError(f"The local API is {phase or 'starting'} already (pid {pid}); try again in a moment.")
    running = f"The local API is already running at {url} (pid {pid})"
    if bool(facts.get("sandbox")) != request.sandbox:
        kind = "without --sandbox" if request.sandbox else "with --sandbox"
        raise SupervisorError(f"{running}, {kind}; stop it first: `anycloud api stop`.")
    if request.kube_assets and not facts.get("kubeAssets"):
        raise SupervisorError(f"{running}, without --kube-assets; stop it first: `anycloud api stop`.")
    if request.port not in (None, urlsplit(url).port):
        raise SupervisorError(f"{running}; to change its port, stop it first: `anycloud api stop`.")
    reports.serving(url, pid, request.sandbox, already=True)


def _run_locked(request: Request, places: Places, reports: Reports, environ: Mapping[str, str], plan: Plan) -> None:
    """From a locked directory to the end. Raises SupervisorError, OSError."""
    _log_to(places.logs / "supervisor.log")
    _check_world(places.world, request.sandbox)
    _end_leftovers(places.state, reports)
    port = request.port or _last_port(places.local_url)
    if not sandbox.port_is_free(port):
        raise SupervisorError(f"Port {port} is in use; choose another one: `anycloud api start --port <port>`.")
    _prepare(places, request.sandbox)
    if request.sandbox:
        kube_assets.choose(places.sandbox, kube_assets.asked(request.kube_assets, environ), environ)
    url = f"http://{_HOST}:{port}"
    world = sandbox.world_url(places.sandbox) if request.sandbox else None
    facts = {"url": url, "sandbox": request.sandbox, "sandboxUrl": world, "dataDir": str(places.data)}
    facts["kubeAssets"] = [str(folder) for folder in kube_assets.folders(places.sandbox, environ)]
    state = record.Record(places.state, facts, SystemClock())

    def serving() -> None:
        _announce(places, url)
        reports.serving(url, os.getpid(), request.sandbox, already=False)

    with runtime_dir(places.data, environ) as sockets:
        steps = plan(places, sockets, url, world, environ)
        supervisor = Supervisor(steps, state, SystemClock(), places.logs, reports.step)
        asyncio.run(live(supervisor, state, serving))


def _log_to(path: Path) -> None:
    """From here on stdout and stderr are the log, since the terminal that started us may close."""
    from anycloud_common.telemetry import logs

    descriptor = LogFile(path).open()
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    logs.configure("supervisor")
    log.info("started", extra={"pid": os.getpid(), "python": sys.executable})


def _check_world(path: Path, with_sandbox: bool) -> None:
    """Data of a sandbox and of real clouds never mix: the first start decides. Raises SupervisorError, OSError."""
    asked = "sandbox" if with_sandbox else "real"
    kept = files.read(path)
    if kept is None:
        files.write(path, asked + "\n")
    elif kept != asked:
        how = "with --sandbox" if kept == "sandbox" else "without --sandbox"
        said = f"The data in {path.parent} were begun {how}: start {how}, or choose another ANYCLOUD_DIR."
        raise SupervisorError(said)


def _end_leftovers(path: Path, reports: Reports) -> None:
    """What a killed supervisor left is ended by its recorded pid and start time, and nothing else is."""
    facts = record.read(path)
    ended = [] if facts is None else leftovers.end_recorded(facts)
    if facts is not None and ended:
        text = f"ended {', '.join(ended)}, left by a supervisor (pid {facts.get('pid')}) that was killed"
        log.warning(text)
        reports.step("leftovers", "done", text)


def _last_port(path: Path) -> int:
    try:
        return urlsplit(files.read(path) or "").port or _DEFAULT_PORT
    except ValueError:
        return _DEFAULT_PORT


def _prepare(places: Places, with_sandbox: bool) -> None:
    """Tokens and directories that are there before the first process. Raises OSError."""
    if files.read(places.local_token) is None:
        files.write(places.local_token, secrets.token_urlsafe(32) + "\n")
    if with_sandbox:
        for directory in (places.sandbox / "world", places.sandbox / "agent"):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if files.read(places.sign_in) is None:
            files.write(places.sign_in, sandbox.SIGN_IN + "\n")


def installation(places: Places, sockets: Path, url: str, world: str | None, environ: Mapping[str, str]) -> list[Step]:
    """The plan of a local installation. Raises SupervisorError, OSError."""
    base = inherited(environ)
    env = {
        **base,
        "ANYCLOUD_MODE": "installer",
        "ANYCLOUD_DATA_DIR": str(places.data),
        "ANYCLOUD_RUNTIME_DIR": str(sockets),
        "ANYCLOUD_PUBLIC_URL": url,
        "ANYCLOUD_LOCAL_TOKEN_FILE": str(places.local_token),
    }
    before: list[Step] = []
    if world is not None:
        env["ANYCLOUD_SANDBOX_URL"] = world
        before = sandbox.sandbox_steps(places.sandbox, world, base, kube_assets.folders(places.sandbox, environ))
    listen = Listen(_HOST, urlsplit(url).port or _DEFAULT_PORT)
    access_log = LogFile(places.logs / "access.log")
    access_log.rotate()
    return [*before, *service_steps(env, sockets, listen, access_log.path)]


def _announce(places: Places, url: str) -> None:
    """Tells clients where the API is; a choice of a hosted API stays. Raises OSError."""
    files.write(places.local_url, url + "\n")
    active = files.read(places.api_url)
    if active is None or urlsplit(active).hostname in _LOOPBACK_NAMES:
        files.write(places.api_url, url + "\n")
