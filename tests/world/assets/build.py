"""Builds the disk and the images of the tests' VMs, once: `python -m tests.world.assets.build`, as root on Debian.

It does nothing where all is there, or where VMs can't be. A folder appears when it is complete, so an interrupted run
leaves nothing half made.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.world.assets import images, location
from tests.world.assets.location import HERE, cache_directory, impossible

# Programs of this machine, and their Debian packages.
_PACKAGES = {
    "systemd-nspawn": "systemd-container",
    "debootstrap": "debootstrap",
    "ip": "iproute2",
    "openssl": "openssl",
}


def main() -> int:
    if reason := impossible():
        print(f"Nothing is built: {reason}.")
        return 0
    if lacking := [package for program, package in _PACKAGES.items() if shutil.which(program) is None]:
        install(lacking)
    os.nice(5)
    cache = cache_directory()
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another process may be building them
        provide(location.root(), build_root)
        provide(location.images(), lambda target: images.build(location.root(), target))
        provide(location.base(), lambda target: images.build_base(location.root(), target))
    print(f"Disk and images of the VMs are in {cache}")
    return 0


def install(packages: list[str]) -> None:
    quiet = ["apt-get", "-qq", "-o", "Dpkg::Use-Pty=0"]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run([*quiet, "update"], check=True, env=environment)
    command = [*quiet, "install", "--yes", "--no-install-recommends", *packages]
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)


def provide(directory: Path, make: Callable[[Path], None]) -> None:
    """Makes a folder unless it is there."""
    if directory.is_dir():
        return
    began = time.monotonic()
    print(f"{directory.name} …", flush=True)
    for attempts_left in (1, 0):
        with tempfile.TemporaryDirectory(prefix=".building-", dir=directory.parent) as scratch:
            made = Path(scratch) / directory.name
            made.mkdir(mode=0o755)
            try:
                make(made)
            except subprocess.CalledProcessError as error:
                if not attempts_left:
                    raise
                print(f"{error}; once more", flush=True)  # a download may break off
                continue
            made.rename(directory)
            break
    print(f"{directory.name}: {time.monotonic() - began:.0f} s", flush=True)


def build_root(target: Path) -> None:
    log = target.parent / "log"
    with log.open("w") as output:
        done = subprocess.run(
            ["/bin/sh", str(HERE / "root.sh"), str(target)], stdout=output, stderr=output, check=False
        )
    if done.returncode:
        sys.exit(f"The disk was not built:\n{log.read_text()[-3000:]}")


if __name__ == "__main__":
    sys.exit(main())
