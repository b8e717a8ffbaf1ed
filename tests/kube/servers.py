"""The API servers that one suite runs against: the sandbox's, and the real one."""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path
from typing import Literal, Protocol
from urllib.parse import urlsplit

from anycloud_common.kube import KINDS, Kube, KubeError
from anycloud_common.kube.transport import Request

from tests.kube import helm
from tests.support.control_plane import ControlPlane, Datastore, Json
from tests.support.sandbox import Sandbox

Name = Literal["sandbox", "kubernetes", "kine"]
NAMES: tuple[Name, ...] = ("sandbox", "kubernetes")
"""What the shared suite runs against. `kine` is the real server on K3s's own store, for tests of lost state."""


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

    def world(self) -> Sandbox:
        """The clouds from which node pools of this cluster buy."""

    def product_token(self) -> str:
        """A token of an account that may do what the chart grants to the API."""


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

    def world(self) -> Sandbox:
        return self.sandbox

    def product_token(self) -> str:
        return asyncio.run(self._account_token())  # permissions are not modelled

    async def _account_token(self) -> str:
        kube = connect(self)
        try:
            for kind, about in (("Namespace", {"name": PRODUCT}), ("ServiceAccount", _ACCOUNT)):
                with contextlib.suppress(KubeError):  # it is there
                    await kube.create(kind, {"metadata": about})
            path = KINDS["ServiceAccount"].path(PRODUCT, PRODUCT, "token")
            request = Request("create", "token", "POST", path, body={"spec": {"expirationSeconds": 3600}})
            return str((await kube._transport.call(request))["status"]["token"])
        finally:
            await kube.close()


class KubernetesServer:
    """The real one, on etcd; on kine, as K3s has it, when asked or with ANYCLOUD_KUBE_DATASTORE=kine."""

    def __init__(self, directory: Path, name: Name = "kubernetes") -> None:
        self.name: Name = name
        kine = name == "kine" or os.environ.get("ANYCLOUD_KUBE_DATASTORE") == "kine"
        datastore: Datastore = "kine" if kine else "etcd"
        self.plane = ControlPlane(directory, datastore)
        self.plane.__enter__()
        self.endpoint, self.ca, self.token = self.plane.endpoint, self.plane.ca, self.plane.token
        self._sandbox = Sandbox(directory / "world", agent=False)

    def stop(self) -> None:
        self._sandbox.stop()
        self.plane.stop()

    def forget_history(self) -> None:
        self.plane.forget_history()

    def end(self) -> None:
        for name in ("kube-apiserver", *_CONTROLLERS):
            self.plane.end(name)

    def begin(self) -> None:
        self.plane.start_api_server()
        for name in _CONTROLLERS:
            self.plane.start_program(name)

    def world(self) -> Sandbox:
        if not self._sandbox.url:
            self._sandbox.start_world()
        return self._sandbox

    def product_token(self) -> str:
        for manifest in helm.rbac():
            if manifest["kind"] in _PRODUCT_ROLES:
                self.plane.ensure(_collection(manifest), _renamed(manifest))
        return self.plane.service_account(PRODUCT, PRODUCT)


# In K3s they are in one process with the API server, so a crash takes them along.
_CONTROLLERS = ("kube-controller-manager", "kube-scheduler")
PRODUCT = "product"
_ACCOUNT = {"name": PRODUCT, "namespace": PRODUCT}
_PRODUCT_ROLES = ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")


def _collection(manifest: Json) -> str:
    namespace = manifest["metadata"].get("namespace")
    scope = f"namespaces/{namespace}/" if namespace else ""
    return f"/apis/rbac.authorization.k8s.io/v1/{scope}{manifest['kind'].lower()}s"


def _renamed(manifest: Json) -> Json:
    """The chart's manifest for an account that no install of the chart knows."""
    account = {"kind": "ServiceAccount", "name": PRODUCT, "namespace": PRODUCT}
    made = {**manifest, "metadata": {**manifest["metadata"], "name": PRODUCT, "labels": {}}}
    if "subjects" in manifest:
        made |= {"subjects": [account], "roleRef": {**manifest["roleRef"], "name": PRODUCT}}
    return made


def connect(server: Server, token: str | None = None, port: int | None = None) -> Kube:
    """A client of ours, as the admin unless another token is given; `port` is a relay's."""
    endpoint = f"https://{urlsplit(server.endpoint).hostname}:{port}" if port else server.endpoint
    return Kube.from_token(endpoint, server.ca, token or server.token)
