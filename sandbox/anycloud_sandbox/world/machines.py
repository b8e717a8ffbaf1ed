"""What is on the machines: user data read at boot, K3s on a management machine, and the list for the node agent."""

from __future__ import annotations

import asyncio
import logging
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from anycloud_sandbox.faults import Fault, Faults
from anycloud_sandbox.kube.cluster import Cluster, new_record
from anycloud_sandbox.pace import Pace
from anycloud_sandbox.state import Json, State

if TYPE_CHECKING:
    import asyncssh

log = logging.getLogger(__name__)
K3S_CONFIG = "/etc/rancher/k3s/config.yaml"
K3S_START_SECONDS = 1.0
LASTING = ("not-ready", "silent", "zero-gpus")
# What a download of K3s would give here: version -> SHA-256 of the amd64 binary.
K3S_RELEASES = {
    "v1.35.1+k3s1": "e406ca6e47673d747ab4665c90a9285615fe082e2593343725ed043ae163abbf",
    "v1.35.5+k3s1": "267d18da7b3c837d82283f0588fb9031a8a6ff3c0dac772c260c40852ce515f6",
    "v1.35.7+k3s1": "5fc25309c53031e0cf03f7ee85f6f60969381ff3649039ffda19e30f5c26947a",
    "v1.36.2+k3s1": "65a55ec56c24eab44383086166ec620a491952b7e23941a49ddca6e8a4c4b4de",
    "v1.36.3+k3s1": "2f98a9f8fe5782479ee2d54e70a1b10a7f6fd4cae8d38ed3098452dc6eed76b5",
    "v1.36.5+k3s1": "d73847bcd3c5fccef0115b372e2f9a91f3032dc84bbf71518a4617565294d313",
    "v1.37.1+k3s1": "92b94582eb7b34a8cf532e6006842b9ed215a6783cf56a3dd6271fd35243b2c0",
}


