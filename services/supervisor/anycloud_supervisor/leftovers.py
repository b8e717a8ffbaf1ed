"""Ends what a killed supervisor left: the very processes that it recorded, and nothing else."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from anycloud_supervisor import record
from anycloud_supervisor.failures import SupervisorError
from anycloud_supervisor.identity import Handle, Identity

GRACE_SECONDS = 15.0
_KILLED_SECONDS = 5.0


def end_recorded(facts: dict[str, Any]) -> list[str]:
    """Ends the processes of a state file, and returns their names. Raises SupervisorError."""
    found = record.left(facts)
    end([identity for _, identity in reversed(found)])
    stuck = [f"{name} (pid {identity.pid})" for name, identity in found if identity.alive]
    if stuck:
        raise SupervisorError(f"Still running, and not to be ended: {', '.join(stuck)}.")
    return [name for name, _ in found]


def end(identities: Sequence[Identity], grace: float = GRACE_SECONDS) -> None:
    """SIGTERM to all of them, in this order; SIGKILL to those that are still there after the grace."""
    with _handles(identities) as handles:
        for number, seconds in ((signal.SIGTERM, grace), (signal.SIGKILL, _KILLED_SECONDS)):
            for handle in handles:
                handle.signal(number)
            if _await(handles, seconds):
                return


def await_end(identities: Sequence[Identity], seconds: float) -> bool:
    """Whether all of them end by themselves within that time."""
    with _handles(identities) as handles:
        return _await(handles, seconds)


def _await(handles: Sequence[Handle], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    return all(handle.wait(max(0.0, deadline - time.monotonic())) for handle in handles)


@contextmanager
def _handles(identities: Sequence[Identity]) -> Iterator[list[Handle]]:
    """Holds on those that still run."""
    with contextlib.ExitStack() as stack:
        opened = [handle for handle in map(Handle.open, identities) if handle is not None]
        for handle in opened:
            stack.callback(handle.close)
        yield opened
