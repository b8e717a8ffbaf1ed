"""The lock that makes one process the only owner of a database file."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from anycloud_common.store.errors import StoreOpenError


class FileLock:
    """An exclusive `flock`, held until `release` or the end of the process, however it ends.

    It is a file of its own beside the database: SQLite's locks on the database file are POSIX ones, which the closing
    of any second descriptor of that file would drop.
    """

    def __init__(self, path: Path, what: str) -> None:
        """Takes the lock at once. `what` is the sentence's subject: "The cluster database". Raises StoreOpenError."""
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreOpenError(f"{what} can't be locked: {path}: {error.strerror}.") from error
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._fd)
            raise StoreOpenError(f"{what} is in use by another process, which holds {path}.") from error

    def release(self) -> None:
        os.close(self._fd)


def lock_path(database: Path) -> Path:
    """`<service>.lock` beside `<service>.sqlite`."""
    return database.with_suffix(".lock")
