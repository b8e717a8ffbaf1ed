"""`status` and `stop` of a local installation, from outside its supervisor."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import Any

from anycloud_supervisor import files, leftovers, record
from anycloud_supervisor.failures import SupervisorError
from anycloud_supervisor.identity import Handle, Identity
from anycloud_supervisor.places import Places

_STOP_SECONDS = 90.0


def status(environ: Mapping[str, str]) -> dict[str, Any] | None:
    """The state file with `alive`, and with `alive` for each process; None when nothing was ever started."""
    facts = record.read(Places.of(environ).state)
    if facts is None:
        return None
    supervisor = record.owner(facts)
    facts["alive"] = supervisor is not None and supervisor.alive
    running = dict(record.left(facts))
    for process in facts["processes"]:
        process["alive"] = process.get("name") in running
        if not facts["alive"] and not process["alive"]:
            process["pid"] = None
            process["state"] = "done" if process.get("state") == "done" else "stopped"
    return facts


def stop(environ: Mapping[str, str]) -> dict[str, Any]:
    """Ends supervisor and processes, and returns their names as `stopped`. Raises SupervisorError."""
    places = Places.of(environ)
    facts = record.read(places.state)
    if facts is None:
        return {"stopped": []}
    supervisor = record.owner(facts)
    running = record.left(facts)
    if supervisor is not None and supervisor.alive:
        _ask(supervisor, running)
        return {"stopped": [name for name, _ in running] + ["supervisor"]}
    with files.locked(places.lock) as ours:
        if not ours:
            raise SupervisorError("The local API is just starting; try again in a moment.")
        return {"stopped": leftovers.end_recorded(facts)}


def _ask(supervisor: Identity, running: list[tuple[str, Identity]]) -> None:
    """Tells the supervisor to stop, and waits until it and what it recorded are gone. Raises SupervisorError."""
    handle = Handle.open(supervisor)
    if handle is None:
        return
    try:
        handle.signal(signal.SIGTERM)
        if not handle.wait(_STOP_SECONDS):
            raise SupervisorError(f"The supervisor (pid {supervisor.pid}) is still stopping; try again in a moment.")
    finally:
        handle.close()
    stuck = [f"{name} (pid {identity.pid})" for name, identity in running if identity.alive]
    if stuck:
        raise SupervisorError(f"Still running: {', '.join(stuck)}.")
