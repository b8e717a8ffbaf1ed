"""The local installation as `anycloud api start` meets it: a program, its reports, its files and its end."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from anycloud_supervisor.identity import Identity
from anycloud_supervisor.leftovers import await_end

PROGRAM = Path(__file__).with_name("fake_installation.py")


class Installation:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = _free_port()
        self.running: list[subprocess.Popen[bytes]] = []

    def command(self, *words: str) -> list[str]:
        return [sys.executable, str(PROGRAM), *words]

    def env(self, **more: str) -> dict[str, str]:
        return {**os.environ, "ANYCLOUD_DIR": str(self.directory), **more}

    def start(self, *words: str, port: int | None = None, **more: str) -> list[dict[str, Any]]:
        """The reports of a start; the last one is its verdict."""
        reading, writing = os.pipe()
        options = ["--port", str(port or self.port), "--report", str(writing), *words]
        process = subprocess.Popen(self.command("local", *options), pass_fds=(writing,), env=self.env(**more))
        self.running.append(process)
        os.close(writing)
        with os.fdopen(reading) as reports:
            return [json.loads(line) for line in reports]

    def ask(self, what: str) -> Any:
        done = subprocess.run(self.command(what), env=self.env(), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def state(self) -> dict[str, Any]:
        facts: dict[str, Any] = json.loads((self.directory / "data/supervisor/state.json").read_text())
        return facts

    def identities(self) -> dict[str, Identity]:
        found = {process["name"]: Identity.from_record(process) for process in self.state()["processes"]}
        return {name: identity for name, identity in found.items() if identity is not None}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def installation(tmp_path: Path) -> Iterator[Installation]:
    made = Installation(tmp_path / "anycloud")
    yield made
    if (made.directory / "data/supervisor/state.json").exists():
        subprocess.run(made.command("stop"), env=made.env(), check=False, capture_output=True)
    for process in made.running:
        process.wait(20)


def test_a_start_reports_each_step_and_then_where_it_serves(installation: Installation) -> None:
    reports = installation.start()
    told = [(report["step"], report["state"]) for report in reports[:-1]]
    starting_and_done = [(name, state) for name in ("world", "migrate", "envoy") for state in ("starting", "done")]
    assert told == starting_and_done
    url = f"http://127.0.0.1:{installation.port}"
    assert reports[-1] == {"url": url, "pid": installation.state()["pid"], "sandbox": False, "alreadyRunning": False}


def test_a_start_leaves_what_clients_need_in_private_files(installation: Installation) -> None:
    installation.start("--sandbox")
    url = f"http://127.0.0.1:{installation.port}"
    files = {
        name: (installation.directory / name).read_text().strip() for name in ("api-url", "local-api-url", ".token")
    }
    assert files == {"api-url": url, "local-api-url": url, ".token": "ghs_sandbox_demo"}
    assert len((installation.directory / "local-api-token").read_text().strip()) >= 32
    for name in ("local-api-token", "api-url", ".token"):
        assert stat.S_IMODE((installation.directory / name).stat().st_mode) == 0o600
    assert stat.S_IMODE(installation.directory.stat().st_mode) == 0o700


def test_the_token_the_sign_in_and_a_choice_of_a_hosted_api_survive_a_restart(installation: Installation) -> None:
    installation.start("--sandbox")
    token = (installation.directory / "local-api-token").read_text()
    installation.ask("stop")
    (installation.directory / ".token").write_text("ghp_mine")
    (installation.directory / "api-url").write_text("http://127.0.0.2:9\n")
    installation.start("--sandbox")
    assert (installation.directory / "local-api-token").read_text() == token
    assert (installation.directory / ".token").read_text() == "ghp_mine"
    assert (installation.directory / "api-url").read_text() == "http://127.0.0.2:9\n"


def test_a_failing_step_gives_its_sentence_and_leaves_nothing_running(installation: Installation) -> None:
    reports = installation.start(FAKE_REFUSAL="The data directory is of a newer version.")
    assert reports[-1] == {"failed": "migrate didn't start: The data directory is of a newer version."}
    assert installation.running[0].wait(20) == 1
    assert installation.identities() == {}
    assert not (installation.directory / "api-url").exists()


def test_a_second_start_names_the_running_api(installation: Installation) -> None:
    first = installation.start()[-1]
    assert installation.start()[-1] == {**first, "alreadyRunning": True}


def test_a_second_start_with_other_wishes_is_refused(installation: Installation) -> None:
    pid = installation.start()[-1]["pid"]
    running = f"The local API is already running at http://127.0.0.1:{installation.port} (pid {pid})"
    stop = "stop it first: `anycloud api stop`."
    assert installation.start("--sandbox")[-1] == {"failed": f"{running}, without --sandbox; {stop}"}
    assert installation.start(port=_free_port())[-1] == {"failed": f"{running}; to change its port, {stop}"}


def test_a_port_in_use_is_named(installation: Installation) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", installation.port))
        holder.listen()
        said = f"Port {installation.port} is in use; choose another one: `anycloud api start --port <port>`."
        assert installation.start() == [{"failed": said}]


def test_a_directory_that_cannot_be_written_is_named(installation: Installation) -> None:
    installation.directory.touch()
    assert installation.start() == [{"failed": f"Cannot write to {installation.directory}: File exists."}]


@pytest.mark.parametrize(("first", "then"), [(("--sandbox",), ()), ((), ("--sandbox",))])
def test_data_of_a_sandbox_and_of_real_clouds_never_mix(
    installation: Installation, first: tuple[str, ...], then: tuple[str, ...]
) -> None:
    installation.start(*first)
    installation.ask("stop")
    how = "with --sandbox" if first else "without --sandbox"
    said = f"The data in {installation.directory}/data were begun {how}: start {how}, or choose another ANYCLOUD_DIR."
    assert installation.start(*then) == [{"failed": said}]


def test_stop_ends_supervisor_and_processes_and_is_harmless_when_repeated(installation: Installation) -> None:
    assert installation.ask("stop") == {"stopped": []}
    installation.start()
    processes = installation.identities()
    assert sorted(installation.ask("stop")["stopped"]) == ["envoy", "supervisor", "world"]
    assert not any(identity.alive for identity in processes.values())
    assert installation.ask("stop") == {"stopped": []}


def test_after_a_killed_supervisor_the_next_start_ends_what_it_left_and_nothing_else(
    installation: Installation,
) -> None:
    installation.start()
    left = installation.identities()
    bystander = subprocess.Popen(["/bin/sleep", "1000"])
    try:
        _record_as_reused(installation, bystander.pid)
        installation.running[0].kill()
        installation.running[0].wait()
        assert all(identity.alive for identity in left.values())
        reports = installation.start()
        assert reports[0]["step"] == "leftovers"
        assert "ended world, envoy, left by a supervisor" in reports[0]["text"]
        assert "url" in reports[-1]
        assert not any(identity.alive for identity in left.values())
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def _record_as_reused(installation: Installation, pid: int) -> None:
    """Puts a process on record whose pid somebody else has by now."""
    identity = Identity.of(pid)
    assert identity is not None
    path = installation.directory / "data/supervisor/state.json"
    facts = installation.state()
    former = identity._replace(started=identity.started - 100)
    facts["processes"].append({"name": "former", "state": "running", **former._asdict()})
    path.write_text(json.dumps(facts))


def test_stop_ends_what_a_killed_supervisor_left(installation: Installation) -> None:
    installation.start()
    left = installation.identities()
    installation.running[0].kill()
    installation.running[0].wait()
    assert installation.ask("status")["alive"] is False
    assert sorted(installation.ask("stop")["stopped"]) == ["envoy", "world"]
    assert not any(identity.alive for identity in left.values())


def test_status_tells_restarts_and_the_last_exit(installation: Installation) -> None:
    assert installation.ask("status") is None
    installation.start()
    envoy = installation.identities()["envoy"]
    os.kill(envoy.pid, signal.SIGKILL)
    assert await_end([envoy], 5)
    for _ in range(200):
        facts = installation.ask("status")
        process = next(process for process in facts["processes"] if process["name"] == "envoy")
        if process["state"] == "running":
            break
    assert (facts["alive"], facts["phase"]) == (True, "serving")
    assert (process["restarts"], process["lastExit"]["reason"], process["alive"]) == (1, "killed by SIGKILL", True)


def test_sigterm_during_the_start_ends_it_cleanly(installation: Installation) -> None:
    reading, writing = os.pipe()
    words = ["local", "--port", str(installation.port), "--report", str(writing)]
    process = subprocess.Popen(installation.command(*words), pass_fds=(writing,), env=installation.env())
    os.close(writing)
    with os.fdopen(reading) as reports:
        first = json.loads(reports.readline())
        process.terminate()
        rest = [json.loads(line) for line in reports]
    assert first["step"] == "world"
    assert process.wait(20) == (0 if "url" in rest[-1] else 1)
    assert installation.identities() == {}
