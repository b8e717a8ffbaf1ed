"""How long `anycloud --help` takes, beside an empty Python and kubectl. Goal: 0.12 s or less."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

BIN = Path(sys.executable).parent
ROUNDS = 15
COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "anycloud --help": [str(BIN / "anycloud"), "--help"],
    "anycloud deployment --help": [str(BIN / "anycloud"), "deployment", "--help"],
    "kubectl version --client": [str(BIN / "kubectl"), "version", "--client"],
}


def seconds(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - started


def main() -> None:
    taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(ROUNDS):  # interleaved, so that all meet the same noise
        for name, command in COMMANDS.items():
            taken[name].append(seconds(command))
    baseline = statistics.median(taken["python -c pass"])
    print(f"{'command':28} {'median':>8} {'to python':>10}")
    for name, times in taken.items():
        median = statistics.median(times)
        print(f"{name:28} {median:7.3f}s {median / baseline:9.1f}x")


if __name__ == "__main__":
    main()
