"""The worker that keeps DNS records and signs origin certificates, and GitHub's sign-in."""

from __future__ import annotations

import hashlib
import secrets

from cryptography import x509

from anycloud_sandbox.faults import Faults, WorldError
from anycloud_sandbox.pki import Authority
from anycloud_sandbox.state import Json, State
from anycloud_sandbox.world.ports import free_port

TOKEN_PREFIX = "ghs_sandbox_"  # noqa: S105
EDGE_ADDRESS = "127.0.0.2"  # not the address that clients take for a local API


class GitHub:
    def __init__(self, faults: Faults) -> None:
        self._faults = faults

    def user(self, authorization: str) -> Json:
        token = authorization.removeprefix("Bearer ").removeprefix("token ").strip()
        login = token.removeprefix(TOKEN_PREFIX)
        refused = self._faults.take("refused", area="github", login=login)
        if refused or not login or login == token:
            raise WorldError("auth", "Bad credentials")
        return {"id": int(hashlib.sha256(login.encode()).hexdigest()[:7], 16), "login": login}


class Dns:
    def __init__(self, state: State, github: GitHub) -> None:
        self._state, self._github = state, github
        self._records = state.load("dns")
        self._certificates = state.load("certificates")
        stored = state.load("edge").get("authority")
        self._authority = Authority.load(stored) if stored else Authority.new("sandbox origin CA")
        if not stored:
            state.put("edge", "authority", self._authority.document())

    def put(self, authorization: str, name: str, body: Json) -> Json:
        """The record; its URL stands for the name and keeps its port for the life of the record."""
        owner = self._github.user(authorization)["login"]
        record = self._records.get(name) or {"name": name, "owner": owner, "port": free_port(EDGE_ADDRESS)}
        self._check_owner(record, owner)
        record |= {"address": body["address"], "proxied": bool(body.get("proxied"))}
        self._records[name] = record
        self._state.put("dns", name, record)
        return _shown(record)

    def get(self, authorization: str, name: str) -> Json:
        return _shown(self._own(authorization, name))

    def delete(self, authorization: str, name: str) -> Json:
        self._own(authorization, name)
        del self._records[name]
        self._state.put("dns", name, None)
        return {}

    def sign(self, authorization: str, body: Json) -> Json:
        self._own(authorization, body["name"])
        try:
            request = x509.load_pem_x509_csr(body["csr"].encode())
        except ValueError as error:
            raise WorldError("invalid", "csr is not a certificate request in PEM") from error
        certificate = {"id": "cert-" + secrets.token_hex(8), "name": body["name"]}
        certificate["certificate"] = self._authority.sign_request(request)
        self._certificates[certificate["id"]] = certificate
        self._state.put("certificates", certificate["id"], certificate)
        return certificate

    def revoke(self, authorization: str, certificate_id: str) -> Json:
        self._github.user(authorization)
        if self._certificates.pop(certificate_id, None) is None:
            raise WorldError("not_found", f"no certificate {certificate_id}")
        self._state.put("certificates", certificate_id, None)
        return {}

    def _own(self, authorization: str, name: str) -> Json:
        owner = self._github.user(authorization)["login"]
        if name not in self._records:
            raise WorldError("not_found", f"no record {name}")
        self._check_owner(self._records[name], owner)
        return self._records[name]

    @staticmethod
    def _check_owner(record: Json, owner: str) -> None:
        if record["owner"] != owner:
            raise WorldError("auth", f"another account holds {record['name']}", 403)


def _shown(record: Json) -> Json:
    url = f"http://{EDGE_ADDRESS}:{record['port']}"
    return {"record": {"name": record["name"], "address": record["address"], "proxied": record["proxied"], "url": url}}
