"""The sandbox and its node agent as processes of a test: `async with Sandbox(tmp_path) as sandbox: …`."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import yaml

Json = dict[str, Any]
K3S_VERSION = "v1.36.5+k3s1"
K3S_SHA256 = "d73847bcd3c5fccef0115b372e2f9a91f3032dc84bbf71518a4617565294d313"
KEYS = {"x-sandbox-key": "account.key", "x-sandbox-secret": "secret"}
WRITE_CONFIG = (
    "sudo sh -c 'umask 077; mkdir -p /etc/rancher/k3s; cat > /etc/rancher/k3s/config.yaml.new"
    " && mv /etc/rancher/k3s/config.yaml.new /etc/rancher/k3s/config.yaml'"
)


class Refused(Exception):
    """An error answer of the world: HTTP status, and its class."""

    def __init__(self, status: int, body: Json) -> None:
        super().__init__(f"{status} {body}")
        self.status, self.kind, self.message = status, body.get("class"), body.get("message")


@dataclass
class Management:
    """A management machine with K3s up. `kubeconfig` is the admin's."""

    machine: Json
    network: Json
    kubeconfig: Path
    ca: str
    token: str
    endpoint: str
    host_key: Any
    user_key: Any

    def ssh_options(self) -> Json:
        trusted: tuple[list[Any], list[Any], list[Any]] = ([self.host_key.convert_to_public()], [], [])
        about = {"host": self.machine["address"], "port": self.machine["sshPort"], "username": "anycloud"}
        return {**about, "client_keys": [self.user_key], "known_hosts": trusted, "config": None, "agent_path": None}


