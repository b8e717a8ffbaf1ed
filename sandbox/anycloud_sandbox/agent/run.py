"""Runs of containers: processes started under a shim, found again after the agent was killed."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from anycloud_sandbox.agent import shim
from anycloud_sandbox.state import Json

LOG_BYTES = 1 << 20
MARK = "ANYCLOUD_SANDBOX_RUN"  # in the environment of every process of a container: its run's directory


class Run:
    """One run of a container: its number, directory, and the shim that keeps it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.number = folder, int(folder.name)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, pod_uid: str, image: str, argv: list[str], env: dict[str, str], cwd: Path) -> None:
        """The shim is recorded before it is told what to start: no command runs that no record names."""
        self.folder.mkdir(mode=0o700, parents=True)
        command = [sys.executable, "-I", "-S", shim.__file__, str(self.folder)]
        env = env | {MARK: str(self.folder)}
        with (self.folder / "shim.err").open("wb") as err:
            self._process = subprocess.Popen(  # noqa: S603
                command, env=env, cwd=cwd, stdin=subprocess.PIPE, stdout=err, stderr=err, start_new_session=True
            )
        record: Json = {"pid": self._process.pid, "startTime": _start_time(self._process.pid)}
        record |= {"podUid": pod_uid, "image": image}
        (self.folder / "shim.json").write_text(json.dumps(record))
        assert self._process.stdin
        self._process.stdin.write(json.dumps({"argv": argv, "logBytes": LOG_BYTES}).encode() + b"\n")
        self._process.stdin.close()

    @property
    def pid(self) -> int:
        """Of the shim while it lives, else 0; a number that was given to another process since does not count."""
        record = _read(self.folder / "shim.json") or {"pid": 0, "startTime": 0}
        return int(record["pid"]) if _start_time(record["pid"]) == record["startTime"] else 0

    @property
    def image(self) -> str:
        """The pinned reference that it was started from."""
        return str((_read(self.folder / "shim.json") or {}).get("image", ""))

    @property
    def exit(self) -> Json | None:
        """How it ended; 137 when its keeper was killed with it. None while it runs."""
        if (found := _read(self.folder / "exit.json")) or self.pid:
            return found
        lost = {"exitCode": 137, "startedAt": self.started_at, "finishedAt": self.started_at}
        return _read(self.folder / "exit.json") or lost  # it may have ended between the two looks

    @property
    def started_at(self) -> float:
        return (self.folder / "shim.json").stat().st_mtime

    def signal(self, number: int) -> None:
        if pid := self.pid:
            os.kill(pid, number)

    async def wait(self) -> Json:
        if pid := self.pid:
            descriptor, ended = os.pidfd_open(pid), asyncio.Event()
            asyncio.get_running_loop().add_reader(descriptor, ended.set)
            try:
                await ended.wait()
            finally:
                asyncio.get_running_loop().remove_reader(descriptor)
                os.close(descriptor)
        if self._process:
            self._process.wait()
        if not (self.folder / "exit.json").exists():
            await asyncio.to_thread(_end_all, self.folder)
        return self.exit or {}


def runs_in(folder: Path) -> list[Run]:
    """Of one container, oldest first."""
    return sorted((Run(path.parent) for path in folder.glob("*/shim.json")), key=lambda run: run.number)


def next_run(folder: Path) -> Run:
    """Not started yet; the last two runs keep their logs."""
    found = runs_in(folder)
    for old in found[:-1]:
        shutil.rmtree(old.folder)
    return Run(folder / str(found[-1].number + 1 if found else 0))


def kill_everything(machine: Path, pod: str = "*", number: int = signal.SIGUSR1) -> None:
    """Power cut: every container that is recorded on a machine (or of one Pod) ends now."""
    for record in machine.glob(f"pods/{pod}/runs/*/*/shim.json"):
        Run(record.parent).signal(number)


def _end_all(folder: Path) -> None:
    """What a killed shim left: all processes of a container end together."""
    mark = f"{MARK}={folder}".encode()
    while left := [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/environ") if _says(path, mark)]:
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def _says(environ: Path, mark: bytes) -> bool:
    try:
        return mark in environ.read_bytes().split(b"\0")
    except OSError:  # it has ended, or is another user's
        return False


def _read(path: Path) -> Json | None:
    try:
        return dict(json.loads(path.read_text()))
    except (OSError, ValueError):
        return None


def _start_time(pid: int) -> int | None:
    """In clock ticks since boot; None for a process that is gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])
