"""What those may do at the API server whom the product lets into the cluster: its containers and its Nodes."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.support.control_plane import ControlPlane, Refused

Json = dict[str, Any]
Attempt = tuple[str, str, Json | None]
"""Method, path and body."""


def with_token(plane: ControlPlane, token: str, attempts: list[Attempt]) -> dict[str, int]:
    """HTTP status of each attempt, by method and path."""
    return {f"{method} {path}": _status(plane, token, method, path, body) for method, path, body in attempts}


def with_certificate(plane: ControlPlane, certificate: Path, attempts: list[Attempt]) -> dict[str, int]:
    """The same as a kubelet: with certificate and key, and no token."""
    context = ssl.create_default_context(cadata=plane.ca)
    context.load_cert_chain(certificate)
    found = {}
    for method, path, body in attempts:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(plane.endpoint + path, data, {"Content-Type": kind}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=10, context=context) as answer:
                found[f"{method} {path}"] = int(answer.status)
        except urllib.error.HTTPError as error:
            found[f"{method} {path}"] = error.code
    return found


def _status(plane: ControlPlane, token: str, method: str, path: str, body: Json | None) -> int:
    try:
        plane.call(method, path, body, token)
    except Refused as refused:
        return refused.status
    return 200
