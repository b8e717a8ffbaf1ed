"""`anycloud api`: start, status and stop against a supervisor whose processes are stand-ins."""

from __future__ import annotations

import os
import re
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from anycloud_cli import supervisor
from anycloud_cli.views import api as view
from anycloud_control_plane.programs import HELM, SERVERS

PROGRAM = Path(__file__).parents[1] / "supervisor" / "fake_installation.py"
NOW = 1_790_000_000_000


@pytest.fixture
def port(cli: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A free port, on a machine where nothing was started yet."""
    monkeypatch.setattr(supervisor, "_command", lambda words: [sys.executable, str(PROGRAM), *words])
    for name in ("api-url", "local-api-token"):
        (cli.directory / name).unlink()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free = str(probe.getsockname()[1])
    yield free
    cli("api", "stop")


def test_start_returns_once_the_api_serves_and_stop_once_it_is_gone(cli: Any, port: str) -> None:
    started = cli("api", "start", "--port", port)
    assert started.code == 0
    assert re.fullmatch(rf"The local API serves at http://127\.0\.0\.1:{port} \(pid \d+\)\.\n", started.out)
    assert started.err.splitlines()[0] == "◌ world  starting"
    assert started.err.splitlines()[-1] == "✓ envoy  ready"
    again = cli("api", "start", "--port", port)
    assert again.out == started.out.replace("serves", "is already running")
    status = cli("api", "status", "--json").json
    assert (status["state"], status["compatible"], status["servedVersion"]) == ("running", True, "0.1.70")
    assert [process["name"] for process in status["local"]["processes"]] == ["world", "migrate", "envoy"]
    assert cli("api", "stop").out == "Stopped world, envoy, supervisor.\n"
    assert cli("api", "stop") == (0, "The local API is not running.\n", "")


def test_a_stopped_api_is_told_with_the_command_that_starts_it(cli: Any, port: str) -> None:
    assert cli("api", "status", "--json").json["local"] is None
    cli("api", "start", "--port", port)
    cli("api", "stop")
    run = cli("api", "status")
    assert run.code == 1
    assert run.out.splitlines()[1] == "⚡  not running"
    assert run.err.endswith("start it with `anycloud api start`.\n")


@pytest.mark.parametrize("sandbox", [True, False])
def test_status_tells_a_sandbox(cli: Any, port: str, sandbox: bool) -> None:
    started = cli("api", "start", "--port", port, "--json", *(["--sandbox"] if sandbox else [])).json
    assert started["sandbox"] is sandbox
    assert cli("api", "status", "--json").json["sandbox"] is sandbox
    kind = "local · sandbox" if sandbox else "local"
    assert f"   URL:     http://127.0.0.1:{port} ({kind})\n" in cli("api", "status").out


def test_real_control_planes_are_a_sandboxs_and_their_programs_must_be_there(
    cli: Any, port: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANYCLOUD_KUBE_ASSETS", raising=False)
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    assets = tmp_path / "assets"
    assets.mkdir()
    words = ("api", "start", "--port", port, "--kube-assets", str(assets))
    refused = cli(*words)
    assert refused.code == 1
    assert f"{assets} lacks kube-apiserver, " in refused.err
    for name in ("kine", *SERVERS, *HELM):
        (assets / name).touch(0o755)
    started = cli(*words, "--json").json
    assert started["sandbox"] is True
    assert cli("api", "status", "--json").json["local"]["kubeAssets"] == [str(assets)]


def test_a_failing_start_gives_the_failing_steps_sentence(cli: Any, port: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_REFUSAL", "The disk is full.")
    run = cli("api", "start", "--port", port)
    assert (run.code, run.out) == (1, "")
    assert run.err.splitlines()[-2:] == ["✗ migrate  failed", "migrate didn't start: The disk is full."]


def test_a_supervisor_that_breaks_gives_its_last_words(cli: Any, port: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = [sys.executable, "-c", "import sys; sys.exit('no module named anything')"]
    monkeypatch.setattr(supervisor, "_command", lambda words: broken)
    assert cli("api", "start") == (1, "", "no module named anything\n")


def test_a_start_beside_an_active_hosted_api_tells_where_commands_go(cli: Any, port: str) -> None:
    cli.write("api-url", "https://cl-abc.anycloud.sh\n")
    out = cli("api", "start", "--port", port).out.splitlines()
    assert out[1] == "Commands still go to https://cl-abc.anycloud.sh; `anycloud api use local` brings them here."
    cli("api", "use", "local")
    assert (cli.directory / "api-url").read_text() == f"http://127.0.0.1:{port}\n"


@pytest.mark.req("OPEN-021")
def test_a_restarting_api_is_given_ten_seconds(cli: Any, api: Any, port: str) -> None:
    cli.write("api-url", api.url)
    cli.write("local-api-token", "install-token")
    api.refuse("GET", "/system-release", 503, "API_RESTARTING", "The API is restarting.")
    run = cli("api", "status")
    assert (run.code, run.err) == (1, "The API is restarting.\n")
    assert 5 < cli.clock.elapsed <= 10
    release = {"servedVersion": "0.1.70", "schemaVersion": None, "upgrade": None, "rollout": None}
    cli.clock.on_sleep = lambda: api.on("GET", "/system-release", release)
    assert cli("api", "status").code == 0


def test_an_api_of_another_version_is_told(cli: Any, api: Any, port: str) -> None:
    cli.write("api-url", api.url)
    cli.write("local-api-token", "install-token")
    release = {"servedVersion": "0.1.71", "schemaVersion": None, "upgrade": None, "rollout": None}
    api.on("GET", "/system-release", release)
    run = cli("api", "status")
    assert run.code == 1
    assert "   Version: 0.1.71, which this CLI of version 0.1.70 doesn't fit\n" in run.out


STATUS = """
⚡  running

   URL:     http://127.0.0.1:8080 (local · sandbox)
   Version: 0.1.70
   Schema:  cluster=3
   Catalog: 2026.10.1

   Upgrade 2 · 0.1.71
   ✗ release  failed: The check Job failed.

   Local API serving at http://127.0.0.1:8080: pid 7, for 3h, data in /home/me/.anycloud/data

   NAME     PID  STATE        RESTARTS  LAST EXIT
   migrate  -    done         0         exit code 0, 3h ago
   envoy    9    running      0
   cluster  -    backing off  2         killed by SIGKILL, 5s ago
"""


def test_status_shows_release_upgrade_and_processes() -> None:
    ago = NOW - 10_800_000
    local = {
        "alive": True,
        "pid": 7,
        "phase": "serving",
        "url": "http://127.0.0.1:8080",
        "startedAt": ago,
        "dataDir": "/home/me/.anycloud/data",
        "processes": [
            {"name": "migrate", "pid": None, "state": "done", "restarts": 0, "lastExit": _exit("exit code 0", ago)},
            {"name": "envoy", "pid": 9, "state": "running", "restarts": 0, "lastExit": None},
            {
                "name": "cluster",
                "pid": None,
                "state": "backing off",
                "restarts": 2,
                "lastExit": _exit("killed by SIGKILL", NOW - 5_000),
            },
        ],
    }
    facts = {
        "state": "running",
        "url": "http://127.0.0.1:8080",
        "kind": "local",
        "sandbox": True,
        "clientVersion": "0.1.70",
        "compatible": True,
        "catalogVersion": "2026.10.1",
        "servedVersion": "0.1.70",
        "schemaVersion": "cluster=3",
        "upgrade": {"number": 2, "apiVersion": "0.1.71", "state": "failed", "lastError": "The check Job failed."},
        "rollout": None,
        "local": local,
    }
    assert "\n".join(view.status(facts, NOW)) + "\n" == STATUS


def test_status_tells_what_a_killed_supervisor_left(cli: Any, port: str) -> None:
    pid = cli("api", "start", "--port", port, "--json").json["pid"]
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    run = cli("api", "status")
    assert f"   Local API without its supervisor (pid {pid}); `anycloud api start` starts it anew\n" in run.out
    assert cli("api", "start", "--port", port).code == 0


def _exit(reason: str, at: int) -> dict[str, Any]:
    return {"reason": reason, "at": at}
