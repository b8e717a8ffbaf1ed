"""`python -m anycloud_control_plane DIRECTORY`: runs a control plane until SIGTERM, and starts again what ends.

The directory has `plane.json` (see Plan) and the authority's `ca.key` and `ca.crt`. A line on stdout says that it
serves. All its programs end with it.
"""

from __future__ import annotations

import json
import logging
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from anycloud_control_plane import programs
from anycloud_control_plane.certificates import Authority
from anycloud_control_plane.plane import ControlPlane, Datastore

log = logging.getLogger(__name__)
_LOOK_SECONDS, _MOST_SECONDS, _FORGOTTEN_SECONDS = 0.25, 30.0, 60.0


class Plan(NamedTuple):
    """As JSON in `plane.json`, readable by its owner only: `tokens` are those of users who are known elsewhere too."""

    host: str
    port: int
    store: str
    folders: list[str]  # that have the programs
    tokens: dict[str, str]
    job_image: str
    more: dict[str, list[str]]  # further flags, by program


def main(argv: Sequence[str]) -> int:
    logging.basicConfig(level="INFO", format="%(asctime)s %(message)s")
    directory = Path(argv[1])
    plan = Plan(**json.loads((directory / "plane.json").read_text()))
    plane = _plane(directory, plan)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        with plane:
            plane.start_helm_controller(plan.job_image)
            print("serving", flush=True)
            _keep(plane)
    except (RuntimeError, OSError) as error:
        log.critical("%s", error)
    return 1


def _plane(directory: Path, plan: Plan) -> ControlPlane:
    folders = [Path(folder) for folder in plan.folders]
    authority = Authority.load((directory / "ca.key").read_text(), (directory / "ca.crt").read_text())
    kine = programs.find("kine", folders) and not (directory / "etcd").exists()  # data stay where they were begun
    datastore: Datastore = "kine" if kine else "etcd"

    def locate(name: str) -> Path:
        path = programs.find(name, folders)
        if path is None:
            raise FileNotFoundError(f"{name} is in none of {', '.join(plan.folders)}")
        return path

    return ControlPlane(
        directory,
        locate,
        datastore,
        host=plan.host,
        port=plan.port,
        store=plan.store,
        authority=authority,
        tokens=plan.tokens,
        audit=False,
        bound=True,
        more=plan.more,
    )


def _keep(plane: ControlPlane) -> None:
    """Starts ended programs again: the first time at once, then after pauses that double."""
    pauses: dict[str, float] = {}
    due: dict[str, float] = {}
    begun: dict[str, float] = {}
    while True:
        now = time.monotonic()
        for name, code in plane.ended().items():
            if name not in due:
                pause = 0.0 if now - begun.get(name, 0.0) > _FORGOTTEN_SECONDS else pauses.get(name, 0.0)
                due[name], pauses[name] = now + pause, min(max(1.0, pause * 2), _MOST_SECONDS)
                log.warning("%s ended with %d; it starts again in %.0f s", name, code, pause)
            elif now >= due[name]:
                del due[name]
                begun[name] = now
                plane.start_program(name)
        time.sleep(_LOOK_SECONDS)


if __name__ == "__main__":
    sys.exit(main(sys.argv))
