"""The sandbox's node agent on machines of the real control plane: `agent.py STATE WORLD CA`.

All of it is the sandbox's own but for one thing. A joining machine asks K3s for the cluster's CA at a door of K3s's
that a plain API server doesn't have; here it is in a file.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from anycloud_sandbox.agent.main import Agent
from anycloud_sandbox.kube.client import KubeClient


class AgentWithAuthority(Agent):
    def __init__(self, directory: Path, world: str, authority: Path) -> None:
        super().__init__(directory, world, rotate_after=0.8)
        self._authority = authority.read_text()

    async def _meet(self, server: str) -> tuple[str, KubeClient]:
        return self._authority, KubeClient(server, self._authority)


async def main(state: Path, world: str, authority: Path) -> None:
    task = asyncio.ensure_future(AgentWithAuthority(state, world, authority).run())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    await asyncio.wait([task])


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])))
