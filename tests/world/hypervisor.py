"""Real VMs for the machines that the product buys in the sandbox's clouds, booted with the very user data it sends.

Inside each VM's network this process answers for two addresses of the world outside: the cloud's metadata, and the
place where K3s is downloaded from (which gives out the stand-in `k3s.py` beside this file).
"""

from __future__ import annotations

import json
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from anycloud_control_plane.certificates import Authority

from tests.kube.assets.location import locate
from tests.world.assets import images, location
from tests.world.vm import METADATA_ADDRESS, VM, Network

Json = dict[str, Any]

K3S = Path(__file__).with_name("k3s.py")
_AGENT = "/var/lib/rancher/k3s/agent"
_TRUSTED = "etc/ssl/certs/ca-certificates.crt"
_POLL_SECONDS = 5


class Hypervisor:
    """Follows the sandbox's machines until `stop`. `vms` are those that it ever had, by the machine's id."""

    def __init__(self, network: Network, world_url: str, directory: Path, image_names: Mapping[str, str]) -> None:
        self.vms: dict[str, VM] = {}
        self.failure: BaseException | None = None
        self._network, self._url, self._directory, self._names = network, world_url, directory, dict(image_names)
        self._authority = Authority("the world's own authority")
        self._servers: dict[str, list[ThreadingHTTPServer]] = {}
        self._lock = threading.RLock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        pem = directory / "github.pem"
        pem.touch(0o600)
        pem.write_text(self._authority.issue("github.com", hosts=["github.com"]))
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(pem)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(_POLL_SECONDS + 10)
        with self._lock:
            for machine_id in self.vms:
                self.cut(machine_id)

    def named(self, name: str) -> VM | None:
        """The VM of the machine, and so of the Node, of that name."""
        return next((vm for vm in self.vms.values() if vm.name == name), None)

    def cut(self, machine_id: str) -> None:
        """Takes a VM's power away. For its provider the machine runs on."""
        with self._lock:
            self._close(machine_id)
            self.vms[machine_id].cut()

    def boot(self, machine_id: str) -> None:
        """Gives it back."""
        with self._lock:
            self.vms[machine_id].boot(lambda vm: self._serve(machine_id, vm))

    def machine_id(self, vm: VM) -> str:
        return next(key for key, value in self.vms.items() if value is vm)

    def _follow(self) -> None:
        since = 0
        while not self._stopping.is_set():
            try:
                url = f"{self._url}/hypervisor/machines?since={since}&wait={_POLL_SECONDS}"
                with urllib.request.urlopen(url, timeout=_POLL_SECONDS + 10) as answer:
                    found = json.load(answer)
                for line in found["machines"]:
                    self._see(line)
                since = found["since"]
            except (urllib.error.URLError, OSError, ValueError):
                self._stopping.wait(0.5)
            except BaseException as error:
                self.failure = error
                raise

    def _see(self, line: Json) -> None:
        machine_id, state = line["id"], line["state"]
        if state == "running" and line["nodeConfig"] and machine_id not in self.vms:
            with self._lock:
                self.vms[machine_id] = self._made(line)
                self.boot(machine_id)
        elif state in ("stopping", "terminated") and machine_id in self.vms:
            with self._lock:
                self._close(machine_id)
                self.vms[machine_id].destroy()

    def _made(self, line: Json) -> VM:
        bind = [(locate("kubelet"), "/opt/k3s/kubelet"), (location.images(), f"{_AGENT}/images")]
        vm = self._network.vm(line["name"], line["userData"].encode(), bind=bind)
        trusted = (location.root() / _TRUSTED).read_text() + self._authority.pem
        vm.write(_TRUSTED, trusted)
        names = vm.data / "k3s/agent/names"
        names.parent.mkdir(parents=True)
        names.write_text("".join(f"{image} {name}\n" for name, image in self._names.items()))
        return vm

    def _serve(self, machine_id: str, vm: VM) -> None:
        servers = [_server(vm, 80, {"public-ipv4": vm.address.encode()}), _server(vm, 443, {"k3s": K3S.read_bytes()})]
        # Whoever breaks off in the middle of a handshake holds up his own thread only.
        wrapped = self._tls.wrap_socket(servers[1].socket, server_side=True, do_handshake_on_connect=False)
        servers[1].socket = wrapped
        for server in servers:
            threading.Thread(target=server.serve_forever, daemon=True).start()
        self._servers[machine_id] = servers

    def _close(self, machine_id: str) -> None:
        for server in self._servers.pop(machine_id, ()):
            server.shutdown()
            server.server_close()


class _Handler(BaseHTTPRequestHandler):
    """Answers by the last part of the path."""

    answers: Mapping[str, bytes] = {}

    def do_GET(self) -> None:
        body = self.answers.get(self.path.rpartition("/")[2])
        self.send_response(404 if body is None else 200)
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    def do_PUT(self) -> None:
        """The token that AWS wants to see with each question."""
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"token")

    def log_message(self, format: str, *args: Any) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A VM that loses power breaks off."""


def _server(vm: VM, port: int, answers: Mapping[str, bytes]) -> ThreadingHTTPServer:
    handler = type("Handler", (_Handler,), {"answers": answers})
    server = _Server((METADATA_ADDRESS, port), handler, bind_and_activate=False)
    server.socket.close()
    server.socket = vm.listen(METADATA_ADDRESS, port)
    return server


def image_names(reference: str, digest: str) -> dict[str, str]:
    """The name that a Pod asks for, and the archive's: the sandbox's registry has digests of its own making."""
    name = reference.rpartition(":")[0]
    return {f"docker.io/{name}@{digest}": images.WORKER}
