"""Ends what a killed supervisor left: the very processes that it recorded, and nothing else."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable
from typing import Any

from anycloud_supervisor import record
from anycloud_supervisor.failures import SupervisorError
from anycloud_supervisor.identity import Handle, Identity

GRACE_SECONDS = 15.0
_KILLED_SECONDS = 5.0


def end_recorded(facts: dict[str, Any], tell: Callable[[str], None] = lambda name: None) -> list[str]:
    """Ends the processes of a state file, last started first, and returns their names. Raises SupervisorError."""
    ended = []
    for name, identity in reversed(record.left(facts)):
        if end(identity):
            ended.append(name)
            tell(name)
        elif identity.alive:
            raise SupervisorError(f"{name} (pid {identity.pid}) can't be ended.")
    return ended


def end(identity: Identity, grace: float = GRACE_SECONDS) -> bool:
    """SIGTERM, then SIGKILL. False when there was nothing to end, or it wouldn't."""
    handle = Handle.open(identity)
    if handle is None:
        return False
    try:
        handle.signal(signal.SIGTERM)
        if handle.wait(grace):
            return True
        handle.signal(signal.SIGKILL)
        return handle.wait(_KILLED_SECONDS)
    finally:
        handle.close()


def await_end(identities: Iterable[Identity], seconds: float) -> bool:
    """Whether all of them end by themselves within that time."""
    deadline = time.monotonic() + seconds
    for identity in identities:
        handle = Handle.open(identity)
        if handle is None:
            continue
        try:
            if not handle.wait(max(0.0, deadline - time.monotonic())):
                return False
        finally:
            handle.close()
    return True