@dataclass
class Sandbox:
    directory: Path
    delay: float = 0.0
    agent: bool = True
    lease_seconds: float = 40.0
    rotate_after: float = 0.8
    kube_assets: Sequence[Path] = ()  # folders of Kubernetes' own programs, for control planes of those
    url: str = ""
    world_process: subprocess.Popen[str] | None = None
    agent_process: subprocess.Popen[str] | None = None
    _tokens: int = field(default=0)

    @property
    def state(self) -> Path:
        return self.directory / "sandbox"

    async def __aenter__(self) -> Sandbox:
        self.start_world()
        if self.agent:
            self.start_agent()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start_world(self) -> None:
        """Starts (again, on the same port) and returns once it answers."""
        port = self.url.rpartition(":")[2] or "0"
        options = ["--port", port, "--delay", str(self.delay), "--lease-seconds", str(self.lease_seconds)]
        options += [word for folder in self.kube_assets for word in ("--kube-assets", str(folder))]
        self.world_process = self._start("serve", *options)
        assert self.world_process.stdout
        self.url = self.world_process.stdout.readline().strip()
        if not self.url:
            raise RuntimeError(f"the sandbox did not start; see {self.directory / 'serve.log'}")

    def start_agent(self) -> None:
        options = ["--world", self.url, "--rotate-after", str(self.rotate_after)]
        self.agent_process = self._start("nodeagent", *options)

    def end_world(self, number: int = signal.SIGKILL) -> None:
        _end(self.world_process, number)

    def end_agent(self, number: int = signal.SIGTERM) -> None:
        """SIGTERM ends the containers as a power cut would; SIGKILL leaves them for the next agent."""
        _end(self.agent_process, number)

    def stop(self) -> None:
        self.end_agent(signal.SIGTERM)
        self.end_world(signal.SIGTERM)

    def call(self, method: str, path: str, body: Json | None = None, headers: Json | None = None) -> Json:
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self.url + path, data, headers=headers or {}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return dict(json.load(answer))
        except urllib.error.HTTPError as error:
            raise Refused(error.code, json.load(error)) from error

    def cloud(self, action: str, body: Json, provider: str = "AWS", headers: Json | None = None) -> Json:
        return self.call("POST", f"/cloud/{provider}/{action}", body, {**KEYS, **(headers or {})})

    def image(self, reference: str, command: list[str], **manifest: Any) -> str:
        """Registers an image; its digest."""
        body = {"reference": reference, "manifest": {"accelerator": "none", "command": command, **manifest}}
        return str(self.call("POST", "/registry/images", body)["digest"])

    def fault(self, effect: str, times: int | None = None, seconds: float = 1, **match: str) -> str:
        body = {"effect": effect, "match": match, "times": times, "seconds": seconds}
        return str(self.call("POST", "/faults", body)["id"])

    def token(self) -> str:
        self._tokens += 1
        return f"token-{self._tokens}"

    def network(self) -> Json:
        body = {"token": self.token(), "name": "net", "region": "us-east-1", "rules": [], "tags": {}}
        return dict(self.cloud("CreateNetwork", body)["network"])

    def machine(self, network: Json, name: str, user_data: str, address: str | None = None, **more: Any) -> Json:
        body: Json = {
            "token": self.token(),
            "name": name,
            "region": "us-east-1",
            "zone": "us-east-1a",
            "image": "image",
        }
        body |= {"vmType": "m5.large", "network": network["id"], "address": address, "userData": user_data, "tags": {}}
        return dict(self.cloud("CreateMachine", {**body, **more})["machine"])

    async def until(self, check: Any, seconds: float = 15) -> Any:
        """The first true answer of a plain or async function, asked ten times a second."""
        end = asyncio.get_running_loop().time() + seconds
        while True:
            found = check()
            found = await found if asyncio.iscoroutine(found) else found
            if found:
                return found
            if asyncio.get_running_loop().time() > end:
                raise TimeoutError(f"not within {seconds} s: {check}")
            await asyncio.sleep(0.1)

    async def management(self, config: Json | None = None) -> Management:
        """Buys a management machine and installs K3s on it over SSH, as the cluster service does."""
        import asyncssh

        host_key, user_key = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(2))
        network = self.network()
        body = {"token": self.token(), "name": "mgmt", "region": "us-east-1", "tags": {}}
        address = self.cloud("CreateAddress", body)["address"]
        keys = {"ed25519_private": host_key.export_private_key().decode()}
        keys["ed25519_public"] = host_key.export_public_key().decode()
        user = {"name": "anycloud", "ssh_authorized_keys": [user_key.export_public_key().decode()]}
        user_data = "#cloud-config\n" + yaml.safe_dump({"ssh_keys": keys, "users": [user]})
        machine = self.machine(network, "mgmt", user_data, address["id"])
        folder = self.state / "machines" / machine["id"] / "rootfs"
        kubeconfig = folder / "etc/rancher/k3s/k3s.yaml"
        endpoint = f"https://{machine['address']}:6443"
        made = Management(machine, network, kubeconfig, "", "", endpoint, host_key, user_key)
        await self._install_k3s(made, config or {})
        document = yaml.safe_load(kubeconfig.read_text())
        made.token = document["users"][0]["user"]["token"]
        made.ca = (folder / "var/lib/rancher/k3s/server/tls/server-ca.crt").read_text()
        return made

    async def _install_k3s(self, made: Management, config: Json) -> None:
        import asyncssh

        base = {"node-name": "mgmt", "token": "join-token", "tls-san": [made.machine["address"]]}
        base["node-label"] = ["anycloud.sh/cluster-management=true"]
        base["node-taint"] = ["node-role.kubernetes.io/control-plane=true:NoSchedule"]
        script = f"#!/bin/sh\n# k3s-version: {K3S_VERSION}\n# k3s-sha256: {K3S_SHA256}\n"

        async def connect() -> Any:
            try:
                return await asyncssh.connect(**made.ssh_options())
            except OSError:
                return None

        async with await self.until(connect) as ssh:
            await ssh.run(WRITE_CONFIG, input=yaml.safe_dump({**base, **config}), check=True)
            await ssh.run("sudo sh -s", input=script, check=True)

            async def active() -> bool:
                return bool((await ssh.run("sudo systemctl is-active k3s")).exit_status == 0)

            await self.until(active, 90 if self.kube_assets else 15)

    def pool_machine(self, made: Management, name: str, token: str, **more: Any) -> Json:
        """A machine that joins as the Node `name`; `token` is `<id>.<secret>` of a bootstrap token."""
        import hashlib

        digest = hashlib.sha256(made.ca.encode()).hexdigest()
        config = {"server": made.endpoint, "token": f"K10{digest}::{token}", "node-name": name}
        config["node-label"] = more.pop("labels", ["anycloud.sh/node-pool=pool"])
        config["node-taint"] = more.pop("taints", [])
        file = {"path": "/etc/rancher/k3s/config.yaml", "content": yaml.safe_dump(config)}
        return self.machine(made.network, name, "#cloud-config\n" + yaml.safe_dump({"write_files": [file]}), **more)

    def _start(self, command: str, *options: str) -> subprocess.Popen[str]:
        self.directory.mkdir(parents=True, exist_ok=True)
        argv = [sys.executable, "-m", "anycloud_sandbox", command, "--state", str(self.state), *options]
        with (self.directory / f"{command}.log").open("a") as log:
            return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=log, text=True)


def bootstrap_secret(token: str) -> Json:
    """The Secret by which a machine may join with `<id>.<secret>`."""
    token_id, _, secret = token.partition(".")
    data = {"token-id": token_id, "token-secret": secret, "usage-bootstrap-authentication": "true"}
    meta = {"name": f"bootstrap-token-{token_id}", "namespace": "kube-system"}
    return {"metadata": meta, "type": "bootstrap.kubernetes.io/token", "stringData": data}


def _end(process: subprocess.Popen[str] | None, number: int) -> None:
    if process and process.poll() is None:
        process.send_signal(number)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    if process and process.stdout:
        process.stdout.close()
