"""A node pool of 200 VMs in the sandbox: bought, joined, Ready, and gone again; beside a pool of one.

Usage: python tests/bench/pool.py [VMs]
Goals: Ready after 4 s, gone after 2 s, on two cores of which nobody else takes anything. The CPU seconds say what a
busy machine hides; those of sandbox and node agent are the world's, which stands in for clouds, kubelets and the
Kubernetes API.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.doors.stack import cpu_seconds
from tests.support.installation import KEYS, Installation

PLACE = ("--credentials", "bench", "--region", "us-east-1")
GOALS = (4.0, 2.0)


class Stage:
    """Wall seconds and CPU seconds, by process, from now to `end`."""

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self._cpu = self._now()
        self._began = time.perf_counter()

    def end(self) -> None:
        self.seconds = time.perf_counter() - self._began
        self.cpu = self._now()
        self.cpu.subtract(self._cpu)

    def _now(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for process in self._installation.processes():
            found[process.name] += round(cpu_seconds(process.identity.pid) * 100)  # hundredths
        return found


def life(installation: Installation, vms: int) -> tuple[Stage, Stage]:
    """From create to Ready, and from delete to gone."""
    name, count = f"pool-{vms}", str(vms)
    sizes = ("--vm-type", "m5.large", "--min-vms", count, "--max-vms", count)
    up = Stage(installation)
    installation.cli("node-pool", "create", name, *PLACE, *sizes, "--wait", seconds=300)
    up.end()
    down = Stage(installation)
    pool = installation.ask("node-pool", "delete", name)["nodePool"]["id"]
    while installation.ask("node-pool", "status", pool)["nodePool"]["releasing"]:
        time.sleep(0.1)
    down.end()
    return up, down


def show(what: str, vms: int, one: Stage, many: Stage, goal: float) -> None:
    taken = {name: hundredths / 100 for name, hundredths in many.cpu.most_common(7) if hundredths > 0}
    ours = sum(seconds for name, seconds in taken.items() if name.startswith(("hosted/", "installer/")))
    total = sum(many.cpu.values()) / 100
    print(
        f"{what}: 1 VM after {one.seconds:.1f} s, {vms} after {many.seconds:.1f} s (goal {goal:.0f} s: "
        f"{'met' if many.seconds <= goal else 'missed'}); CPU {total:.1f} s, a VM {total / vms * 1000:.0f} ms, "
        f"of these the services' {ours / vms * 1000:.0f} ms"
    )
    print("   " + ", ".join(f"{name} {seconds:.2f} s" for name, seconds in taken.items()))


def main(vms: int = 200) -> None:
    with tempfile.TemporaryDirectory(prefix="ac-") as scratch, Installation(Path(scratch) / "anycloud") as installation:
        installation.start()
        installation.cli("credentials", "new", "bench", "--provider", "aws", env=KEYS)
        installation.cli("cluster", "create", "bench", *PLACE, "--vm-type", "t3.large")
        installation.cli("cluster", "status", "bench", "--watch", "--interval", "1")
        url = installation.ask("cluster", "status", "bench")["cluster"]["managementApiUrl"]
        installation.cli("api", "use", url)
        installation.cli("credentials", "new", "bench", "--provider", "aws", env=KEYS)
        one = life(installation, 1)
        many = life(installation, vms)
    show("Ready", vms, one[0], many[0], GOALS[0])
    show("gone", vms, one[1], many[1], GOALS[1])


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
