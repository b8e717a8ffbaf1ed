"""A service process of the probe. Arguments: runtime directory, metrics port, and maybe what befalls it (`fate`)."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import sys
from pathlib import Path

from anycloud_common.server import ServerKit, run

from tests.unit.server import probe_api

log = logging.getLogger(__name__)


async def crash() -> None:
    raise RuntimeError("the outcome of a commit is unknown")


async def close_slowly() -> None:
    log.info("closing")
    await asyncio.sleep(0.5)
    log.info("closed")


async def build(kit: ServerKit) -> None:
    fate = sys.argv[3] if len(sys.argv) > 3 else ""
    if fate == "refuse":
        raise RuntimeError("the database is newer than this build")
    if fate == "hang":
        log.info("building")
        await asyncio.Event().wait()
    if fate == "slow-close":
        kit.on_close(close_slowly)
    await probe_api.Probe().build(kit)
    if fate == "crash":
        kit.spawn(crash, "reconciler")


if __name__ == "__main__":
    settings = dataclasses.replace(probe_api.settings(Path(sys.argv[1])), metrics_port=int(sys.argv[2]))
    asyncio.run(run("probe", settings, build))
