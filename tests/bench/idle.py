"""What an installation takes while nobody asks anything of it: CPU seconds a minute of its services and Envoy, of a
sandbox and its node agent beside it, with a Deployment in which 0, 50 and 500 Jobs wait that no worker takes.

Usage: python tests/bench/idle.py [seconds of a measurement] [Jobs ...]
A bare Python process that sleeps is measured beside them. What grows with the Jobs would be a loop that polls.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.doors.stack import cpu_seconds
from tests.support.installation import KEYS, Installation, until

PLACE = ("--credentials", "aws", "--region", "us-east-1")
SETTLE = 3.0  # seconds until what was just done is over
JOBS = (0, 50, 500)


def prepare(installation: Installation) -> str:
    """From nothing to a Deployment whose container takes no Jobs; gives the hosted API's URL."""
    installation.start()
    installation.image("bench/idle:1", ["/bin/sh", "-c", "exec sleep 100000"])
    installation.cli("credentials", "new", "aws", "--provider", "aws", env=KEYS)
    installation.cli("cluster", "create", "bench", *PLACE, "--vm-type", "t3.large")
    url = until(lambda: str(installation.ask("cluster", "status", "bench")["cluster"]["managementApiUrl"] or ""), 120)
    until(lambda: installation.cli("api", "use", url, code=None).code == 0, 60)
    installation.cli("credentials", "new", "aws", "--provider", "aws", env=KEYS)
    vms = ("--vm-type", "m5.large", "--min-vms", "1", "--max-vms", "1")
    installation.cli("node-pool", "create", "pool", *PLACE, *vms, "--wait")
    installation.cli("deployment", "create", "idle", "bench/idle:1", "--node-pool", "pool", "--wait")
    return url


def submit(installation: Installation, url: str, count: int) -> None:
    token = json.loads((installation.directory / "api-tokens.json").read_text())[url]
    headers = {
        "authorization": f"Bearer {token}",
        "anycloud-client-version": "0.1.70",
        "content-type": "application/json",
    }
    body = json.dumps({"deployment": "idle", "workloadType": "job"}).encode()
    for _ in range(count):
        with urllib.request.urlopen(urllib.request.Request(f"{url}/v1/workloads", body, headers), timeout=10):
            pass


def taken(installation: Installation, bare: int) -> dict[str, float]:
    """CPU seconds so far, by process."""
    found = {"bare Python": cpu_seconds(bare)}
    for process in installation.processes():
        found[process.name] = found.get(process.name, 0.0) + cpu_seconds(process.identity.pid)
    return found


def a_minute(installation: Installation, bare: int, seconds: float) -> dict[str, float]:
    """CPU seconds a minute, by process."""
    time.sleep(SETTLE)
    before, began = taken(installation, bare), time.perf_counter()
    time.sleep(seconds)
    after, lasted = taken(installation, bare), time.perf_counter() - began
    return {name: (spent - before.get(name, 0.0)) * 60 / lasted for name, spent in after.items()}


def show(jobs: int, found: dict[str, float]) -> None:
    for prefix, what in (("installer/", "local API"), ("hosted/", "API on the cluster")):
        total = sum(spent for name, spent in found.items() if name.startswith(prefix))
        print(f"{jobs:>4} Jobs wait: {what:19}{total:6.2f} CPU s a minute")
    most = sorted(found.items(), key=lambda one: one[1], reverse=True)
    told = ", ".join(f"{name} {spent:.2f}" for name, spent in most if spent >= 0.02)
    print(f"     {told}")


def main(seconds: float = 20.0, counts: tuple[int, ...] = JOBS) -> None:
    with tempfile.TemporaryDirectory(prefix="ac-") as scratch, Installation(Path(scratch) / "anycloud") as installation:
        bare = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100000)"])
        try:
            url, waiting = prepare(installation), 0
            for count in counts:
                submit(installation, url, count - waiting)
                waiting = count
                show(waiting, a_minute(installation, bare.pid, seconds))
        finally:
            bare.kill()
            bare.wait()


if __name__ == "__main__":
    words = sys.argv[1:]
    main(float(words[0]) if words else 20.0, tuple(map(int, words[1:])) or JOBS)
