"""What is on the machines: user data read at boot, SSH, K3s, and the list for the node agent."""

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

import yaml

from anycloud_sandbox.kube.cluster import Cluster, new_record
from anycloud_sandbox.kube.real import RealCluster
from anycloud_sandbox.state import NODES, Faults, Json, Pace, State

log = logging.getLogger(__name__)
K3S_CONFIG = "/etc/rancher/k3s/config.yaml"
SHOWN = ("id", "name", "state", "address", "provider", "region", "zone", "vmType")


class Machines:
    """Follows the clouds' machines."""

    def __init__(self, state: State, faults: Faults, directory: Path, pace: Pace, assets: Sequence[Path] = ()) -> None:
        self._state, self._faults, self._directory, self._pace = state, faults, directory, pace
        self._assets = assets
        self._user_data: dict[str, Json] = {}
        self._records = state.load("clusters")
        self._ssh: dict[str, Any] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._change, self._changed_at, self._news = 0, dict[str, int](), asyncio.Event()
        self.clusters: dict[str, Cluster | RealCluster] = {}
        self.machines: dict[str, Json] = {}
        faults.on_change.append(self._fault_changed)

    def directory(self, machine_id: str) -> Path:
        path = self._directory / "machines" / machine_id
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return path

    async def resume(self, machines: dict[str, Json]) -> None:
        self.machines = machines
        for machine_id, record in self._records.items():
            await self._start_cluster(machine_id, record, 0)
        for machine in machines.values():
            self.changed(machine)

    def changed(self, machine: Json) -> None:
        """A machine's record changed: opens what runs on it, or closes all of it."""
        if machine["state"] == "running" and "ssh_keys" in self._config(machine) and machine["id"] not in self._ssh:
            self._spawn(self._open_ssh(machine))
        elif machine["state"] in ("stopping", "terminated"):
            self._spawn(self._power_off(machine["id"]))
        self._announce(machine["id"])

    def install_k3s(self, machine: Json, version: str, config: Json) -> None:
        if machine["id"] not in self._records:
            self._records[machine["id"]] = record = new_record(machine, version, config)
            self._state.put("clusters", machine["id"], record)
            self._spawn(self._start_cluster(machine["id"], record, self._pace.delay))

    def k3s_state(self, machine_id: str) -> str:
        if machine_id not in self._records:
            return "inactive"
        return "active" if (cluster := self.clusters.get(machine_id)) and cluster.serving else "activating"

    async def listing(self, since: int, wait: float) -> Json:
        """Machines that changed after `since` (all of them for 0), waiting for a change if there is none."""
        try:
            async with asyncio.timeout(wait):
                while self._change == since:
                    await self._news.wait()
        except TimeoutError:
            pass
        ids = [name for name, at in self._changed_at.items() if at > since or since > self._change]
        lines = [self._line(self.machines[name]) for name in ids]
        return {"since": self._change, "machines": lines, "heartbeatSeconds": self._pace.lease_seconds / 4}

    def _line(self, machine: Json) -> Json:
        cluster, config = self.clusters.get(machine["id"]), self._node_config(machine)
        name = (config or {}).get("node-name", machine["name"])
        effects = [it for it in NODES if self._faults.holds(it, area="node", machine=machine["id"], name=name)]
        about = {"directory": str(self.directory(machine["id"])), "nodeConfig": config, "effects": effects}
        about |= {"userData": machine["userData"]}  # for hypervisors with real VMs
        return {name: machine[name] for name in SHOWN} | about | {"apiServer": cluster.endpoint if cluster else None}

    def _node_config(self, machine: Json) -> Json | None:
        """K3s's configuration by which this machine is a Node; None while it is none (yet)."""
        if cluster := self.clusters.get(machine["id"]):
            labels = [*cluster.node_labels, *cluster.config.get("node-label", [])]
            here = {"server": cluster.endpoint, "token": cluster.join_token, "node-label": labels}
            return {"node-name": machine["name"], **cluster.config, **here}
        for file in self._config(machine).get("write_files") or [] if machine["state"] == "running" else ():
            if file["path"] == K3S_CONFIG and "server" in (config := yaml.safe_load(file["content"])):
                return {"node-name": machine["name"], **config}
        return None

    def _config(self, machine: Json) -> Json:
        """The machine's cloud-config, read once; empty on one that never gets so far."""
        if machine["id"] not in self._user_data:
            try:
                config = yaml.safe_load("" if machine["stuck"] else machine["userData"] or "")
            except yaml.YAMLError as error:
                log.warning("machine %s: user data is not YAML: %s", machine["id"], error)
                config = None
            self._user_data[machine["id"]] = config if isinstance(config, dict) else {}
        return self._user_data[machine["id"]]

    async def _open_ssh(self, machine: Json) -> None:
        from anycloud_sandbox.world import ssh  # takes 0.2 s, and most sandboxes of tests have no use for it

        self._ssh[machine["id"]] = await ssh.serve(self, machine, self._config(machine))

    async def _start_cluster(self, machine_id: str, record: Json, seconds: float) -> None:
        await asyncio.sleep(seconds)
        if self.machines[machine_id]["state"] == "running":
            cluster = self._cluster(record)
            await cluster.start()
            self.clusters[machine_id] = cluster
            self._announce(machine_id)

    def _cluster(self, record: Json) -> Cluster | RealCluster:
        if self._assets:
            return RealCluster(record, self.directory(record["machine"]), self._pace, self._assets)
        return Cluster(self._state, self._faults, record, self.directory(record["machine"]), self._pace)

    async def _power_off(self, machine_id: str) -> None:
        if acceptor := self._ssh.pop(machine_id, None):
            acceptor.close()
        if cluster := self.clusters.pop(machine_id, None):
            await cluster.stop()
        if self._records.pop(machine_id, None):
            self._state.put("clusters", machine_id, None)

    def _announce(self, machine_id: str) -> None:
        self._change += 1
        self._changed_at[machine_id] = self._change
        self._news.set()
        self._news = asyncio.Event()

    def _fault_changed(self, fault: Json) -> None:
        for machine_id in self.machines if fault["effect"] in NODES else ():
            self._announce(machine_id)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        for acceptor in self._ssh.values():
            acceptor.close()
        for cluster in self.clusters.values():
            await cluster.stop()
