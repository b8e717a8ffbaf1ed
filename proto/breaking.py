"""Compares the .proto files with those of the last commit on main, for changes that break a client.

Usage: python proto/breaking.py [commit]   (another commit to compare with)

Where nothing differs from main, main's own last commit is checked: the comparison is with the one before.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import generate
from buf import buf, image

MAIN = ("main", "origin/main")


def git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", "-C", str(generate.ROOT), *arguments], capture_output=True, check=False)


def known(commit: str) -> bool:
    return git("rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}").returncode == 0


def base() -> str | None:
    """None in a clone without the history for it, and where there is no git."""
    main = next(filter(known, MAIN), None)
    if main is None:
        return None
    if git("diff", "--quiet", main, "--", "proto").returncode != 0:
        return main
    return f"{main}~1" if known(f"{main}~1") else None


def export(commit: str, to: Path) -> Path:
    archive = git("archive", "--format=tar", commit, "proto")
    archive.check_returncode()
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
        tar.extractall(to, filter="data")
    return to / "proto"


def main(arguments: list[str]) -> int:
    try:
        against = arguments[0] if arguments else base()
    except FileNotFoundError:
        against = None
    if against is None:
        print("breaking changes of the protos: skipped, as this is no git clone with the history of main")
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        before = image(export(against, folder), folder / "before.binpb")
        return buf("breaking", image(generate.PROTO, folder / "now.binpb"), "--against", before)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
