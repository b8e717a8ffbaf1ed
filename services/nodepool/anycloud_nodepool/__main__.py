"""`python -m anycloud_nodepool`."""

from __future__ import annotations

import asyncio

from anycloud_common.server import run
from anycloud_common.settings import Settings

from anycloud_nodepool.app import build

if __name__ == "__main__":
    asyncio.run(run("nodepool", Settings.from_environment(), build))
