"""The state file: what runs, for `status`, and for whoever has to clean up after a killed supervisor."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from anycloud_common.clock import Clock

from anycloud_supervisor import files
from anycloud_supervisor.identity import Identity


class Record:
    """Facts about the installation and its processes, written as a whole at each change."""

    def __init__(self, path: Path, facts: dict[str, Any], clock: Clock) -> None:
        """Begins the file anew, with this process as its owner. Raises OSError."""
        owner = Identity.of(os.getpid())
        assert owner is not None
        self._path = path
        self._facts = {**owner._asdict(), **facts, "startedAt": clock.now_ms(), "phase": "starting", "processes": []}
        self._processes: dict[str, dict[str, Any]] = {}
        self._save()

    def phase(self, name: str) -> None:
        """starting, serving, stopping or stopped. Raises OSError."""
        self._facts["phase"] = name
        self._save()

    def process(self, name: str, **facts: Any) -> None:
        """Changes facts of one process: pid, started, boot, state, restarts, lastExit, since. Raises OSError."""
        self._processes.setdefault(name, {"name": name}).update(facts)
        self._facts["processes"] = list(self._processes.values())
        self._save()

    def _save(self) -> None:
        files.write(self._path, json.dumps(self._facts, indent=1))


def read(path: Path) -> dict[str, Any] | None:
    """What a supervisor wrote last; None when there is no file, or a damaged one."""
    try:
        facts = json.loads(files.read(path) or "null")
    except (ValueError, OSError):
        return None
    return facts if isinstance(facts, dict) and isinstance(facts.get("processes"), list) else None


def owner(facts: dict[str, Any]) -> Identity | None:
    """The supervisor that wrote the file."""
    return Identity.from_record(facts)


def left(facts: dict[str, Any]) -> list[tuple[str, Identity]]:
    """The recorded processes that still run, in the order in which they were started."""
    found = [(str(process.get("name")), Identity.from_record(process)) for process in facts["processes"]]
    return [(name, identity) for name, identity in found if identity is not None and identity.alive]
