"""Whether what is shown lives in the sandbox."""

from __future__ import annotations

import json
import os

from anycloud_cli.directory import Directory
from anycloud_cli.session import Session
from anycloud_cli.target import is_on_this_machine

DATA = "data"
"""Below the configuration directory: what the local API stores."""


def is_supervised(directory: Directory) -> bool:
    """Whether a supervisor of the local API seems to live: then what doesn't answer will be back in a moment."""
    try:
        pid = json.loads(directory.read(f"{DATA}/supervisor/state.json") or "{}")["pid"]
        os.kill(pid, 0)
    except (ValueError, KeyError, TypeError, OSError):
        return False
    return True


def in_sandbox(session: Session) -> bool:
    """True for this machine's API and for the hosted API in its sandbox, when the local API was started with one.

    The mark is written by `api start`, and is as old as the data."""
    if not is_on_this_machine(session.target.url):
        return False
    return session.directory.read(f"{DATA}/world") == "sandbox"
