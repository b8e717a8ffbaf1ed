"""Which process is meant: a pid names whoever has it now, a pid with its start time names one process for ever."""

from __future__ import annotations

import contextlib
import functools
import os
import select
import signal
from pathlib import Path
from typing import Any, NamedTuple

_STATE, _START_TIME = 0, 19  # of proc(5)'s stat, counted from behind the command's closing parenthesis
_GONE = ("Z", "X")


class Identity(NamedTuple):
    """A process of one boot of one machine; `started` is in clock ticks since that boot."""

    pid: int
    started: int
    boot: str

    @staticmethod
    def of(pid: int) -> Identity | None:
        """The process that has this pid now; None when there is none, or only what a parent hasn't reaped."""
        try:
            facts = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        except OSError:
            return None
        return None if facts[_STATE] in _GONE else Identity(pid, int(facts[_START_TIME]), _boot())

    @staticmethod
    def from_record(record: Any) -> Identity | None:
        """An identity as the state file holds it; None for a damaged record."""
        if not isinstance(record, dict):
            return None
        pid, started, boot = record.get("pid"), record.get("started"), record.get("boot")
        if isinstance(pid, int) and isinstance(started, int) and isinstance(boot, str) and pid > 1:
            return Identity(pid, started, boot)
        return None

    @property
    def alive(self) -> bool:
        return Identity.of(self.pid) == self


class Handle:
    """A hold on one running process that a new owner of its pid can't slip into."""

    def __init__(self, identity: Identity, descriptor: int) -> None:
        self.identity = identity
        self.descriptor = descriptor

    @staticmethod
    def open(identity: Identity) -> Handle | None:
        """None when the process has ended, whoever has its pid now."""
        try:
            descriptor = os.pidfd_open(identity.pid)
        except OSError:
            return None
        if identity.alive:  # looked up after the descriptor was opened, so the descriptor is this process
            return Handle(identity, descriptor)
        os.close(descriptor)
        return None

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal; nothing happens when the process has ended."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.descriptor, number)

    def wait(self, seconds: float) -> bool:
        """Whether the process ended within that time."""
        ended, _, _ = select.select([self.descriptor], [], [], seconds)
        return bool(ended)

    def close(self) -> None:
        os.close(self.descriptor)


@functools.cache
def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
