"""Files of one owner: private, and replaced as a whole."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from anycloud_supervisor.failures import SupervisorError


def make_directory(path: Path) -> None:
    """Makes a directory of mode 0700 and sees that files can be made in it. Raises SupervisorError."""
    probe = path / f".writable.{os.getpid()}"
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        probe.touch(0o600)
        probe.unlink()
    except OSError as error:
        raise SupervisorError(f"Cannot write to {path}: {error.strerror}.") from error


def private_directory(path: Path) -> None:
    """Makes a directory that only its owner can enter, or checks that it is one: another user could have been faster
    in a place such as /tmp. Raises SupervisorError."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        facts = path.lstat()
    except OSError as error:
        raise SupervisorError(f"Cannot make {path}: {error.strerror}.") from error
    if not stat.S_ISDIR(facts.st_mode):
        raise SupervisorError(f"{path} is not a directory.")
    if facts.st_uid != os.getuid():
        raise SupervisorError(f"{path} belongs to user {facts.st_uid}; it must belong to user {os.getuid()}.")
    if stat.S_IMODE(facts.st_mode) != 0o700:
        raise SupervisorError(f"{path} has mode {stat.S_IMODE(facts.st_mode):04o}; it must have 0700.")


def write(path: Path, text: str) -> None:
    """Replaces a file with mode 0600, so that a reader finds the old text or the new one. Raises OSError."""
    scratch = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        with os.fdopen(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        scratch.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            scratch.unlink()
        raise


def read(path: Path) -> str | None:
    """The trimmed text, or None when the file is absent or empty."""
    try:
        return path.read_text("utf-8").strip() or None
    except FileNotFoundError:
        return None


@contextmanager
def locked(path: Path) -> Iterator[bool]:
    """Holds a lock that ends with this process, however it ends. Gives False when another process has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)
