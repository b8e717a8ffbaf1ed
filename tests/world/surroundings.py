"""What a VM finds around it: its cloud's metadata, and the place where K3s is downloaded from.

This process answers for both inside the VM's own network. What is downloaded is the stand-in `k3s.py` in one file with
the control plane that it starts.
"""

from __future__ import annotations

import hashlib
import io
import ssl
import threading
import zipfile
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anycloud_control_plane
from anycloud_control_plane.certificates import Authority

from tests.kube.assets.location import PROGRAMS, locate
from tests.world.assets import location
from tests.world.vm import METADATA_ADDRESS, VM

AGENT = "/var/lib/rancher/k3s/agent"
_TRUSTED = "etc/ssl/certs/ca-certificates.crt"
_STARTED_BY = b"#!/usr/bin/python3\n"


class Surroundings:
    """`sha256` is that of the `k3s` which VMs download."""

    def __init__(self, directory: Path) -> None:
        self._k3s = _k3s()
        self.sha256 = hashlib.sha256(self._k3s).hexdigest()
        self._authority = Authority("the tests' own authority")
        self._servers: dict[VM, list[ThreadingHTTPServer]] = {}
        pem = directory / "github.pem"
        pem.touch(0o600)
        pem.write_text(self._authority.issue("github.com", hosts=["github.com"]))
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(pem)

    @staticmethod
    def brought_along(*archives: Path) -> list[tuple[Path, str]]:
        """Programs that K3s has in itself, and the images that lie ready for it: these, else the common ones."""
        programs = [(locate(name), f"/opt/k3s/{name}") for name in PROGRAMS if name not in ("etcd", "helm")]
        if not archives:
            return [*programs, (location.images(), f"{AGENT}/images")]
        return [*programs, *((path, f"{AGENT}/images/{path.name}") for path in archives)]

    def prepare(self, vm: VM, names: Mapping[str, str]) -> None:
        """Writes to the disk of a new VM. `names`: what Pods call an image that it brings along, and its own name."""
        vm.write(_TRUSTED, (location.root() / _TRUSTED).read_text() + self._authority.pem)
        known = vm.data / "k3s/agent/names"
        known.parent.mkdir(parents=True)
        known.write_text("".join(f"{image} {name}\n" for name, image in names.items()))

    def serve(self, vm: VM) -> None:
        """Begins to answer; for `VM.boot`."""
        servers = [_server(vm, 80, {"public-ipv4": vm.address.encode()}), _server(vm, 443, {"k3s": self._k3s})]
        # Whoever breaks off in the middle of a handshake holds up his own thread only.
        wrapped = self._tls.wrap_socket(servers[1].socket, server_side=True, do_handshake_on_connect=False)
        servers[1].socket = wrapped
        for server in servers:
            threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
        self._servers[vm] = servers

    def close(self, vm: VM) -> None:
        for server in self._servers.pop(vm, ()):
            server.shutdown()
            server.server_close()


class _Handler(BaseHTTPRequestHandler):
    """Answers by the last part of the path."""

    answers: Mapping[str, bytes] = {}

    def do_GET(self) -> None:
        self._answer(self.answers.get(self.path.rpartition("/")[2]))

    def do_PUT(self) -> None:
        """AWS gives a word that it wants to see with each question."""
        self._answer(b"word")

    def _answer(self, body: bytes | None) -> None:
        self.send_response(404 if body is None else 200)
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

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


def _k3s() -> bytes:
    """A program of Python in one file."""
    packed = io.BytesIO(_STARTED_BY)
    packed.seek(0, io.SEEK_END)
    package = Path(str(anycloud_control_plane.__file__)).parent
    with zipfile.ZipFile(packed, "a") as archive:
        archive.write(Path(__file__).with_name("k3s.py"), "__main__.py")
        for path in sorted(package.glob("*.py")):
            archive.write(path, f"{package.name}/{path.name}")
    return packed.getvalue()
