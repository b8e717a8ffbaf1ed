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
STORE_PORT, STOP_SECONDS, AGAIN_SECONDS, PLANE = 2379, 20.0, 1.0, "control-plane/"
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"


class RealCluster:
    """As Cluster, of the same record; but `start` doesn't wait. Faults on calls of Kubernetes don't reach it."""

    serving = False

    def __init__(self, record: Json, directory: Path, pace: Pace, assets: Sequence[Path]) -> None:
        self._record, self._directory, self._assets, self._pace = record, directory, assets, pace
        self.config, self.endpoint = record["config"], f"https://{record['address']}:{PORT}"
        self.join_token = f"K10{hashlib.sha256(record['ca'].encode()).hexdigest()}::{record['joinPassword']}"
        self.node_labels: list[str] = []  # a kubelet may not claim such a label: K3s's server sets it

    async def start(self) -> None:
        write_kubeconfig(self._directory, self.endpoint, self._record)
        files = {SERVER_CA: "ca", PLANE + "ca.crt": "ca", PLANE + "ca.key": "caKey"}
        for name, key in files.items():
            write(self._directory, name, self._record[key])
        write(self._directory, PLANE + "plane.json", self._plan())
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
        late = [f"--node-monitor-grace-period={self._pace.lease_seconds:g}s"]
        return orjson.dumps(plan | {"more": {"kube-controller-manager": late}}).decode()

    async def _keep(self) -> None:
        """Runs the programs, and again when their keeper ended."""
        folder = self._directory / PLANE
        null, pipe = asyncio.subprocess.DEVNULL, asyncio.subprocess.PIPE
        while True:
            command = bound([sys.executable, "-m", "anycloud_control_plane", str(folder)])
            with (folder / "keeper.log").open("ab") as output:
                process = await asyncio.create_subprocess_exec(*command, stdin=null, stdout=pipe, stderr=output)
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
        """The server's own Node is of the control plane, which only its own server may say; each time it joins."""
        client, path = self.admin_client(), path_of("nodes", "", name := self.config["node-name"])
        try:
            while True:
                with contextlib.suppress(KubeError):
                    async for event in client.follow(path_of("nodes"), fieldSelector=f"metadata.name={name}"):
                        for node in event.get("items", [event.get("object")]):
                            if event["type"] != "DELETED" and CONTROL_PLANE not in node["metadata"]["labels"]:
                                await client.patch(path, {"metadata": {"labels": {CONTROL_PLANE: "true"}}})
                await asyncio.sleep(AGAIN_SECONDS)
        finally:
            await client.close()


async def _end(process: asyncio.subprocess.Process) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL) if process.returncode is None else ():
        with contextlib.suppress(ProcessLookupError, TimeoutError):
            process.send_signal(number)
            await asyncio.wait_for(process.wait(), STOP_SECONDS)
