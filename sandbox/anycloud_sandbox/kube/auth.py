"""Who calls the API: Nodes by certificate, accounts by signed token, joining machines by bootstrap token.

Permissions are not modelled (the real control plane holds them in tests), but for what a joining machine may do.
"""

import base64
import hashlib
import hmac
import time
from collections.abc import Mapping, Sequence
from typing import Any

from aiohttp import web
from anycloud_control_plane.certificates import Authority
from cryptography import x509
from cryptography.x509.oid import NameOID

from anycloud_sandbox.kube.store import Event, Key, KubeError, Store, fill, key_of, problem, seconds_of, timestamp
from anycloud_sandbox.state import Json
from anycloud_sandbox.tokens import TokenSigner

ISSUER = "https://kubernetes.default.svc.cluster.local"
API_AUDIENCES = (ISSUER, "k3s")
JOINING = {"username": "joining", "groups": ["system:bootstrappers"]}
SIGNER = "kubernetes.io/kube-apiserver-client-kubelet"
PASSWORD_HEADER = "k3s-Node-Password"  # noqa: S105
PREFIX = "authentication.kubernetes.io/"


class Authenticator:
    """A user is what a TokenReview tells of one: username, groups and, of an account, uid and extra."""

    def __init__(self, store: Store, authority: Authority, record: Json) -> None:
        self._store, self._authority, self._signer = store, authority, TokenSigner(record["signer"])
        self._admin, self._join_password = record["adminToken"].encode(), record["joinPassword"].encode()
        store.listeners.append(self._forget_node)

    def user(self, request: web.Request) -> Json | None:
        kind, _, word = request.headers.get("Authorization", "").partition(" ")
        if kind == "Basic":  # K3s's own join token
            password = base64.b64decode(word).partition(b":")[2]
            return JOINING if hmac.compare_digest(password, self._join_password) else None
        if kind != "Bearer":
            certificate: Any = request.transport and request.transport.get_extra_info("peercert")
            subject = {key: value for part in (certificate or {}).get("subject", ()) for key, value in part}
            return {"username": subject["commonName"], "groups": ["system:nodes"]} if subject else None
        if hmac.compare_digest(word.encode(), self._admin):
            return {"username": "system:admin", "groups": ["system:masters"]}
        if word.count(".") == 1:
            return JOINING if self._may_join(*word.split(".")) else None
        user, audiences = self._account(word)
        return user if set(audiences) & set(API_AUDIENCES) else None

    def _may_join(self, token_id: str, word: str) -> bool:
        found = self._store.find("secrets", "kube-system", f"bootstrap-token-{token_id}") or {"data": {}}
        data = {name: base64.b64decode(value) for name, value in found["data"].items()}
        late = "expiration" in data and seconds_of(data["expiration"].decode()) < time.time()
        usable = data.get("usage-bootstrap-authentication") == b"true" and not late
        return usable and hmac.compare_digest(word.encode(), data.get("token-secret", b"\0"))

    def _account(self, token: str) -> tuple[Json | None, Sequence[str]]:
        """The user of an account's token, while account and the Pod or Secret that it is bound to are still there."""
        claims = self._signer.claims(token)
        if claims is None or claims.get("exp", time.time() + 1) <= time.time():
            return None, ()
        bound, extra = claims["kubernetes.io"], {PREFIX + "credential-id": [f"JTI={claims['jti']}"]}
        for kind in bound.keys() & {"serviceaccount", "pod", "secret"}:
            found = self._store.find(kind + "s", bound["namespace"], bound[kind]["name"])
            if found is None or found["metadata"]["uid"] != bound[kind]["uid"]:
                return None, ()
        for kind in bound.keys() & {"pod", "node"}:
            extra |= {f"{PREFIX}{kind}-{name}": [value] for name, value in bound[kind].items()}
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{bound['namespace']}", "system:authenticated"]
        user = {"username": claims["sub"], "uid": bound["serviceaccount"]["uid"], "groups": groups, "extra": extra}
        return user, claims["aud"]

    def review(self, body: Json) -> Json:
        """TokenReview."""
        user, audiences = self._account(body["spec"].get("token") or "")
        good = [name for name in body["spec"].get("audiences") or API_AUDIENCES if name in audiences]
        if not good:
            return body | {"status": {"authenticated": False, "error": "invalid bearer token"}}
        return body | {"status": {"authenticated": True, "user": user, "audiences": good}}

    def request_token(self, key: Key, body: Json) -> Json:
        """TokenRequest, the `token` subresource of a ServiceAccount."""
        spec, account, bound = body.get("spec") or {}, self._store.get(key), {}
        seconds = int(spec.get("expirationSeconds") or 3600)
        if seconds < 600:
            raise KubeError(422, "Invalid", "spec.expirationSeconds: may not specify a duration less than 10 minutes")
        if ref := spec.get("boundObjectRef"):
            pod = self._store.get(("pods", key[1], ref["name"]))
            if ref.get("uid") not in (None, pod["metadata"]["uid"]):
                raise problem(409, "Conflict", key_of(pod), f"has another uid than {ref['uid']}")
            node = self._store.find("nodes", "", pod["spec"].get("nodeName", ""))
            bound = {"pod": _ref(pod), **({"node": _ref(node)} if node else {})}
        expires = int(time.time()) + seconds
        token = self.token_for(account, bound, spec.get("audiences") or API_AUDIENCES, exp=expires)
        status = {"token": token, "expirationTimestamp": timestamp(expires)}
        return {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": spec, "status": status}

    def token_for(self, account: Json, bound: Json, audiences: Sequence[str] = API_AUDIENCES, **claims: int) -> str:
        namespace, name = account["metadata"]["namespace"], account["metadata"]["name"]
        about = {"namespace": namespace, "serviceaccount": _ref(account), **bound}
        named = {"iss": ISSUER, "sub": f"system:serviceaccount:{namespace}:{name}", "aud": audiences}
        return self._signer.sign({**named, "iat": int(time.time()), "kubernetes.io": about, **claims})

    def request_certificate(self, body: Json, user: Json, headers: Mapping[str, str]) -> Json:
        """Stores a CertificateSigningRequest; a Node's is signed at once when a joining machine asks for it."""
        obj = self._store.create("certificatesigningrequests", "", body)
        if body["spec"]["signerName"] != SIGNER or user is not JOINING:
            return obj
        request = base64.b64decode(body["spec"]["request"]).decode()
        subject = x509.load_pem_x509_csr(request.encode()).subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value
        self._check_password(str(subject).removeprefix("system:node:"), headers.get(PASSWORD_HEADER, ""))
        certificate = base64.b64encode(self._authority.sign(request).encode()).decode()
        return self._store.patch(key_of(obj), fill("csr-status", certificate=certificate), "status")

    def _check_password(self, node: str, password: str) -> None:
        """The first machine that asks for a Node's name owns it until the Node is deleted."""
        key, digest = _password_key(node), hashlib.sha256(f"{node}:{password}".encode()).hexdigest()
        found = self._store.find(*key) or self._store.create(
            *key[:2], {"metadata": {"name": key[2]}, "stringData": {"hash": digest}}
        )
        if base64.b64decode(found["data"]["hash"]).decode() != digest:
            raise KubeError(403, "Forbidden", f"Node password rejected, duplicate hostname: {node}")

    def _forget_node(self, event: Event) -> None:
        key = _password_key(event.key[2])
        if event.key[0] == "nodes" and event.type == "DELETED" and self._store.find(*key):
            self._store.delete(key)


def _password_key(node: str) -> Key:
    return "secrets", "kube-system", f"{node}.node-password.k3s"


def _ref(obj: Json) -> Json:
    return {"name": obj["metadata"]["name"], "uid": obj["metadata"]["uid"]}
