"""A real Kubernetes control plane on 127.0.0.1, as K3s sets one up: `with ControlPlane(directory) as plane: …`.

etcd (or kine on SQLite, K3s's own store), kube-apiserver, kube-controller-manager and kube-scheduler as processes of
the test; K3s's helm-controller beside them on request. There is no kubelet: Pods stay Pending unless somebody joins.
The sandbox starts the same one.
"""

from __future__ import annotations

import base64
import json
import random
import secrets
import socket
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

from anycloud_control_plane import plane
from anycloud_control_plane.admin import Json, Refused, bindings_path, cluster_role_binding, parsed
from anycloud_control_plane.flags import ISSUER
from anycloud_control_plane.plane import Datastore
from anycloud_control_plane.programs import SERVERS

from tests.kube.assets.location import MissingPrograms, how_to_get, locate, missing

__all__ = [
    "BOOTSTRAP_GROUP",
    "HOST",
    "ISSUER",
    "ControlPlane",
    "Datastore",
    "Json",
    "Refused",
    "cluster_role_binding",
    "free_port",
]

HOST = "127.0.0.1"
BOOTSTRAP_GROUP = "system:bootstrappers:k3s:default-node-token"


class ControlPlane(plane.ControlPlane):
    """`endpoint` (https), `ca` (PEM) and `token` (the admin's) are what clients need. MissingPrograms when it can't.

    `host` is the address that the API server listens on; `flags` are further ones for a program, by its name."""

    def __init__(
        self,
        directory: Path,
        datastore: Datastore = "etcd",
        host: str = HOST,
        flags: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        if absent := missing([datastore, *SERVERS]):
            raise MissingPrograms(how_to_get(absent))
        store = f"{HOST}:{free_port()}"
        super().__init__(directory, locate, datastore, host=host, port=free_port(), store=store, more=flags)

    def forget_history(self) -> None:
        """Makes every resource version from before too old to watch from, by compaction and a restart."""
        self.end("kube-apiserver")
        if self.datastore == "etcd":
            latest = self._etcd("range", {"key": base64.b64encode(b"/").decode()})["header"]["revision"]
            self._etcd("compaction", {"revision": latest, "physical": True})
        self.start_api_server()

    def service_account(self, namespace: str, name: str, rules: Sequence[Json] = (), seconds: int = 3600) -> str:
        """A token of a ServiceAccount that may do in the whole cluster what these rules of a ClusterRole say."""
        self.ensure("/api/v1/namespaces", {"metadata": {"name": namespace}})
        self.ensure(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": name}})
        if rules:
            role = {"metadata": {"name": f"{namespace}-{name}"}, "rules": list(rules)}
            self.ensure("/apis/rbac.authorization.k8s.io/v1/clusterroles", role)
            binding = cluster_role_binding(
                f"{namespace}-{name}", f"{namespace}-{name}", "ServiceAccount", name, namespace
            )
            self.ensure(bindings_path(), binding)
        return self.account_token(namespace, name, seconds)

    def account_token(self, namespace: str, name: str, seconds: int = 3600) -> str:
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        answer = self.call("POST", path, {"spec": {"expirationSeconds": seconds}})
        return str(answer["status"]["token"])

    def bootstrap_token(self, description: str = "test") -> str:
        """`<id>.<secret>` with which one machine may join, as `k3s token create` makes it."""
        token_id, word = secrets.token_hex(3), secrets.token_hex(8)
        data = {"token-id": token_id, "token-secret": word, "description": description}
        data |= {"usage-bootstrap-authentication": "true", "auth-extra-groups": BOOTSTRAP_GROUP}
        metadata = {"name": f"bootstrap-token-{token_id}", "namespace": "kube-system"}
        body = {"metadata": metadata, "type": "bootstrap.kubernetes.io/token", "stringData": data}
        self.call("POST", "/api/v1/namespaces/kube-system/secrets", body)
        return f"{token_id}.{word}"

    def requests(self) -> list[Json]:
        """The audit log: events of audit.k8s.io/v1, one an answered request; `user` is empty where nobody signed in."""
        return [json.loads(line) for line in self.audit_log.read_text().splitlines() if line.endswith("}")]

    def _etcd(self, action: str, body: Json) -> Json:
        url = f"http://{self._store}/v3/kv/{action}"
        with urllib.request.urlopen(url, json.dumps(body).encode(), timeout=10) as answer:
            return parsed(answer.read())


def free_port() -> int:
    """A free TCP port below those that the kernel hands out by itself, so that no client's socket takes it first."""
    while True:
        port = random.randint(20000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port
