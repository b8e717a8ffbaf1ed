"""Directories that appear whole or not at all, also after a power cut."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def appearing(target: Path, working: Path) -> Iterator[Path]:
    """Gives the empty directory `working` (mode 0700) to fill, then syncs it and renames it to `target`, which must be
    absent or empty. After an error nothing is left of it; what a killed process left is removed first."""
    shutil.rmtree(working, ignore_errors=True)
    working.mkdir(mode=0o700)
    try:
        yield working
        for file in working.iterdir():
            sync(file)
        sync(working)
        working.rename(target)
    except BaseException:
        shutil.rmtree(working, ignore_errors=True)
        raise
    sync(target.parent)


def sync(path: Path) -> None:
    """fsync of a file or directory."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
