"""How long the sandbox's two kinds of control plane take: until one serves and its Node is Ready, and for the demo.

The embedded one is the baseline of the real one (kine on SQLite, as K3s has it).
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from anycloud_control_plane.programs import HELM, SERVERS
from kubernetes.aio import client

from tests.kube.assets.location import cache_directory, how_to_get, missing
from tests.support.installation import ROOT, Installation
from tests.support.sandbox import Sandbox
from tests.unit.sandbox.conftest import api_client

ROUNDS = 3


async def starts(assets: Sequence[Path]) -> tuple[float, float]:
    """Seconds from the order to install K3s, with no waits added, until the API serves and until its Node is Ready."""
    with tempfile.TemporaryDirectory() as directory:
        async with Sandbox(Path(directory), kube_assets=assets) as sandbox:
            begun = time.perf_counter()
            made = await sandbox.management()
            served = time.perf_counter()
            async with api_client(made) as api:
                core: Any = client.CoreV1Api(api)

                async def ready() -> bool:
                    conditions = [item for node in (await core.list_node()).items for item in node.status.conditions]
                    return any((item.type, item.status) == ("Ready", "True") for item in conditions)

                await sandbox.until(ready, 60)
            return served - begun, time.perf_counter() - begun


def demos(assets: Sequence[Path]) -> tuple[float, float]:
    """Seconds of a first demo, and of a second one on what the first has made."""
    with tempfile.TemporaryDirectory() as directory, Installation(Path(directory) / "anycloud") as installation:
        installation.directory.mkdir(mode=0o700)
        (installation.directory / "local-api-url").write_text(f"http://127.0.0.1:{installation.port}\n")
        if assets:
            installation.environment["ANYCLOUD_KUBE_ASSETS"] = str(assets[0])
        taken = []
        for _ in range(2):
            begun = time.perf_counter()
            command = [sys.executable, str(ROOT / "examples" / "demo" / "demo.py")]
            quiet = subprocess.DEVNULL
            subprocess.run(command, env=installation.environment, stdout=quiet, stderr=quiet, check=True)
            taken.append(time.perf_counter() - begun)
        return taken[0], taken[1]


def main() -> None:
    worlds: dict[str, list[Path]] = {"sandbox": []}
    if absent := missing(["kine", *SERVERS, *HELM]):
        print(how_to_get(absent))
    else:
        worlds["real control plane"] = [cache_directory()]
    taken = {name: [asyncio.run(starts(assets)) for _ in range(ROUNDS)] for name, assets in worlds.items()}
    print(f"{'control plane':20} {'serves':>8} {'Node Ready':>11} {'demo':>8} {'second demo':>12}")
    for name, assets in worlds.items():
        serves, joined = (statistics.median(column) for column in zip(*taken[name], strict=True))
        first, second = demos(assets)
        print(f"{name:20} {serves:7.1f}s {joined:10.1f}s {first:7.0f}s {second:11.0f}s")


if __name__ == "__main__":
    main()
