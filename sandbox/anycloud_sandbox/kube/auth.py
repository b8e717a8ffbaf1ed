"""Who calls the API: Nodes by client certificate, ServiceAccounts by signed token, joining machines by bootstrap token.

Permissions are not modelled (the real control plane holds them in tests); what a joining machine may do is.
"""

from __future__ import annotations

import base64
import hmac
import time
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from anycloud_sandbox.kube.resources import RESOURCES, KubeError, conflict, not_found, seconds_of, timestamp
from anycloud_sandbox.kube.store import Store
from anycloud_sandbox.pki import TokenSigner
from anycloud_sandbox.state import Json

ISSUER = "https://kubernetes.default.svc.cluster.local"
API_AUDIENCES = (ISSUER, "k3s")
JOINING = "system:bootstrappers"
NODES = "system:nodes"


@dataclass(frozen=True)
class User:
    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, list[str]] = field(default_factory=dict)
    audiences: tuple[str, ...] = API_AUDIENCES


class Authenticator:
    def __init__(self, store: Store, signer: TokenSigner, admin_token: str, join_password: str) -> None:
        self._store, self._signer = store, signer
        self._admin_token, self._join_password = admin_token, join_password

    def user(self, request: web.Request) -> User | None:
        kind, _, credential = request.headers.get("Authorization", "").partition(" ")
        if kind == "Bearer":
            return self._bearer(credential.strip())
        if kind == "Basic":
            password = base64.b64decode(credential).decode().partition(":")[2]
            good = hmac.compare_digest(password, self._join_password)
            return User("node", groups=(JOINING,)) if good else None
        return _certificate_user(request)

    def _bearer(self, token: str) -> User | None:
        if hmac.compare_digest(token, self._admin_token):
            return User("system:admin", groups=("system:masters",))
        if token.count(".") == 1:
            return self._bootstrap(token)
        user = self.account(token)
        return user if user and set(user.audiences) & set(API_AUDIENCES) else None

    def _bootstrap(self, token: str) -> User | None:
        token_id, secret = token.split(".")
        found = self._store.find("secrets", "kube-system", f"bootstrap-token-{token_id}")
        if found is None or found["type"] != "bootstrap.kubernetes.io/token":
            return None
        data = {name: base64.b64decode(value).decode() for name, value in found["data"].items()}
        late = "expiration" in data and seconds_of(data["expiration"]) < time.time()
        usable = data.get("usage-bootstrap-authentication") == "true" and not late
        good = hmac.compare_digest(secret, data.get("token-secret", "")) and usable
        return User(f"system:bootstrap:{token_id}", groups=(JOINING,)) if good else None

    def account(self, token: str) -> User | None:
        """The ServiceAccount that a token speaks for, if account, Secret or Pod that it is bound to still exist."""
        claims = self._signer.claims(token)
        if claims is None or claims.get("exp", time.time() + 1) <= time.time():
            return None
        bound = claims["kubernetes.io"]
        namespace, account = bound["namespace"], bound["serviceaccount"]
        wanted = {"serviceaccounts": account, "pods": bound.get("pod"), "secrets": bound.get("secret")}
        for plural, ref in wanted.items():
            found = self._store.find(plural, namespace, ref["name"]) if ref else None
            if ref and (found is None or found["metadata"]["uid"] != ref["uid"]):
                return None
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
        extra = {"authentication.kubernetes.io/credential-id": [f"JTI={claims['jti']}"]}
        for kind in ("pod", "node"):
            for name, value in (bound.get(kind) or {}).items():
                extra[f"authentication.kubernetes.io/{kind}-{name}"] = [value]
        return User(claims["sub"], account["uid"], groups, extra, tuple(claims["aud"]))

    def review(self, body: Json) -> Json:
        """TokenReview."""
        spec = body.get("spec") or {}
        wanted = spec.get("audiences") or list(API_AUDIENCES)
        user = self.account(spec.get("token") or "")
        audiences = [name for name in wanted if user and name in user.audiences]
        if user is None or not audiences:
            return {**body, "status": {"authenticated": False, "error": "invalid bearer token", "user": {}}}
        about = {"username": user.name, "uid": user.uid, "groups": list(user.groups), "extra": user.extra}
        return {**body, "status": {"authenticated": True, "user": about, "audiences": audiences}}

    def request_token(self, namespace: str, name: str, body: Json) -> Json:
        """TokenRequest, the `token` subresource of a ServiceAccount."""
        account = self._store.get(("serviceaccounts", namespace, name))
        spec = body.get("spec") or {}
        seconds = int(spec.get("expirationSeconds") or 3600)
        if seconds < 600:
            text = "spec.expirationSeconds: Invalid value: may not specify a duration less than 10 minutes"
            raise KubeError(422, "Invalid", text)
        expires = int(time.time()) + seconds
        claims = self._claims(namespace, account, spec.get("audiences") or list(API_AUDIENCES))
        claims["exp"] = expires
        ref = spec.get("boundObjectRef")
        if ref:
            claims["kubernetes.io"].update(self._bound(namespace, ref))
        status = {"token": self._signer.sign(claims), "expirationTimestamp": timestamp(expires)}
        return {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": spec, "status": status}

    def _bound(self, namespace: str, ref: Json) -> Json:
        pod = self._store.find("pods", namespace, ref["name"]) if ref.get("kind") == "Pod" else None
        if pod is None:
            raise not_found(RESOURCES["pods"], str(ref.get("name")))
        uid = pod["metadata"]["uid"]
        if ref.get("uid") not in (None, uid):
            why = f"the UID in the bound object reference ({ref['uid']}) does not match the UID in record ({uid})"
            raise conflict(RESOURCES["pods"], ref["name"], why)
        bound: dict[str, Any] = {"pod": {"name": ref["name"], "uid": uid}}
        node = self._store.find("nodes", "", pod["spec"].get("nodeName", ""))
        if node:
            bound["node"] = {"name": node["metadata"]["name"], "uid": node["metadata"]["uid"]}
        return bound

    def secret_token(self, secret: Json, account: Json) -> str:
        """The token without end of a `kubernetes.io/service-account-token` Secret."""
        claims = self._claims(secret["metadata"]["namespace"], account, list(API_AUDIENCES))
        meta = secret["metadata"]
        claims["kubernetes.io"]["secret"] = {"name": meta["name"], "uid": meta["uid"]}
        return self._signer.sign(claims)

    @staticmethod
    def _claims(namespace: str, account: Json, audiences: list[str]) -> Json:
        meta, now = account["metadata"], int(time.time())
        about = {"namespace": namespace, "serviceaccount": {"name": meta["name"], "uid": meta["uid"]}}
        subject = f"system:serviceaccount:{namespace}:{meta['name']}"
        return {"iss": ISSUER, "sub": subject, "aud": audiences, "iat": now, "nbf": now, "kubernetes.io": about}


def _certificate_user(request: web.Request) -> User | None:
    """The subject of a verified client certificate."""
    certificate: Any = request.transport.get_extra_info("peercert") if request.transport else None
    if not certificate:
        return None
    subject = dict(pair for part in certificate["subject"] for pair in part)
    return User(subject["commonName"], groups=(subject.get("organizationName", ""),))
