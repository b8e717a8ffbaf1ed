"""GitHub's sign-in, the worker that keeps DNS records and signs certificates, and an image registry."""

import hashlib
import re
import secrets

import orjson
from cryptography import x509

from anycloud_sandbox.faults import Faults, WorldError
from anycloud_sandbox.pki import Authority
from anycloud_sandbox.state import Json, State
from anycloud_sandbox.world.clouds import free_port

EDGE_ADDRESS = "127.0.0.2"  # not an address that clients take for a local API
REFERENCE = re.compile(r"([a-z0-9]+(?:[._/:-]+[a-z0-9]+)*?)(?::([\w][\w.-]{0,127}))?(?:@(sha256:[0-9a-f]{64}))?")


class Edge:
    """GitHub, and DNS records that belong to GitHub accounts."""

    def __init__(self, state: State, faults: Faults) -> None:
        self._state, self._faults = state, faults
        self._records, self._certificates = state.load("dns"), state.load("certificates")
        self._authority = Authority("sandbox origin CA", state.load("edge").get("authority"))
        state.put("edge", "authority", self._authority.document())

    def user(self, authorization: str) -> Json:
        found = re.fullmatch(r"(?:Bearer|token) ghs_sandbox_([\w-]+)", authorization)
        if found is None or self._faults.take("refused", area="github", login=found[1]):
            raise WorldError("auth", "Bad credentials")
        return {"id": int(hashlib.sha256(found[1].encode()).hexdigest()[:7], 16), "login": found[1]}

    def record(self, method: str, authorization: str, name: str, body: Json) -> Json:
        """GET, PUT or DELETE. A record's URL stands for its name, and keeps its port as long as the record lives."""
        owner, record = self.user(authorization)["login"], self._records.get(name)
        if record is None and method == "PUT":
            record = {"name": name, "owner": owner, "url": f"http://{EDGE_ADDRESS}:{free_port(EDGE_ADDRESS)}"}
        if record is None:
            raise WorldError("not_found", f"no record {name}")
        if record["owner"] != owner:
            raise WorldError("auth", f"another account holds {name}", 403)
        if method == "PUT":
            self._records[name] = record = record | {"address": body["address"], "proxied": bool(body.get("proxied"))}
        elif method == "DELETE":
            del self._records[name]
        self._state.put("dns", name, self._records.get(name))
        return {"record": record}

    def sign(self, authorization: str, body: Json) -> Json:
        self.record("GET", authorization, body["name"], {})
        certificate = self._authority.sign_request(x509.load_pem_x509_csr(body["csr"].encode()))
        made = {"id": "cert-" + secrets.token_hex(8), "name": body["name"], "certificate": certificate}
        self._certificates[made["id"]] = made
        self._state.put("certificates", made["id"], made)
        return made

    def revoke(self, authorization: str, certificate_id: str) -> Json:
        self.user(authorization)
        if self._certificates.pop(certificate_id, None) is None:
            raise WorldError("not_found", f"no certificate {certificate_id}")
        self._state.put("certificates", certificate_id, None)
        return {}


class Registry:
    """Images are directories on this machine, with a manifest: accelerator, env, command, labels."""

    def __init__(self, state: State, faults: Faults) -> None:
        self._state, self._faults = state, faults
        self._images = state.load("images")  # "name@digest": the image; "name:tag": {"digest"}

    def push(self, body: Json) -> Json:
        name, tag, _ = _parse(body["reference"])
        manifest = {"accelerator": "none", "env": {}, "command": [], "labels": {}, **(body.get("manifest") or {})}
        digest = "sha256:" + hashlib.sha256(orjson.dumps(manifest, option=orjson.OPT_SORT_KEYS)).hexdigest()
        image = {"digest": digest, "manifest": manifest, "directory": body.get("directory")}
        for key, document in ((f"{name}@{digest}", image), (f"{name}:{tag}", {"digest": digest})):
            self._images[key] = document
            self._state.put("images", key, document)
        return {"digest": digest}

    def get(self, reference: str) -> Json:
        """The image of a tag or digest. Faults on an image show here, as the node agent asks at every start."""
        name, tag, digest = _parse(reference)
        if fault := self._faults.take("pull-failure", area="registry", reference=reference):
            raise WorldError("unreachable", fault.message)
        digest = digest or self._images.get(f"{name}:{tag}", {}).get("digest", "")
        image = self._images.get(f"{name}@{digest}")
        if image is None:
            raise WorldError("not_found", f"{reference}: not found")
        broken = self._faults.take("crash-loop", area="registry", reference=reference)
        return {"reference": f"{name}@{digest}", **image, "command": ["/bin/false"] if broken else None}


def _parse(reference: str) -> tuple[str, str, str]:
    """Name, tag and digest; raises for what is no reference."""
    found = REFERENCE.fullmatch(reference)
    if found is None:
        raise WorldError("invalid", f"invalid reference format: {reference!r}")
    return found[1], found[2] or "latest", found[3] or ""
