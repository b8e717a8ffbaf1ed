"""The Unix sockets between services: in a directory that only its owner can enter."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SHORT = 0.5  # seconds a listener on the same machine has to take a connection


class SocketError(Exception):
    """The directory or the socket can't be used; the text is one sentence."""


def private_directory(path: Path) -> None:
    """Makes the directory with mode 0700, or checks that it is ours and has it. Raises SocketError."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    facts = path.lstat()
    if not stat.S_ISDIR(facts.st_mode):
        raise SocketError(f"{path} is not a directory.")
    if facts.st_uid != os.getuid():
        raise SocketError(f"{path} belongs to user {facts.st_uid}; it must belong to user {os.getuid()}.")
    if stat.S_IMODE(facts.st_mode) != 0o700:
        raise SocketError(f"{path} has mode {stat.S_IMODE(facts.st_mode):04o}; it must have 0700.")


def clear(path: Path) -> None:
    """Removes what an ended process left behind. Raises SocketError when somebody listens, or it is no socket."""
    try:
        facts = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(facts.st_mode):
        raise SocketError(f"{path} exists and is not a socket.")
    if _listening(path):
        raise SocketError(f"Another process serves {path}.")
    path.unlink(missing_ok=True)


@contextmanager
def private_files() -> Iterator[None]:
    """Files made meanwhile are readable and writable by their owner alone."""
    before = os.umask(0o177)
    try:
        yield
    finally:
        os.umask(before)


def _listening(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_SHORT)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except (TimeoutError, BlockingIOError):  # its backlog is full
            return True
        return True
