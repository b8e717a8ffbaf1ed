"""What a run leaves that was killed in the middle: the next one finds all of it, and removes it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.world import vm as machines
from tests.world.vm import Network

TREE = Path(__file__).parents[2]

# A run with a VM and with a process on the host, which then waits to be killed.
_RUN = """
import subprocess, sys, time
from tests.world.vm import Network
network = Network()
network.__enter__()
network.vm("left", b"#cloud-config\\n").boot()
subprocess.Popen(["sleep", "600"], cwd=network.host)
print(network.number, flush=True)
time.sleep(600)
"""


def traces(number: str) -> list[str]:
    """Everything that there is of a run."""
    found = [str(path) for path in Path("/var/tmp/anycloud-world").glob(f"{number}*")]
    found += [str(path) for path in Path("/run/netns").glob(f"acw-{number}-*")]
    found += [str(path) for path in Path("/sys/class/net").glob(f"*acw-{number}*")]
    found += [str(path) for path in Path("/sys/fs/cgroup").glob(f"*/acw-{number}-*")]
    found += [str(path) for path in Path("/sys/fs/cgroup").glob(f"acw-{number}-*")]
    found += [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if f"/{number}/" in line]
    told = f"anycloud-world/{number}/"
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().decode(errors="replace")
            if told in words or told in f"{(process / 'cwd').readlink()}/":
                found.append(words)
        except OSError:
            continue
    return found


def test_a_killed_run_leaves_nothing_for_long(network: Network) -> None:
    run = subprocess.Popen([sys.executable, "-c", _RUN], cwd=TREE, stdout=subprocess.PIPE, text=True)
    try:
        assert run.stdout is not None
        number = run.stdout.readline().strip()
        assert number != network.number
        machines.remove_leftovers()
        assert len(traces(number)) > 5  # it lives: nobody touches it
    finally:
        run.kill()
        run.wait()
    assert len(traces(number)) > 5
    machines.remove_leftovers()
    assert traces(number) == []
    assert traces(network.number)
