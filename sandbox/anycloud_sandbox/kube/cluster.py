"""One management machine's control plane: keys, objects, listener, controllers."""

from __future__ import annotations

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
from anycloud_sandbox.kube.controllers import Controllers
from anycloud_sandbox.kube.helm import HelmPlayer
from anycloud_sandbox.kube.joining import Joining
from anycloud_sandbox.kube.store import Store
from anycloud_sandbox.kube.watch import Watches
from anycloud_sandbox.pace import Pace
from anycloud_sandbox.pki import Authority, TokenSigner, key_pem, load_key, new_key
from anycloud_sandbox.state import Json, State

PORT = 6443
SYSTEM_NAMESPACES = ("kube-system", "default", "kube-public", "kube-node-lease")


def new_record(machine_id: str, address: str, version: str, config: Json) -> Json:
    """What a cluster is, to be stored before it starts: its keys and K3s's configuration."""
    return {
        "machine": machine_id,
        "address": address,
        "version": version,
        "config": config,
        "authority": Authority.new(f"k3s-server-ca@{machine_id}").document(),
        "signer": key_pem(new_key()),
        "adminToken": secrets.token_hex(24),
        "joinPassword": str(config.get("agent-token") or config.get("token") or secrets.token_hex(16)),
    }


class Cluster:
    def __init__(self, state: State, faults: Faults, record: Json, directory: Path, pace: Pace) -> None:
        self.state, self.faults, self.directory, self.pace = state, faults, directory, pace
        self.loop = asyncio.get_running_loop()
        self.machine_id, self.address, self.version = record["machine"], record["address"], record["version"]
        self.config: Json = record["config"]
        self.admin_token: str = record["adminToken"]
        self.join_password: str = record["joinPassword"]
        self.authority = Authority.load(record["authority"])
        self.store = Store(state, f"kube/{self.machine_id}")
        signer = TokenSigner(load_key(record["signer"]))
        self.auth = Authenticator(self.store, signer, self.admin_token, self.join_password)
        self.joining = Joining(self.store, self.authority)
        self.watches = Watches()
        self.store.followers.append(self.watches.follow)
        self.controllers = Controllers(self)
        self.helm = HelmPlayer(self)
        self.kubelets: aiohttp.ClientSession
        self._runner: web.AppRunner | None = None
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def endpoint(self) -> str:
        return f"https://{self.address}:{PORT}"

    @property
    def join_token(self) -> str:
        digest = hashlib.sha256(self.authority.pem.encode()).hexdigest()
        return f"K10{digest}::node:{self.join_password}"

    async def start(self) -> None:
        self._seed()
        server = self._tls(ssl.PROTOCOL_TLS_SERVER, "kube-apiserver", [self.address, *self.config.get("tls-san", [])])
        server.verify_mode = ssl.CERT_OPTIONAL
        client = self._tls(ssl.PROTOCOL_TLS_CLIENT, "kube-apiserver-kubelet-client", [])
        client.check_hostname, client.verify_mode = False, ssl.CERT_NONE  # kubelets' certificates are their own here
        self.kubelets = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=client, limit=0))
        app = web.Application(client_max_size=8 * 2**20)
        app.router.add_route("*", "/{path:.*}", Api(self).handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2, keepalive_timeout=3600)
        await self._runner.setup()
        await web.TCPSite(self._runner, self.address, PORT, ssl_context=server, backlog=1024).start()
        self.faults.on_change.append(self._fault_changed)
        self._tasks = [asyncio.create_task(self.controllers.run()), asyncio.create_task(self.helm.run())]

    async def stop(self) -> None:
        if self._runner is None:
            return
        self.faults.on_change.remove(self._fault_changed)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.watches.end()
        await self._runner.cleanup()
        await self.kubelets.close()
        self._runner = None

    def client_tls(self) -> ssl.SSLContext:
        """For a client that trusts this cluster's CA."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=self.authority.pem)
        return context

    def _tls(self, protocol: ssl._SSLMethod, name: str, hosts: list[str]) -> ssl.SSLContext:
        certificate, key = self.authority.issue(name, hosts=hosts)
        folder = self.directory / "rootfs/var/lib/rancher/k3s/server/tls"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / "server-ca.crt").write_text(self.authority.pem)
        path = folder / f"{name}.pem"
        path.touch(mode=0o600)
        path.write_text(key + certificate)
        context = ssl.SSLContext(protocol)
        context.load_cert_chain(path)
        context.load_verify_locations(cadata=self.authority.pem)
        return context

    def _seed(self) -> None:
        """The objects of a fresh K3s, and the admin's kubeconfig on the machine."""
        for name in SYSTEM_NAMESPACES:
            if not self.store.find("namespaces", "", name):
                self.store.create("namespaces", "", {"metadata": {"name": name}})
        fresh: list[tuple[str, str, Json]] = [("clusterroles", "", {"metadata": {"name": "cluster-admin"}})]
        fresh.append(("services", "default", {"metadata": {"name": "kubernetes"}, "spec": {"clusterIP": "10.43.0.1"}}))
        if "runtimes" not in self.config.get("disable", []):
            fresh.append(("runtimeclasses", "", {"metadata": {"name": "nvidia"}, "handler": "nvidia"}))
        for plural, namespace, body in fresh:
            if not self.store.find(plural, namespace, body["metadata"]["name"]):
                self.store.create(plural, namespace, body)
        path = self.directory / "rootfs/etc/rancher/k3s/k3s.yaml"
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(self._kubeconfig()))

    def _kubeconfig(self) -> Json:
        ca = base64.b64encode(self.authority.pem.encode()).decode()
        about = {"server": self.endpoint, "certificate-authority-data": ca}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "default", "cluster": about}],
            "users": [{"name": "default", "user": {"token": self.admin_token}}],
            "contexts": [{"name": "default", "context": {"cluster": "default", "user": "default"}}],
            "current-context": "default",
        }

    def _fault_changed(self, fault: Fault) -> None:
        here = fault.match.get("cluster", self.machine_id) == self.machine_id
        if here and fault.effect in ("cut", "down"):
            self.watches.end(fault.match.get("resource"), broken=True)
        if here and fault.effect == "compact":
            self.store.log.clear()