class Machines:
    """Follows the clouds' machines; `machines` is theirs, by id."""

    def __init__(self, state: State, faults: Faults, directory: Path, pace: Pace) -> None:
        self._state, self._faults, self._directory, self._pace = state, faults, directory, pace
        self._user_data: dict[str, Json] = {}
        self._records = state.load("clusters")
        self._ssh: dict[str, asyncssh.SSHAcceptor] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed_at: dict[str, int] = {}
        self._change = 0
        self._news = asyncio.Condition()
        self.clusters: dict[str, Cluster] = {}
        self.machines: dict[str, Json] = {}
        faults.on_change.append(self._fault_changed)

    def directory(self, machine_id: str) -> Path:
        path = self._directory / "machines" / machine_id
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return path

    async def resume(self, machines: dict[str, Json]) -> None:
        self.machines = machines
        for machine in list(machines.values()):
            self.changed(machine)
        for machine_id, record in self._records.items():
            await self._start_cluster(machine_id, record, 0)

    def changed(self, machine: Json) -> None:
        """A machine's record changed: opens what runs on it, or closes all of it."""
        if machine["state"] == "running" and not machine["stuck"]:
            config = self._config(machine)
            if config.get("ssh_keys") and machine["id"] not in self._ssh:
                self._spawn(self._open_ssh(machine, config))
        elif machine["state"] in ("stopping", "terminated"):
            self._spawn(self._power_off(machine))
        self._announce(machine["id"])

    def install_k3s(self, machine: Json, version: str, config: Json) -> None:
        if machine["id"] not in self._records:
            record = new_record(machine["id"], machine["address"], version, config)
            self._records[machine["id"]] = record
            self._state.put("clusters", machine["id"], record)
            self._spawn(self._start_cluster(machine["id"], record, K3S_START_SECONDS * self._pace.delay))

    def k3s_state(self, machine_id: str) -> str:
        if machine_id in self.clusters:
            return "active"
        return "activating" if machine_id in self._records else "inactive"

    async def listing(self, since: int, wait: float) -> Json:
        """Machines that changed after `since` (all of them for 0), waiting for a change if there is none."""
        async with self._news:
            try:
                async with asyncio.timeout(wait if since else 0):
                    await self._news.wait_for(lambda: self._change != since)
            except TimeoutError:
                pass
        ids = [name for name, at in self._changed_at.items() if at > since or since > self._change]
        return {"since": self._change, "machines": [self._line(self.machines[name]) for name in ids]}

    def _line(self, machine: Json) -> Json:
        names = ("id", "name", "state", "address", "provider", "region", "zone", "vmType")
        line = {name: machine[name] for name in names} | {"directory": str(self.directory(machine["id"]))}
        alive = machine["state"] == "running" and not machine["stuck"]
        line["nodeConfig"] = node = self._node_config(machine) if alive else None
        line["apiServer"] = self.clusters[machine["id"]].endpoint if machine["id"] in self.clusters else None
        fields = {"area": "node", "name": (node or {}).get("node-name", ""), "machine": machine["id"]}
        line["effects"] = [effect for effect in LASTING if self._faults.holds(effect, **fields)]
        return line

    def _node_config(self, machine: Json) -> Json | None:
        """K3s's configuration by which this machine is a Node; none while it is no Node (yet)."""
        cluster = self.clusters.get(machine["id"])
        if cluster:
            labels = ["node-role.kubernetes.io/control-plane=true", *cluster.config.get("node-label", [])]
            here = {"server": cluster.endpoint, "token": cluster.join_token, "node-name": machine["name"]}
            return {**here, **_only(cluster.config, "node-name", "node-taint"), "node-label": labels}
        for file in self._config(machine).get("write_files") or []:
            if file.get("path") == K3S_CONFIG:
                config = yaml.safe_load(file["content"])
                return {"node-name": machine["name"], **config} if config.get("server") else None
        return None

    def _config(self, machine: Json) -> Json:
        """The machine's cloud-config, read once."""
        if machine["id"] not in self._user_data:
            try:
                config = yaml.safe_load(machine["userData"] or "")
            except yaml.YAMLError as error:
                log.warning("machine %s: user data is not YAML: %s", machine["id"], error)
                config = None
            self._user_data[machine["id"]] = config if isinstance(config, dict) else {}
        return self._user_data[machine["id"]]

    async def _open_ssh(self, machine: Json, config: Json) -> None:
        from anycloud_sandbox.world import ssh  # takes 0.2 s, and most sandboxes of tests have no use for it

        self._ssh[machine["id"]] = await ssh.serve(self, machine, config)

    async def _start_cluster(self, machine_id: str, record: Json, seconds: float) -> None:
        await asyncio.sleep(seconds)
        machine = self.machines[machine_id]
        if machine["state"] == "running":
            cluster = Cluster(self._state, self._faults, record, self.directory(machine_id), self._pace)
            await cluster.start()
            self.clusters[machine_id] = cluster
            self._announce(machine_id)

    async def _power_off(self, machine: Json) -> None:
        if acceptor := self._ssh.pop(machine["id"], None):
            acceptor.close()
        if cluster := self.clusters.pop(machine["id"], None):
            await cluster.stop()
        if self._records.pop(machine["id"], None):
            self._state.put("clusters", machine["id"], None)
            self._state.clear(f"kube/{machine['id']}")
        if machine["state"] == "terminated":
            shutil.rmtree(self._directory / "machines" / machine["id"] / "volumes", ignore_errors=True)

    def _announce(self, machine_id: str) -> None:
        self._change += 1
        self._changed_at[machine_id] = self._change
        self._spawn(self._notify())

    async def _notify(self) -> None:
        async with self._news:
            self._news.notify_all()

    def _fault_changed(self, fault: Fault) -> None:
        if fault.effect in LASTING:
            for machine_id in self.machines:
                self._announce(machine_id)

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception():
            log.error("a machine's part failed", exc_info=task.exception())

    async def close(self) -> None:
        for acceptor in self._ssh.values():
            acceptor.close()
        for cluster in list(self.clusters.values()):
            await cluster.stop()


def install_header(script: str) -> tuple[str, str]:
    """Version and checksum that an install script names in its first lines."""
    head = "\n".join(script.splitlines()[:20])
    version, digest = (re.search(rf"^# k3s-{name}: (\S+)$", head, re.M) for name in ("version", "sha256"))
    return (version[1] if version else "", digest[1] if digest else "")


def _only(config: Json, *names: str) -> Json:
    return {name: config[name] for name in names if name in config}
