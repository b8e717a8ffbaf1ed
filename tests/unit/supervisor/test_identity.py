"""A process is known by pid and start time, and nothing else is ever touched."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator

import pytest
from anycloud_supervisor import leftovers
from anycloud_supervisor.identity import Handle, Identity


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["/bin/sleep", "100"])
    yield process
    process.kill()
    process.wait()


def test_a_running_process_is_alive_under_its_own_identity(sleeper: subprocess.Popen[bytes]) -> None:
    identity = Identity.of(sleeper.pid)
    assert identity is not None
    assert identity.alive
    assert Identity.of(os.getpid()) != identity


def test_a_process_that_has_the_pid_of_an_ended_one_is_neither_seen_nor_killed(
    sleeper: subprocess.Popen[bytes],
) -> None:
    now = Identity.of(sleeper.pid)
    assert now is not None
    former = now._replace(started=now.started - 1)
    assert not former.alive
    assert Handle.open(former) is None
    leftovers.end([former])
    assert sleeper.poll() is None


def test_a_pid_recorded_before_a_reboot_is_somebody_else_now(sleeper: subprocess.Popen[bytes]) -> None:
    now = Identity.of(sleeper.pid)
    assert now is not None
    leftovers.end([now._replace(boot="another boot")])
    assert sleeper.poll() is None


def test_what_has_ended_without_being_reaped_is_gone() -> None:
    process = subprocess.Popen(["/bin/true"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert Identity.of(process.pid) is None
    process.wait()


@pytest.mark.parametrize(
    "record", [None, 7, {}, {"pid": "7", "started": 1, "boot": "b"}, {"pid": 1, "started": 1, "boot": "b"}]
)
def test_a_damaged_record_names_nobody(record: object) -> None:
    assert Identity.from_record(record) is None


def test_ending_uses_sigkill_when_sigterm_is_ignored() -> None:
    process = subprocess.Popen(["/bin/sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done"], stdout=-1)
    assert process.stdout is not None
    process.stdout.readline()
    identity = Identity.of(process.pid)
    assert identity is not None
    leftovers.end([identity], grace=0.1)
    assert process.wait() == -signal.SIGKILL
    process.stdout.close()
