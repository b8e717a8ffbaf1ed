"""SSH into a management machine: its own host key, its one authorized user, and a short table of exact commands."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import asyncssh
import orjson
import yaml

from anycloud_sandbox.kube.client import KubeClient
from anycloud_sandbox.kube.resources import RESOURCES, KubeError
from anycloud_sandbox.state import Json

if TYPE_CHECKING:
    from anycloud_sandbox.kube.cluster import Cluster
    from anycloud_sandbox.world.machines import Machines

Result = tuple[int, str, str]  # exit status, stdout, stderr
WRITE_CONFIG = (
    "sudo sh -c 'umask 077; mkdir -p /etc/rancher/k3s; cat > /etc/rancher/k3s/config.yaml.new"
    " && mv /etc/rancher/k3s/config.yaml.new /etc/rancher/k3s/config.yaml'"
)
GET_RAW = "sudo k3s kubectl get --raw "
SERVER_CA = "/var/lib/rancher/k3s/server/tls/server-ca.crt"


async def serve(machines: Machines, machine: Json, config: Json) -> asyncssh.SSHAcceptor:
    user = config["users"][0]
    keys = asyncssh.import_authorized_keys("\n".join(user["ssh_authorized_keys"]))

    class Server(asyncssh.SSHServer):
        def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
            self._connection = conn

        def begin_auth(self, username: str) -> bool:
            if username == user.get("name", "anycloud"):
                self._connection.set_authorized_keys(keys)
            return True

    shell = Shell(machines, machine)
    return await asyncssh.create_server(
        Server,
        machine["address"],
        machine["sshPort"],
        server_host_keys=[asyncssh.import_private_key(config["ssh_keys"]["ed25519_private"])],
        process_factory=shell.handle,
        encoding="utf-8",
    )


class Shell:
    def __init__(self, machines: Machines, machine: Json) -> None:
        self._machines, self._machine = machines, machine
        self._folder = machines.directory(machine["id"]) / "rootfs"

    async def handle(self, process: asyncssh.SSHServerProcess[str]) -> None:
        status, out, err = await self._run(process.command or "", process)
        process.stdout.write(out)
        process.stderr.write(err)
        process.exit(status)

    async def _run(self, command: str, process: asyncssh.SSHServerProcess[str]) -> Result:
        cluster = self._machines.clusters.get(self._machine["id"])
        if command == "uname -m":
            return 0, "x86_64\n", ""
        if command == WRITE_CONFIG:
            return self._write_config(await process.stdin.read())
        if command == "sudo sh -s":
            return self._install(await process.stdin.read())
        if command == "sudo systemctl is-active k3s":
            state = self._machines.k3s_state(self._machine["id"])
            return (0 if state == "active" else 3), state + "\n", ""
        if command == "sudo k3s kubectl apply -f -":
            return await _kubectl(cluster, _apply, await process.stdin.read())
        if command.startswith(GET_RAW):
            return await _kubectl(cluster, _get_raw, command.removeprefix(GET_RAW))
        if command == f"sudo cat {SERVER_CA}":
            path = self._folder / SERVER_CA.lstrip("/")
            found = path.is_file()
            return (0, path.read_text(), "") if found else (1, "", f"cat: {SERVER_CA}: No such file or directory\n")
        return 127, "", "command not found in the sandbox\n"

    def _write_config(self, text: str) -> Result:
        path = self._folder / "etc/rancher/k3s/config.yaml"
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.write_text(text)
        return 0, "", ""

    def _install(self, script: str) -> Result:
        from anycloud_sandbox.world.machines import K3S_RELEASES, install_header

        version, digest = install_header(script)
        if version not in K3S_RELEASES:
            return 22, "", f"curl: (22) The requested URL returned error: 404 (K3s {version!r})\n"
        if digest != K3S_RELEASES[version]:
            return 1, "", "k3s: FAILED\nsha256sum: WARNING: 1 computed checksum did NOT match\n"
        path = self._folder / "etc/rancher/k3s/config.yaml"
        if not path.is_file():
            return 1, "", "k3s has no configuration\n"
        config = yaml.safe_load(path.read_text())
        self._machines.install_k3s(self._machine, version, config if isinstance(config, dict) else {})
        return 0, "", ""


async def _kubectl(cluster: Cluster | None, work: object, argument: str) -> Result:
    """As the machine's admin, through the API that everybody uses."""
    assert callable(work)
    if cluster is None:
        return 1, "", "The connection to the server 127.0.0.1:6443 was refused\n"
    client = KubeClient(cluster.endpoint, cluster.client_tls(), {"Authorization": f"Bearer {cluster.admin_token}"})
    try:
        return 0, await work(client, argument), ""
    except (KubeError, yaml.YAMLError, KeyError, StopIteration) as error:
        return 1, "", f"Error from server: {error}\n"
    finally:
        await client.close()


async def _apply(client: KubeClient, text: str) -> str:
    lines = []
    for body in filter(None, yaml.safe_load_all(text)):
        plural = next(name for name, resource in RESOURCES.items() if resource.kind == body["kind"])
        namespace = body["metadata"].get("namespace", "default") if RESOURCES[plural].namespaced else ""
        await client.apply(plural, namespace, body, "kubectl")
        lines.append(f"{body['kind'].lower()}/{body['metadata']['name']} serverside-applied\n")
    return "".join(lines)


async def _get_raw(client: KubeClient, path: str) -> str:
    found = await client.call("GET", shlex.split(path)[0])
    return orjson.dumps(found).decode()
