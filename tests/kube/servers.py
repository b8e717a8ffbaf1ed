"""The API servers that one suite runs against: the sandbox's, and the real one."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Literal, Protocol
from urllib.parse import urlsplit

from anycloud_common.kube import Kube

from tests.support.control_plane import ControlPlane, Datastore
from tests.support.sandbox import Sandbox

Name = Literal["sandbox", "kubernetes"]
NAMES: tuple[Name, ...] = ("sandbox", "kubernetes")


class Server(Protocol):
    """`endpoint` (https), `ca` (PEM) and `token` (the admin's) are what clients need."""

    name: Name
    endpoint: str
    ca: str
    token: str

    def stop(self) -> None: ...

    def forget_history(self) -> None:
        """Makes resource versions from before too old to watch from; running watches may end."""

    def end(self) -> None:
        """Takes the API server away, as a crash does."""

    def begin(self) -> None:
        """Brings it back at the same address."""


class SandboxServer:
    name: Name = "sandbox"

    def __init__(self, directory: Path) -> None:
        self.sandbox = Sandbox(directory, agent=False)
        self.sandbox.start_world()
        made = asyncio.run(self.sandbox.management())
        self.endpoint, self.ca, self.token = made.endpoint, made.ca, made.token
        self._down = ""

    def stop(self) -> None:
        self.sandbox.stop()

    def forget_history(self) -> None:
        self.sandbox.fault("compact", area="kube")
        self.sandbox.fault("cut", area="kube")

    def end(self) -> None:
        self._down = self.sandbox.fault("down", area="kube")

    def begin(self) -> None:
        self.sandbox.call("DELETE", f"/faults/{self._down}")


class KubernetesServer:
    """The real one, on etcd; on kine, as K3s has it, with ANYCLOUD_KUBE_DATASTORE=kine."""

    name: Name = "kubernetes"

    def __init__(self, directory: Path) -> None:
        datastore: Datastore = "kine" if os.environ.get("ANYCLOUD_KUBE_DATASTORE") == "kine" else "etcd"
        self.plane = ControlPlane(directory, datastore)
        self.plane.__enter__()
        self.endpoint, self.ca, self.token = self.plane.endpoint, self.plane.ca, self.plane.token

    def stop(self) -> None:
        self.plane.stop()

    def forget_history(self) -> None:
        self.plane.forget_history()

    def end(self) -> None:
        self.plane.end("kube-apiserver")

    def begin(self) -> None:
        self.plane.start_api_server()


def connect(server: Server, token: str | None = None, port: int | None = None) -> Kube:
    """A client of ours, as the admin unless another token is given; `port` is a relay's."""
    endpoint = f"https://{urlsplit(server.endpoint).hostname}:{port}" if port else server.endpoint
    return Kube.from_token(endpoint, server.ca, token or server.token)
