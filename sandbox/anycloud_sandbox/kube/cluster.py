"""One management machine's control plane: keys, objects, listener, controllers."""

import asyncio
import base64
import hashlib
import secrets
import ssl
from pathlib import Path

import aiohttp
import yaml
from aiohttp import web

from anycloud_sandbox.faults import Fault, Faults
from anycloud_sandbox.kube.api import Api
from anycloud_sandbox.kube.auth import Authenticator
from anycloud_sandbox.kube.client import KubeClient
from anycloud_sandbox.kube.controllers import Controllers
from anycloud_sandbox.kube.helm import play_charts
from anycloud_sandbox.kube.store import Store
from anycloud_sandbox.kube.watch import CUT, END, Watches
from anycloud_sandbox.pki import Authority, TokenSigner, key_pem, load_key, new_key
from anycloud_sandbox.state import Json, Pace, State

PORT = 6443
TLS_FOLDER = "rootfs/var/lib/rancher/k3s/server/tls"
SERVER_CA = f"{TLS_FOLDER}/server-ca.crt"
SEEDS: list[tuple[str, str, Json]] = [
    ("namespaces", name, {}) for name in ("kube-system", "default", "kube-node-lease")
]
SEEDS += [("clusterroles", "cluster-admin", {}), ("runtimeclasses", "nvidia", {"handler": "nvidia"})]


def new_record(machine: Json, version: str, config: Json) -> Json:
    """What a cluster is, to be stored before it starts: its keys and K3s's configuration."""
    password = str(config.get("agent-token") or config.get("token") or secrets.token_hex(16))
    record = {"machine": machine["id"], "address": machine["address"], "version": version, "config": config}
    record |= {"authority": Authority("k3s-server-ca").document(), "signer": key_pem(new_key())}
    return record | {"adminToken": secrets.token_hex(24), "joinPassword": password}


class Cluster:
    def __init__(self, state: State, faults: Faults, record: Json, directory: Path, pace: Pace) -> None:
        self._state, self._faults, self._record, self._directory = state, faults, record, directory
        self.config, self._pace = record["config"], pace
        self.endpoint = f"https://{record['address']}:{PORT}"
        self._authority = Authority("k3s-server-ca", record["authority"])
        digest = hashlib.sha256(self._authority.pem.encode()).hexdigest()
        self.join_token = f"K10{digest}::node:{record['joinPassword']}"
        self._store = Store(state, f"kube/{record['machine']}")
        self._watches = Watches(state, self._store)

    async def start(self) -> None:
        record, ca = self._record, self._authority
        self._write("rootfs/etc/rancher/k3s/k3s.yaml", yaml.safe_dump(self._kubeconfig()))
        self._write(SERVER_CA, ca.pem)
        keys = (record["adminToken"], record["joinPassword"])
        auth = Authenticator(self._store, TokenSigner(load_key(record["signer"])), ca, *keys)
        controllers = Controllers(self._state, self._store, auth, ca.pem, self._pace)
        for plural, name, rest in SEEDS:
            if not self._store.find(plural, "", name):
                self._store.create(plural, "", {"metadata": {"name": name}, **rest})
        server, client = (self._tls(protocol) for protocol in (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT))
        server.verify_mode = ssl.CERT_OPTIONAL
        client.check_hostname, client.verify_mode = False, ssl.CERT_NONE  # kubelets' certificates are their own
        self._kubelets = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=client, limit=0))
        about = (record["machine"], record["version"], ca.pem, self._state, self._faults)
        app = web.Application(client_max_size=8 * 2**20)
        app.router.add_route("*", "/{path:.*}", Api(*about, self._store, auth, self._watches, self._kubelets).handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2, keepalive_timeout=3600)
        await self._runner.setup()
        await web.TCPSite(self._runner, record["address"], PORT, ssl_context=server, backlog=1024).start()
        self._faults.on_change.append(self._fault_changed)
        work = (controllers.run(), play_charts(self.admin_client()))
        self._tasks = [asyncio.create_task(part) for part in work]

    async def stop(self) -> None:
        self._faults.on_change.remove(self._fault_changed)
        for task in self._tasks:
            task.cancel()
        self._watches.end(END)
        await self._runner.cleanup()
        await self._kubelets.close()

    def admin_client(self) -> KubeClient:
        headers = {"Authorization": f"Bearer {self._record['adminToken']}"}
        return KubeClient(self.endpoint, self._authority.pem, headers=headers)

    def _tls(self, protocol: int) -> ssl.SSLContext:
        addresses = [self._record["address"], *self.config.get("tls-san", [])]
        path = self._write(f"{TLS_FOLDER}/{protocol}.pem", self._authority.issue("k3s", addresses))
        context = ssl.SSLContext(protocol)
        context.load_cert_chain(path)
        context.load_verify_locations(cadata=self._authority.pem)
        return context

    def _write(self, name: str, text: str) -> Path:
        path = self._directory / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.write_text(text)
        return path

    def _kubeconfig(self) -> Json:
        ca = base64.b64encode(self._authority.pem.encode()).decode()
        cluster = {"server": self.endpoint, "certificate-authority-data": ca}
        pairs = {"cluster": cluster, "user": {"token": self._record["adminToken"]}}
        pairs["context"] = {"cluster": "default", "user": "default"}
        lists = {f"{name}s": [{"name": "default", name: value}] for name, value in pairs.items()}
        return {"apiVersion": "v1", "kind": "Config", "current-context": "default", **lists}

    def _fault_changed(self, fault: Fault) -> None:
        if fault.match.get("cluster", self._record["machine"]) == self._record["machine"]:
            if fault.effect in ("cut", "down"):
                self._watches.end(CUT, fault.match.get("resource"))
            elif fault.effect == "compact":
                self._store.log.clear()
