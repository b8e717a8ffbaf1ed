"""Containers as processes: started under a shim, found again after the agent was killed."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from anycloud_sandbox.agent import shim
from anycloud_sandbox.state import Json

LOG_BYTES = 1 << 20


class Run:
    """One run of a container: number and directory, and the shim that keeps it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.number = folder, int(folder.name)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, pod_uid: str, argv: list[str], env: dict[str, str], cwd: Path) -> None:
        """The shim is recorded before it is told what to start: no command runs that no record names."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        command = [sys.executable, "-I", "-S", shim.__file__, str(self.folder)]
        with (self.folder / "shim.err").open("wb") as errors:
            self._process = subprocess.Popen(  # noqa: S603
                command, env=env, cwd=cwd, stdin=subprocess.PIPE, stdout=errors, stderr=errors, start_new_session=True
            )
        record = {"pid": self._process.pid, "startTime": _start_time(self._process.pid), "podUid": pod_uid}
        (self.folder / "shim.json").write_text(json.dumps(record))
        assert self._process.stdin
        self._process.stdin.write(json.dumps({"argv": argv, "logBytes": LOG_BYTES}).encode() + b"\n")
        self._process.stdin.close()

    @property
    def recorded(self) -> bool:
        return (self.folder / "shim.json").exists()

    @property
    def pid(self) -> int | None:
        """Of the shim, while it lives; a process number that was given to another since does not count."""
        record = _read(self.folder / "shim.json")
        alive = record and _start_time(record["pid"]) == record["startTime"]
        return int(record["pid"]) if record and alive else None

    @property
    def exit(self) -> Json | None:
        """How it ended; 137 when its keeper was killed with it. None while it runs."""
        found = _read(self.folder / "exit.json")
        if found or self.pid:
            return found
        at = (self.folder / "shim.json").stat().st_mtime
        return {"exitCode": 137, "startedAt": at, "finishedAt": at}

    @property
    def started_at(self) -> float:
        return (self.folder / "shim.json").stat().st_mtime

    def signal(self, number: int) -> None:
        if pid := self.pid:
            os.kill(pid, number)

    async def wait(self) -> Json:
        loop = asyncio.get_running_loop()
        if pid := self.pid:
            ended: asyncio.Future[None] = loop.create_future()
            descriptor = os.pidfd_open(pid)
            loop.add_reader(descriptor, lambda: ended.done() or ended.set_result(None))
            try:
                await ended
            finally:
                loop.remove_reader(descriptor)
                os.close(descriptor)
        if self._process:
            self._process.wait()
        return self.exit or {}


class Runs:
    """The runs of one container of one Pod; the last two keep their logs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def all(self) -> list[Run]:
        found = [path for path in self.folder.glob("*") if path.name.isdigit() and (path / "shim.json").exists()]
        return [Run(path) for path in sorted(found, key=lambda path: int(path.name))]

    def next(self) -> Run:
        found = self.all()
        for old in found[:-1]:
            shutil.rmtree(old.folder, ignore_errors=True)
        return Run(self.folder / str(found[-1].number + 1 if found else 0))

    def log(self, previous: bool) -> Path | None:
        found = self.all()
        index = 2 if previous else 1
        return found[-index].folder / "log" if len(found) >= index else None


def kill_everything(machine: Path, pod: str = "*") -> None:
    """Power cut: every container that is recorded on a machine (or of one Pod) ends now."""
    for record in machine.glob(f"pods/{pod}/*/runs/*/shim.json"):
        Run(record.parent).signal(signal.SIGUSR1)


def _read(path: Path) -> Json | None:
    try:
        found: Json = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return found


def _start_time(pid: int) -> int | None:
    """In clock ticks since boot; None for a process that is gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])
