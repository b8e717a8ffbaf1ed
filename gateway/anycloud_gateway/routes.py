"""Which service a call goes to, read from Envoy's descriptor set: the only list of paths is in the .proto files.

The transcoder rewrites an HTTP/JSON call to its gRPC path before the route is chosen, so a method needs one route.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.api import annotations_pb2
from google.protobuf import descriptor_pb2

UNARY_TIMEOUT = 30  # seconds; long-polls are held for 20 by their service
STREAM_IDLE = 600
WHOLE = 300  # seconds for a unary call from its first byte to its last, however slowly its caller sends and reads
# Slower than that on purpose: a request for another release waits for its backup.
SLOW = {("post", "/v1/system-release"): 120}

_PUBLIC = re.compile(r"anycloudapi\.([a-z]+)\.v1")


@dataclass(frozen=True)
class Method:
    """A method with an HTTP rule. `domain` names its service process, socket and Envoy cluster."""

    domain: str
    service: str  # full name
    name: str
    verb: str
    path: str
    streams: bool


def methods(descriptors: Path) -> list[Method]:
    """All methods of a descriptor set. Raises ValueError for one outside the public packages."""
    files = descriptor_pb2.FileDescriptorSet.FromString(descriptors.read_bytes()).file
    return [method for file in files if file.service for method in _methods(file)]


def routes(of: list[Method]) -> list[dict[str, Any]]:
    """Envoy's routes: each method by its exact path, then what only gRPC clients call."""
    domains = sorted({method.domain for method in of})
    open_to_all = ["/grpc.reflection.", "/grpc.health.v1.Health/"]  # every service answers alike: ask the first
    return [
        *(_exact(method) for method in of),
        *(_grpc_only(f"/anycloudapi.{domain}.v1.", domain) for domain in domains),
        *(_grpc_only(prefix, domains[0]) for prefix in open_to_all),
    ]


def _methods(file: descriptor_pb2.FileDescriptorProto) -> Iterator[Method]:
    package = _PUBLIC.fullmatch(file.package)
    if package is None:
        raise ValueError(f"{file.package} is no public package; only anycloudapi.<domain>.v1 is routed")
    for service in file.service:
        for method in service.method:
            rule = method.options.Extensions[annotations_pb2.http]
            verb = rule.WhichOneof("pattern")
            full_name = f"{file.package}.{service.name}"
            yield Method(package[1], full_name, method.name, verb, getattr(rule, verb), method.server_streaming)


def _exact(method: Method) -> dict[str, Any]:
    action: dict[str, Any] = {"cluster": method.domain}
    if method.streams:
        action |= {"timeout": "0s", "idle_timeout": f"{STREAM_IDLE}s"}
    else:
        action |= {"timeout": f"{SLOW.get((method.verb, method.path), UNARY_TIMEOUT)}s"}
        action |= {"max_stream_duration": {"max_stream_duration": f"{WHOLE}s"}}
    return {"match": {"path": f"/{method.service}/{method.name}", "grpc": {}}, "route": action}


def _grpc_only(prefix: str, cluster: str) -> dict[str, Any]:
    """Streams among these live as long as their client does, whatever they add up to; unary calls end with the client's
    own deadline. The service limits each message."""
    unlimited = {"@type": "type.googleapis.com/envoy.config.route.v3.FilterConfig", "disabled": True}
    action = {
        "cluster": cluster,
        "timeout": "0s",
        "idle_timeout": "0s",
        "max_stream_duration": {"grpc_timeout_header_max": "0s"},
    }
    return {
        "match": {"prefix": prefix, "grpc": {}},
        "route": action,
        "typed_per_filter_config": {"envoy.filters.http.body_size_limit": unlimited},
    }
