"""A node pool of 200 VMs in the sandbox: bought, joined, Ready, and gone again; beside a pool of one."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.support.installation import KEYS, Installation

PLACE = ("--credentials", "bench", "--region", "us-east-1")


def life(installation: Installation, vms: int) -> tuple[float, float]:
    """Seconds from create to Ready, and from delete to gone."""
    name, count = f"pool-{vms}", str(vms)
    begun = time.perf_counter()
    sizes = ("--vm-type", "m5.large", "--min-vms", count, "--max-vms", count)
    installation.cli("node-pool", "create", name, *PLACE, *sizes, "--wait", seconds=300)
    ready = time.perf_counter()
    pool = installation.ask("node-pool", "delete", name)["nodePool"]["id"]
    while installation.ask("node-pool", "status", pool)["nodePool"]["releasing"]:
        time.sleep(0.1)
    return ready - begun, time.perf_counter() - ready


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch, Installation(Path(scratch) / "anycloud") as installation:
        installation.start()
        installation.cli("credentials", "new", "bench", "--provider", "aws", env=KEYS)
        installation.cli("cluster", "create", "bench", *PLACE, "--vm-type", "t3.large")
        installation.cli("cluster", "status", "bench", "--watch", "--interval", "1")
        url = installation.ask("cluster", "status", "bench")["cluster"]["managementApiUrl"]
        installation.cli("api", "use", url)
        installation.cli("credentials", "new", "bench", "--provider", "aws", env=KEYS)
        one = life(installation, 1)
        many = life(installation, 200)
    print(f"1 VM:    Ready after {one[0]:.1f} s, gone after {one[1]:.1f} s")
    ratios = (many[0] / one[0], many[1] / one[1])
    print(f"200 VMs: Ready after {many[0]:.1f} s ({ratios[0]:.1f}x), gone after {many[1]:.1f} s ({ratios[1]:.1f}x)")


if __name__ == "__main__":
    main()
