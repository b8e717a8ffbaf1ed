"""The real Envoy as one of the processes, before services that do nothing but being healthy."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from anycloud_common.clock import SystemClock
from anycloud_supervisor import probes
from anycloud_supervisor.envoy import Listen, envoy
from anycloud_supervisor.plan import ProcessSpec, Step
from anycloud_supervisor.probes import grpc_answers, grpc_health, http, http_answers
from anycloud_supervisor.record import Record
from anycloud_supervisor.services import SERVICES
from anycloud_supervisor.supervisor import Supervisor

PROGRAM = Path(__file__).with_name("fake_services.py")


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
async def supervisor(tmp_path: Path, port: int) -> AsyncIterator[Supervisor]:
    env = {"PATH": os.environ["PATH"]}
    sockets = [tmp_path / f"{name}.sock" for name in SERVICES]
    argv = [sys.executable, str(PROGRAM), *map(str, sockets)]
    services = ProcessSpec("services", argv, env, grpc_health(sockets[-1]))
    door = envoy(Listen("127.0.0.1", port), tmp_path, tmp_path / "access.log", env)
    record = Record(tmp_path / "state.json", {}, SystemClock())
    made = Supervisor([Step([services, door])], record, SystemClock(), tmp_path / "logs")
    yield made
    await made.stop()


async def test_envoy_is_ready_when_the_services_are_and_ends_gently(
    supervisor: Supervisor, tmp_path: Path, port: int
) -> None:
    await supervisor.start()
    assert (await http("GET", f"http://127.0.0.1:{port}/healthz")).status == 200
    await asyncio.wait_for(supervisor.stop(), 5)
    with pytest.raises(OSError, match="refused"):
        await http("GET", f"http://127.0.0.1:{port}/healthz")
    assert "drain failed" not in "".join(path.read_text() for path in (tmp_path / "logs").iterdir())
    facts = json.loads((tmp_path / "state.json").read_text())
    assert {process["state"] for process in facts["processes"]} == {"stopped"}


async def test_grpc_health_on_a_socket_that_nobody_serves_is_not_ready(tmp_path: Path) -> None:
    probe = grpc_health(tmp_path / "x.sock")
    assert not await probe()
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(tmp_path / "x.sock"))
        assert not await probe()


async def test_a_stopped_process_does_not_answer_and_an_unhealthy_one_does(
    supervisor: Supervisor, tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probes, "_HUNG_SECONDS", 1.0)
    at_services, at_envoy = grpc_answers(tmp_path / "cluster.sock"), http_answers(f"http://127.0.0.1:{port}/healthz")
    await supervisor.start()
    assert await at_services()
    pids = {entry["name"]: entry["pid"] for entry in json.loads((tmp_path / "state.json").read_text())["processes"]}
    os.kill(pids["services"], signal.SIGSTOP)
    assert not await at_services()
    assert await at_envoy(), "it says that the services are not healthy"
    os.kill(pids["envoy"], signal.SIGSTOP)
    assert not await at_envoy()
    for pid in pids.values():
        os.kill(pid, signal.SIGCONT)
