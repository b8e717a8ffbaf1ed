"""SSH into a management machine: its own host key, its one authorized user, and a short table of exact commands."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import asyncssh
import orjson
import yaml

from anycloud_sandbox.kube.cluster import SERVER_CA
from anycloud_sandbox.kube.store import KubeError
from anycloud_sandbox.state import Json

if TYPE_CHECKING:
    from anycloud_sandbox.world.machines import Machines

Result = tuple[int, str, str]  # exit status, stdout, stderr
CONFIG = "/etc/rancher/k3s/config.yaml"
WRITE_CONFIG = f"sudo sh -c 'umask 077; mkdir -p /etc/rancher/k3s; cat > {CONFIG}.new && mv {CONFIG}.new {CONFIG}'"
READ_CA = f"sudo cat {SERVER_CA.removeprefix('rootfs')}"
INSTALL, APPLY, GET_RAW = "sudo sh -s", "sudo k3s kubectl apply -f -", "sudo k3s kubectl get --raw "
RELEASES: Json = yaml.safe_load(Path(__file__).with_name("k3s.yaml").read_text())


async def serve(machines: "Machines", machine: Json, config: Json) -> asyncssh.SSHAcceptor:
    user = config["users"][0]
    keys = asyncssh.import_authorized_keys("\n".join(user["ssh_authorized_keys"]))

    class Server(asyncssh.SSHServer):
        def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
            self._connection = conn

        def begin_auth(self, username: str) -> bool:
            if username == user["name"]:
                self._connection.set_authorized_keys(keys)
            return True

    host_key = asyncssh.import_private_key(config["ssh_keys"]["ed25519_private"])
    options = {"server_host_keys": [host_key], "process_factory": Shell(machines, machine).handle}
    return await asyncssh.create_server(Server, machine["address"], machine["sshPort"], **options)


class Shell:
    def __init__(self, machines: "Machines", machine: Json) -> None:
        self._machines, self._machine = machines, machine
        self._directory = machines.directory(machine["id"])
        self._config = self._directory / "rootfs" / CONFIG.lstrip("/")

    async def handle(self, process: asyncssh.SSHServerProcess[str]) -> None:
        command = process.command or ""
        text = await process.stdin.read() if command in (WRITE_CONFIG, INSTALL, APPLY) else ""
        status, out, err = await self._run(command, text)
        process.stdout.write(out)
        process.stderr.write(err)
        process.exit(status)

    async def _run(self, command: str, text: str) -> Result:
        if command == APPLY or command.startswith(GET_RAW):
            return await self._kubectl(text, command.removeprefix(GET_RAW).strip("'"))
        if command == INSTALL:
            return self._install(text)
        if command == WRITE_CONFIG:
            self._config.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._config.touch(mode=0o600)
            self._config.write_text(text)
        state, ca = self._machines.k3s_state(self._machine["id"]), self._directory / SERVER_CA
        answers: dict[str, Result] = {
            "uname -m": (0, "x86_64\n", ""),
            "sudo systemctl is-active k3s": (0 if state == "active" else 3, state + "\n", ""),
            READ_CA: (0, ca.read_text(), "") if ca.is_file() else (1, "", "cat: No such file or directory\n"),
            WRITE_CONFIG: (0, "", ""),
        }
        return answers.get(command, (127, "", "command not found in the sandbox\n"))

    def _install(self, script: str) -> Result:
        """Does not run the script: reads from it which K3s it would download and check."""
        wanted = dict(re.findall(r"^# k3s-(version|sha256): (\S+)$", script, re.M))
        if wanted.get("version") not in RELEASES:
            return 22, "", f"curl: (22) The requested URL returned error: 404 ({wanted.get('version')})\n"
        if wanted.get("sha256") != RELEASES[wanted["version"]]:
            return 1, "", "k3s: FAILED\nsha256sum: WARNING: 1 computed checksum did NOT match\n"
        config = yaml.safe_load(self._config.read_text()) if self._config.is_file() else {}
        self._machines.install_k3s(self._machine, wanted["version"], config)
        return 0, "", ""

    async def _kubectl(self, manifests: str, path: str) -> Result:
        """As the machine's admin, through the API that everybody uses."""
        cluster = self._machines.clusters.get(self._machine["id"])
        if cluster is None:
            return 1, "", "The connection to the server 127.0.0.1:6443 was refused\n"
        client = cluster.admin_client()
        try:
            if not manifests:
                return 0, orjson.dumps(await client.call("GET", path)).decode(), ""
            done = [await client.apply(body, "kubectl") for body in filter(None, yaml.safe_load_all(manifests))]
            names = [f"{obj['kind'].lower()}/{obj['metadata']['name']} serverside-applied\n" for obj in done]
            return 0, "".join(names), ""
        except (KubeError, yaml.YAMLError, KeyError) as error:
            return 1, "", f"Error from server: {error}\n"
        finally:
            await client.close()
