"""shapes.proto, compiled when first imported as the real protos are for the product, and what the codec makes of it."""

from __future__ import annotations

import importlib
import sys
import tempfile
from pathlib import Path
from typing import Any

import google.api.annotations_pb2
from anycloud_common.rest import Binding, Codec, Invalid, load, routes
from google.api import httpbody_pb2
from google.protobuf import descriptor_pb2
from grpc_tools import protoc

HERE = Path(__file__).parent
PROTO = HERE.parents[2] / "proto"


def _compile(out: Path) -> descriptor_pb2.FileDescriptorSet:
    google_protos = Path(google.api.annotations_pb2.__file__).parents[2]
    includes = [f"-I{folder}" for folder in (HERE, PROTO, google_protos, Path(protoc.__file__).parent / "_proto")]
    descriptors = out / "shapes.pb"
    outputs = [f"--python_out={out}", "--include_imports", f"--descriptor_set_out={descriptors}"]
    if protoc.main(["protoc", *includes, *outputs, "shapes.proto", "mistakes.proto"]) != 0:
        raise RuntimeError("protoc failed")
    files = descriptor_pb2.FileDescriptorSet.FromString(descriptors.read_bytes()).file
    return descriptor_pb2.FileDescriptorSet(file=[file for file in files if file.name != "mistakes.proto"])


with tempfile.TemporaryDirectory(prefix="shapes-") as scratch:
    FILES = _compile(Path(scratch))
    sys.path.insert(0, scratch)
    pb: Any = importlib.import_module("shapes_pb2")
    mistakes: Any = importlib.import_module("mistakes_pb2")
    sys.path.remove(scratch)

CODEC = Codec()
SERVICE = pb.DESCRIPTOR.services_by_name["Things"]
ROUTES = {route.method.name: route for route in routes([SERVICE])}
BINDINGS = load(ROUTES.values(), CODEC)


def binding(method: str) -> Binding:
    return BINDINGS[f"/shapes.v1.Things/{method}"]


def request(method: str, body: bytes = b"", content_type: str = "application/json", **params: str | list[str]) -> Any:
    """Decodes what Envoy would send for this body and these parameters (`page__size` is `page.size` in the query)."""
    wrapped: Any = binding(method)._wrapper()
    for name, value in params.items():
        *above, leaf = name.split("__")
        target = wrapped
        for step in above:
            target = getattr(target, step)
        getattr(target, leaf).extend([value] if isinstance(value, str) else value)
    if ROUTES[method].takes_body:
        wrapped.http_body.data = body
        wrapped.http_body.content_type = content_type
    return binding(method).decode(wrapped.SerializeToString())


def refusal(method: str, body: bytes = b"", content_type: str = "application/json", **params: str | list[str]) -> str:
    """The text for the client of a request that is refused."""
    try:
        accepted = request(method, body, content_type, **params)
    except Invalid as e:
        return str(e)
    raise AssertionError(f"accepted: {accepted}")


def answer(method: str, message: Any, url: str = "") -> tuple[str, bytes]:
    """Content type (with the status and the headers of a page, as the gateway reads it) and body of this response."""
    body = httpbody_pb2.HttpBody.FromString(binding(method).encode(message, url))
    return body.content_type, body.data


def thing(**fields: Any) -> Any:
    """A Thing with all that a response has to have."""
    return pb.Thing(**({"id": "t1", "colour": pb.COLOUR_RED, "part": {}, "created_at": {}} | fields))
