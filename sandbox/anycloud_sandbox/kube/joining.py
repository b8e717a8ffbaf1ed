"""How a machine becomes a Node: certificate requests of joining machines, signed at once, and Node passwords."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections.abc import Mapping

from cryptography import x509
from cryptography.x509.oid import NameOID

from anycloud_sandbox.kube.auth import JOINING, NODES, User
from anycloud_sandbox.kube.resources import KubeError, timestamp
from anycloud_sandbox.kube.store import Event, Store
from anycloud_sandbox.pki import Authority
from anycloud_sandbox.state import Json

SIGNER = "kubernetes.io/kube-apiserver-client-kubelet"
PASSWORD_HEADER = "k3s-Node-Password"  # noqa: S105


class Joining:
    def __init__(self, store: Store, authority: Authority) -> None:
        self._store, self._authority = store, authority
        store.listeners.append(self._forget_node)

    def request(self, body: Json, user: User, headers: Mapping[str, str]) -> Json:
        """Stores a CertificateSigningRequest; a Node's is approved and signed when a joining machine or it asks."""
        obj = self._store.create("certificatesigningrequests", "", body)
        try:
            request = x509.load_pem_x509_csr(base64.b64decode(body["spec"]["request"]))
            common_name = str(request.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)
        except (ValueError, IndexError) as error:
            raise KubeError(422, "Invalid", "spec.request: not a certificate request in PEM") from error
        node = common_name.removeprefix("system:node:")
        if body["spec"].get("signerName") != SIGNER or node == common_name:
            return obj
        if JOINING in user.groups:
            self._check_password(node, headers.get(PASSWORD_HEADER, ""))
        elif user.name != common_name or NODES not in user.groups:
            return obj
        approved = {"type": "Approved", "status": "True", "reason": "AutoApproved", "message": "a Node of its own name"}
        certificate = base64.b64encode(self._authority.sign_request(request).encode()).decode()
        status = {"conditions": [approved], "certificate": certificate}
        key = ("certificatesigningrequests", "", obj["metadata"]["name"])
        return self._store.update(key, {**obj, "status": status}, "status")

    def _check_password(self, node: str, password: str) -> None:
        """The first machine that asks for a name owns it until its Node is deleted."""
        digest = hashlib.sha256(f"{node}:{password}".encode()).hexdigest()
        found = self._store.find("secrets", "kube-system", _secret_name(node))
        if found is None:
            meta = {"name": _secret_name(node), "annotations": {"anycloud.sh/sandbox-made": timestamp(time.time())}}
            body = {"metadata": meta, "immutable": True, "stringData": {"hash": digest}}
            self._store.create("secrets", "kube-system", body)
        elif not hmac.compare_digest(base64.b64decode(found["data"]["hash"]).decode(), digest):
            raise KubeError(403, "Forbidden", f"Node password rejected, duplicate hostname: {node}")

    def _forget_node(self, event: Event) -> None:
        if event.key[0] == "nodes" and event.type == "DELETED":
            key = ("secrets", "kube-system", _secret_name(event.key[2]))
            if self._store.find(*key):
                self._store.delete(key)


def _secret_name(node: str) -> str:
    return f"{node}.node-password.k3s"
