"""Who calls the API: Nodes by certificate, accounts by signed token, joining machines by bootstrap token.

Permissions are not modelled (the real control plane holds them in tests), but for what a joining machine may do.
"""

import base64
import hashlib
import hmac
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from aiohttp import web
from cryptography import x509
from cryptography.x509.oid import NameOID

from anycloud_sandbox.kube.objects import KubeError, problem, seconds_of, timestamp
from anycloud_sandbox.kube.store import Event, Store
from anycloud_sandbox.pki import Authority, TokenSigner
from anycloud_sandbox.state import Json

ISSUER = "https://kubernetes.default.svc.cluster.local"
API_AUDIENCES = (ISSUER, "k3s")
JOINING = "system:bootstrappers"
SIGNER = "kubernetes.io/kube-apiserver-client-kubelet"
PASSWORD_HEADER = "k3s-Node-Password"  # noqa: S105
PREFIX = "authentication.kubernetes.io/"


class User(NamedTuple):
    name: str
    group: str = ""
    uid: str = ""
    extra: Mapping[str, list[str]] = {}
    audiences: Sequence[str] = API_AUDIENCES


class Authenticator:
    def __init__(self, store: Store, signer: TokenSigner, authority: Authority, admin: str, join_password: str) -> None:
        self._store, self._signer, self._authority = store, signer, authority
        self._admin, self._join_password = admin, join_password
        store.listeners.append(self._forget_node)

    def user(self, request: web.Request) -> User | None:
        kind, _, word = request.headers.get("Authorization", "").partition(" ")
        if kind == "Basic":  # K3s's own join token
            password = base64.b64decode(word).partition(b":")[2]
            return User("node", JOINING) if hmac.compare_digest(password, self._join_password.encode()) else None
        if kind != "Bearer":
            certificate: Any = request.transport and request.transport.get_extra_info("peercert")
            subject = {key: value for part in (certificate or {}).get("subject", ()) for key, value in part}
            return User(subject["commonName"], subject["organizationName"]) if subject else None
        if hmac.compare_digest(word.encode(), self._admin.encode()):
            return User("system:admin", "system:masters")
        if word.count(".") == 1:
            return self._bootstrap(*word.split("."))
        user = self.account(word)
        return user if user and set(user.audiences) & set(API_AUDIENCES) else None

    def _bootstrap(self, token_id: str, word: str) -> User | None:
        found = self._store.find("secrets", "kube-system", f"bootstrap-token-{token_id}") or {"data": {}}
        data = {name: base64.b64decode(value).decode() for name, value in found["data"].items()}
        late = "expiration" in data and seconds_of(data["expiration"]) < time.time()
        usable = data.get("usage-bootstrap-authentication") == "true" and data.get("token-secret") and not late
        good = usable and hmac.compare_digest(word.encode(), data["token-secret"].encode())
        return User(f"system:bootstrap:{token_id}", JOINING) if good else None

    def account(self, token: str) -> User | None:
        """The ServiceAccount of a token, while account and the Pod or Secret that it is bound to are still there."""
        claims = self._signer.claims(token)
        if claims is None or claims.get("exp", time.time() + 1) <= time.time():
            return None
        bound, extra = claims["kubernetes.io"], {PREFIX + "credential-id": [f"JTI={claims['jti']}"]}
        for kind in ("serviceaccount", "pod", "secret"):
            ref = bound.get(kind)
            found = self._store.find(kind + "s", bound["namespace"], ref["name"]) if ref else None
            if ref and (found is None or found["metadata"]["uid"] != ref["uid"]):
                return None
        for kind in ("pod", "node"):
            extra |= {f"{PREFIX}{kind}-{name}": [value] for name, value in bound.get(kind, {}).items()}
        return User(claims["sub"], "system:serviceaccounts", bound["serviceaccount"]["uid"], extra, claims["aud"])

    def review(self, body: Json) -> Json:
        """TokenReview."""
        user, asked = self.account(body["spec"].get("token") or ""), body["spec"].get("audiences") or API_AUDIENCES
        audiences = [name for name in asked if user and name in user.audiences]
        if user is None or not audiences:
            return {**body, "status": {"authenticated": False, "error": "invalid bearer token"}}
        groups = [user.group, f"{user.group}:{user.name.split(':')[2]}", "system:authenticated"]
        about = {"username": user.name, "uid": user.uid, "groups": groups, "extra": user.extra}
        return {**body, "status": {"authenticated": True, "user": about, "audiences": audiences}}

    def request_token(self, namespace: str, name: str, body: Json) -> Json:
        """TokenRequest, the `token` subresource of a ServiceAccount."""
        spec, account = body.get("spec") or {}, self._store.get(("serviceaccounts", namespace, name))
        seconds, bound = int(spec.get("expirationSeconds") or 3600), {}
        if seconds < 600:
            raise KubeError(422, "Invalid", "spec.expirationSeconds: may not specify a duration less than 10 minutes")
        if ref := spec.get("boundObjectRef"):
            key = ("pods", namespace, ref["name"])
            pod = self._store.get(key)
            if ref.get("uid") not in (None, pod["metadata"]["uid"]):
                raise problem(409, "Conflict", key, f"has another uid than {ref['uid']}")
            node = self._store.find("nodes", "", pod["spec"].get("nodeName", ""))
            bound = {"pod": _ref(pod), **({"node": _ref(node)} if node else {})}
        expires = int(time.time()) + seconds
        token = self.token_for(account, bound, spec.get("audiences") or API_AUDIENCES, exp=expires)
        status = {"token": token, "expirationTimestamp": timestamp(expires)}
        return {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": spec, "status": status}

    def token_for(self, account: Json, bound: Json, audiences: Sequence[str] = API_AUDIENCES, **claims: int) -> str:
        namespace, name = account["metadata"]["namespace"], account["metadata"]["name"]
        about = {"namespace": namespace, "serviceaccount": _ref(account), **bound}
        claims |= {"iat": int(time.time())}
        subject = f"system:serviceaccount:{namespace}:{name}"
        return self._signer.sign({"iss": ISSUER, "sub": subject, "aud": audiences, "kubernetes.io": about, **claims})

    def request_certificate(self, body: Json, user: User, headers: Mapping[str, str]) -> Json:
        """Stores a CertificateSigningRequest; a Node's is signed at once when a joining machine asks for it."""
        obj = self._store.create("certificatesigningrequests", "", body)
        if body["spec"]["signerName"] != SIGNER or user.group != JOINING:
            return obj
        request = x509.load_pem_x509_csr(base64.b64decode(body["spec"]["request"]))
        name = str(request.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)
        self._check_password(name.removeprefix("system:node:"), headers.get(PASSWORD_HEADER, ""))
        certificate = base64.b64encode(self._authority.sign_request(request).encode()).decode()
        approved = {"type": "Approved", "status": "True", "reason": "AutoApproved"}
        place = ("certificatesigningrequests", "", obj["metadata"]["name"])
        return self._store.patch(place, {"status": {"conditions": [approved], "certificate": certificate}}, "status")

    def _check_password(self, node: str, password: str) -> None:
        """The first machine that asks for a Node's name owns it until the Node is deleted."""
        digest = hashlib.sha256(f"{node}:{password}".encode()).hexdigest()
        found = self._store.find("secrets", "kube-system", f"{node}.node-password.k3s")
        if found and base64.b64decode(found["data"]["hash"]).decode() != digest:
            raise KubeError(403, "Forbidden", f"Node password rejected, duplicate hostname: {node}")
        if found is None:
            body = {"metadata": {"name": f"{node}.node-password.k3s"}, "stringData": {"hash": digest}}
            self._store.create("secrets", "kube-system", body)

    def _forget_node(self, event: Event) -> None:
        key = ("secrets", "kube-system", f"{event.key[2]}.node-password.k3s")
        if event.key[0] == "nodes" and event.type == "DELETED" and self._store.find(*key):
            self._store.delete(key)


def _ref(obj: Json) -> Json:
    return {"name": obj["metadata"]["name"], "uid": obj["metadata"]["uid"]}
