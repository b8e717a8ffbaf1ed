"""One management machine's control plane as Kubernetes' own programs, with what K3s adds to them."""

import asyncio
import contextlib
import hashlib
import logging
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import orjson
from anycloud_control_plane.images import HELM_JOB
from anycloud_control_plane.programs import bound

from anycloud_sandbox.kube.client import KubeClient, path_of
from anycloud_sandbox.kube.cluster import PORT, SERVER_CA, admin_client, write, write_kubeconfig
from anycloud_sandbox.kube.store import KubeError
from anycloud_sandbox.state import Json, Pace

log = logging.getLogger(__name__)
STORE_PORT, STOP_SECONDS, AGAIN_SECONDS = 2379, 20.0, 1.0
CONTROL_PLANE = {"node-role.kubernetes.io/control-plane": "true"}


class RealCluster:
    """As Cluster, of the same record; but `start` doesn't wait. Faults on calls of Kubernetes don't reach it."""

    serving = False

    def __init__(self, record: Json, directory: Path, pace: Pace, assets: Sequence[Path]) -> None:
        self._record, self._directory, self._assets = record, directory, assets
        self._lease_seconds = pace.lease_seconds
        self.config, self.endpoint = record["config"], f"https://{record['address']}:{PORT}"
        self.join_token = f"K10{hashlib.sha256(record['ca'].encode()).hexdigest()}::{record['joinPassword']}"
        self.node_labels: list[str] = []  # a kubelet may not claim such a label: K3s's server sets it

    async def start(self) -> None:
        write_kubeconfig(self._directory, self.endpoint, self._record)
        write(self._directory, SERVER_CA, self._record["ca"])
        files = {"ca.crt": self._record["ca"], "ca.key": self._record["caKey"], "plane.json": self._plan()}
        for name, text in files.items():
            write(self._directory, f"control-plane/{name}", text)
        self._tasks = [asyncio.create_task(part) for part in (self._keep(), self._label())]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)

    def admin_client(self) -> KubeClient:
        return admin_client(self.endpoint, self._record)

    def _plan(self) -> str:
        address, tokens = self._record["address"], {"admin": self._record["adminToken"]}
        plan = {"host": address, "port": PORT, "store": f"{address}:{STORE_PORT}"}
        plan |= {"folders": list(map(str, self._assets)), "tokens": tokens | {"node": self._record["joinPassword"]}}
        plan |= {"job_image": self.config.get("helm-job-image", HELM_JOB)}
        late = [f"--node-monitor-grace-period={self._lease_seconds:g}s"]
        return orjson.dumps(plan | {"more": {"kube-controller-manager": late}}).decode()

    async def _keep(self) -> None:
        """Runs the programs, and again when their keeper ended."""
        folder = self._directory / "control-plane"
        while True:
            command = bound([sys.executable, "-m", "anycloud_control_plane", str(folder)])
            with (folder / "keeper.log").open("ab") as output:
                process = await asyncio.create_subprocess_exec(
                    *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=output
                )
            try:
                assert process.stdout
                self.serving = bool(await process.stdout.readline())
                await process.wait()
            finally:
                self.serving = False
                await _end(process)
            log.warning("the control plane of %s ended with %s; see %s", self.endpoint, process.returncode, folder)
            await asyncio.sleep(AGAIN_SECONDS)

    async def _label(self) -> None:
        """The server's own Node is of the control plane, which only its own server may say."""
        client, path = self.admin_client(), path_of("nodes", "", self.config["node-name"])
        try:
            while True:
                with contextlib.suppress(KubeError):
                    await client.patch(path, {"metadata": {"labels": CONTROL_PLANE}})
                    return
                await asyncio.sleep(AGAIN_SECONDS)
        finally:
            await client.close()


async def _end(process: asyncio.subprocess.Process) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL) if process.returncode is None else ():
        with contextlib.suppress(ProcessLookupError, TimeoutError):
            process.send_signal(number)
            await asyncio.wait_for(process.wait(), STOP_SECONDS)
