"""Where the sockets are: a short path, since a socket's path has 107 bytes at most, and a private directory."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from anycloud_supervisor.failures import SupervisorError
from anycloud_supervisor.files import private_directory

_SOCKET_PATH_BYTES = 107
_LONGEST_NAME = "deployment.sock"


@contextmanager
def runtime_dir(data_dir: Path, environ: Mapping[str, str]) -> Iterator[Path]:
    """The directory of the installation with that data, made and checked, and removed in the end.

    Below $XDG_RUNTIME_DIR, or below /tmp/anycloud-<uid> where there is none or its path is too long.
    Raises SupervisorError."""
    made = _made(data_dir, environ)
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _made(data_dir: Path, environ: Mapping[str, str]) -> Path:
    name = hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:8]
    parents = [Path(f"/tmp/anycloud-{os.getuid()}")]  # noqa: S108  (private_directory checks owner and mode)
    given = environ.get("XDG_RUNTIME_DIR", "")
    if given and Path(given).is_dir():
        parents.insert(0, Path(given) / "anycloud")
    parent = next((parent for parent in parents if _fits(parent / name)), None)
    if parent is None:
        raise SupervisorError(f"A socket's path below {parents[-1]} is longer than {_SOCKET_PATH_BYTES} bytes.")
    private_directory(parent)
    private_directory(parent / name)
    return parent / name


def _fits(directory: Path) -> bool:
    return len(os.fsencode(directory / _LONGEST_NAME)) <= _SOCKET_PATH_BYTES
