"""A disk that can't be written, a port that is taken, a start too many, a state file that tells of another time:
each gets one sentence, and nothing half-written stays."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from anycloud_supervisor.identity import Identity

from tests.support.installation import ANYCLOUD, KEYS, Done, Installation, free_port, full_disk, until

pytestmark = pytest.mark.timeout(180)
_CAP_DAC_OVERRIDE, _PR_CAPBSET_DROP = 1, 24
NEW = ("credentials", "new")
SAVE = ("--provider", "aws", "--json")


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Installation]:
    with Installation(tmp_path / "anycloud") as made:
        yield made


def obey_modes() -> None:
    """For a child of root: let file modes hold for it as for everybody."""
    if os.geteuid() == 0:
        dropped = ctypes.CDLL(None, use_errno=True).prctl(_PR_CAPBSET_DROP, _CAP_DAC_OVERRIDE, 0, 0, 0)
        assert dropped == 0, os.strerror(ctypes.get_errno())


def no_file_beyond(size: int) -> Callable[[], None]:
    """For a child: a disk that is full as soon as a file would exceed `size` bytes."""

    def limit() -> None:
        _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, most))

    return limit


@contextmanager
def read_only(directory: Path) -> Iterator[None]:
    """This directory and all below it. What is there can be read."""
    modes = {path: path.stat().st_mode for path in [directory, *directory.rglob("*")] if not path.is_symlink()}
    try:
        for path, mode in modes.items():
            path.chmod(mode & ~0o222)
        yield
    finally:
        for path, mode in modes.items():
            path.chmod(mode)


def sentence(done: Done) -> str:
    """The one line on stderr behind the steps, with nothing on stdout."""
    assert done.stdout == ""
    lines = [line for line in done.stderr.splitlines() if line[:1] not in ("◌", "✓", "✗")]
    assert len(lines) == 1, done.stderr
    assert "Traceback" not in done.stderr
    return lines[0]


def files_below(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def credentials(installation: Installation) -> list[str]:
    return [credential["name"] for credential in installation.ask("credentials", "list")]


def test_a_directory_that_cannot_be_made_is_named(fresh: Installation) -> None:
    fresh.directory.parent.chmod(0o500)
    try:
        done = fresh.cli("api", "start", "--sandbox", code=1, before=obey_modes)
    finally:
        fresh.directory.parent.chmod(0o700)
    assert sentence(done) == f"Cannot write to {fresh.directory}: Permission denied."
    assert not fresh.directory.exists()
    assert fresh.processes() == []


def test_of_two_starts_at_once_one_serves_and_the_other_tells_so(fresh: Installation) -> None:
    words = [str(ANYCLOUD), "api", "start", "--sandbox", "--port", str(fresh.port)]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    both = [subprocess.Popen(words, env=fresh.environment, **pipes) for _ in range(2)]
    told = [process.communicate(timeout=60) for process in both]
    ended = [Done(process.returncode, *streams) for process, streams in zip(both, told, strict=True)]
    assert 0 in [done.code for done in ended]
    for done in ended:
        assert done.code == 0 or sentence(done).startswith("The local API is starting already")
    assert [process.name for process in fresh.processes()].count("supervisor") == 1


# From here on one installation goes through it all, test by test.


def test_a_taken_port_is_named_with_the_way_out_and_nothing_is_started(installation: Installation) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", installation.port))
        holder.listen()
        said = f"Port {installation.port} is in use; choose another one: `anycloud api start --port <port>`."
        assert sentence(installation.start(code=1)) == said
    assert installation.processes() == []
    assert not (installation.directory / "api-url").exists()


@pytest.mark.parametrize("kibibytes", [1, 32, 64])
def test_a_start_on_a_full_disk_tells_so_and_leaves_nothing_running(installation: Installation, kibibytes: int) -> None:
    words = ("api", "start", "--sandbox", "--port", str(installation.port))
    told = sentence(installation.cli(*words, code=1, before=no_file_beyond(kibibytes << 10)))
    assert "disk" in told or "File too large" in told
    assert installation.processes() == []


def test_after_a_full_disk_the_first_start_is_still_the_first(installation: Installation) -> None:
    serves = f"The local API serves at http://127.0.0.1:{installation.port} (pid "
    assert installation.start().stdout.startswith(serves)
    installation.cli(*NEW, "first", *SAVE, env=KEYS)
    assert credentials(installation) == ["first"]


def test_a_second_start_is_fine_when_it_asks_for_what_runs_and_refused_when_not(installation: Installation) -> None:
    pid = installation.state()["pid"]
    running = f"The local API is already running at http://127.0.0.1:{installation.port} (pid {pid})"
    assert installation.start().stdout == f"{running}.\n"
    stop = "stop it first: `anycloud api stop`."
    other = installation.cli("api", "start", "--sandbox", "--port", str(free_port()), code=1)
    assert sentence(other) == f"{running}; to change its port, {stop}"
    assert sentence(installation.cli("api", "start", code=1)) == f"{running}, with --sandbox; {stop}"
    assert installation.state()["pid"] == pid


def test_a_disk_that_fills_up_refuses_writes_and_the_service_lives_on(installation: Installation) -> None:
    service = installation.process("installer/cluster")
    assert service is not None
    with full_disk(service):
        refused = [installation.cli(*NEW, f"refused-{number}", *SAVE, env=KEYS, code=1) for number in range(3)]
        assert all(sentence(done) for done in refused)
        assert credentials(installation) == ["first"]
    installation.cli(*NEW, "second", *SAVE, env=KEYS)
    assert service.alive
    assert credentials(installation) == ["first", "second"]


def test_a_data_directory_turned_read_only_is_named_and_left_as_it_was(installation: Installation) -> None:
    installation.cli("api", "stop")
    before = files_below(installation.directory)
    with read_only(installation.directory / "data"):
        done = installation.cli("api", "start", "--sandbox", code=1, before=obey_modes)
        assert sentence(done) == f"Cannot write to {installation.directory / 'data'}: Permission denied."
    assert files_below(installation.directory) == before
    assert installation.processes() == []


@pytest.mark.parametrize("damage", ["another process", "no JSON"])
def test_a_stale_state_file_harms_nobody(installation: Installation, damage: str) -> None:
    installation.cli("api", "stop")
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    try:
        until(lambda: Identity.of(sleeper.pid), 5)
        state = installation.directory / "data/supervisor/state.json"
        state.write_text(stale(sleeper.pid) if damage == "another process" else "{")
        assert installation.cli("api", "stop").stdout == "The local API is not running.\n"
        assert installation.start().stdout.startswith("The local API serves at ")
        assert installation.state()["pid"] != sleeper.pid
        assert sleeper.poll() is None
        assert credentials(installation) == ["first", "second"]
    finally:
        sleeper.kill()
        sleeper.wait()


def stale(pid: int) -> str:
    """What a supervisor wrote down whose pids others have by now."""
    other = {"pid": pid, "started": 1, "boot": Path("/proc/sys/kernel/random/boot_id").read_text().strip()}
    process = {**other, "name": "cluster", "state": "running", "restarts": 0, "lastExit": None, "since": 0}
    about = {"url": "http://127.0.0.1:1", "sandbox": True, "sandboxUrl": "http://127.0.0.1:2", "dataDir": "/nowhere"}
    facts = {**other, **about, "startedAt": int(time.time() * 1000), "phase": "serving", "processes": [process]}
    return json.dumps(facts)
