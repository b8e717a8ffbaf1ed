"""Envoy as one of the processes: its configuration, and its gentle end."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import NamedTuple

from anycloud_supervisor import files
from anycloud_supervisor.plan import ProcessSpec
from anycloud_supervisor.probes import http, http_answers, http_ok

_ACTIVE = "http.public.downstream_rq_active"
_LOOK_SECONDS = 0.1


class Listen(NamedTuple):
    """Where Envoy takes calls."""

    host: str
    port: int


def envoy(listen: Listen, runtime_dir: Path, access_log: Path, env: dict[str, str]) -> ProcessSpec:
    """The door of the installation: ready once every service behind it is healthy. Raises OSError."""
    from anycloud_gateway import command, config

    admin = runtime_dir / "admin.sock"
    bootstrap = config.envoy_config(
        listen_host=listen.host,
        listen_port=listen.port,
        runtime_dir=runtime_dir,
        admin=admin,
        access_log=access_log,
    )
    path = runtime_dir / "envoy.json"
    files.write(path, json.dumps(bootstrap))

    async def drain() -> None:
        await _drain(admin)

    health = f"http://{_reachable(listen.host)}:{listen.port}/healthz"
    argv = command.command(path)
    alive = http_answers(health)
    return ProcessSpec("envoy", argv, env, http_ok(health), before_stop=drain, stop_seconds=5.0, answers=alive)


async def _drain(admin: Path) -> None:
    """Takes no new calls, and waits for those under way: the services end held ones at once while they stop."""
    await http("POST", "http://admin/healthcheck/fail", socket=admin)
    await http("POST", "http://admin/drain_listeners?graceful&skip_exit", socket=admin)
    while await _active(admin):  # noqa: ASYNC110  (Envoy can only be asked)
        await asyncio.sleep(_LOOK_SECONDS)


async def _active(admin: Path) -> int:
    """Calls under way."""
    answer = await http("GET", f"http://admin/stats?filter=^{_ACTIVE}$", socket=admin)
    return int(answer.body.rpartition(b":")[2])


def _reachable(host: str) -> str:
    return "127.0.0.1" if host == "0.0.0.0" else host  # noqa: S104  (compared, not bound)
