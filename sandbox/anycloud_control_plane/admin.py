"""The admin's calls: JSON in, JSON out, one connection a call."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from typing import Any

Json = dict[str, Any]


class Refused(Exception):
    """An error answer of the API server: HTTP status and Status object."""

    def __init__(self, status: int, body: Json) -> None:
        super().__init__(f"{status} {body.get('reason')}: {body.get('message')}")
        self.status, self.body = status, body


class Admin:
    """`token` is believed unless a call brings another one. Raises OSError when there is no answer."""

    endpoint: str
    token: str
    tls: ssl.SSLContext

    def call(self, method: str, path: str, body: Json | None = None, token: str | None = None) -> Json:
        """The JSON of a 2xx answer. Raises Refused."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"Authorization": f"Bearer {token or self.token}", "Content-Type": kind}
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self.endpoint + path, data, headers, method=method)  # noqa: S310
        try:
            with urllib.request.urlopen(request, timeout=10, context=self.tls) as answer:  # noqa: S310
                return parsed(answer.read())
        except urllib.error.HTTPError as error:
            raise Refused(error.code, parsed(error.read())) from error

    def find(self, path: str) -> Json | None:
        try:
            return self.call("GET", path)
        except Refused as refused:
            if refused.status == 404:
                return None
            raise

    def ensure(self, path: str, body: Json) -> Json:
        """Creates an object of that collection, unless there is one of its name."""
        return self.find(f"{path}/{body['metadata']['name']}") or self.call("POST", path, body)


def parsed(text: bytes) -> Json:
    try:
        return dict(json.loads(text))
    except ValueError:
        return {"message": text.decode(errors="replace")}


def cluster_role_binding(name: str, role: str, kind: str, subject: str, namespace: str | None = None) -> Json:
    who: Json = {"kind": kind, "name": subject}
    who |= {"namespace": namespace} if namespace else {"apiGroup": "rbac.authorization.k8s.io"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    return {"metadata": {"name": name}, "roleRef": reference, "subjects": [who]}


def bindings_path() -> str:
    return "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
