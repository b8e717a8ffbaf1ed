"""shapes.proto, compiled for the tests as the real protos are for the product."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import google.api.annotations_pb2 as annotations
import pytest
from anycloud_common.rest import Binding, Codec, load, routes, wrapper
from google.protobuf import descriptor_pb2
from grpc_tools import protoc

HERE = Path(__file__).parent
PROTO = Path(__file__).parents[3] / "proto"


class Shapes:
    """The compiled module, its file descriptor set, and what the codec makes of it."""

    def __init__(self, module: ModuleType, files: descriptor_pb2.FileDescriptorSet) -> None:
        self.module: Any = module
        self.files = files
        self.codec = Codec()
        self.routes = {r.method.name: r for r in routes([module.DESCRIPTOR.services_by_name["Things"]])}
        self.bindings = load(self.routes.values(), self.codec)

    def binding(self, method: str) -> Binding:
        return self.bindings[f"/shapes.v1.Things/{method}"]

    def request(self, method: str, body: bytes = b"", content_type: str = "application/json", **params: Any) -> Any:
        """Decodes what Envoy would send for these parameters (text or list of texts) and body."""
        wrapped: Any = wrapper.message_class(self.routes[method])()
        for name, value in params.items():
            target = wrapped
            *above, leaf = name.split("__")
            for step in above:
                target = getattr(target, step)
            getattr(target, leaf).extend([value] if isinstance(value, str) else value)
        if self.routes[method].takes_body:
            wrapped.http_body.data = body
            wrapped.http_body.content_type = content_type
        return self.binding(method).decode(wrapped.SerializeToString())


@pytest.fixture(scope="session")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> Shapes:
    out = tmp_path_factory.mktemp("shapes")
    includes = [HERE, PROTO, Path(annotations.__file__).parents[2], Path(protoc.__file__).parent / "_proto"]
    arguments = [f"-I{folder}" for folder in includes]
    descriptors = out / "shapes.pb"
    outputs = [f"--python_out={out}", "--include_imports", f"--descriptor_set_out={descriptors}"]
    assert protoc.main(["protoc", *arguments, *outputs, "shapes.proto"]) == 0
    spec = importlib.util.spec_from_file_location("shapes_pb2", out / "shapes_pb2.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["shapes_pb2"] = module
    spec.loader.exec_module(module)
    return Shapes(module, descriptor_pb2.FileDescriptorSet.FromString(descriptors.read_bytes()))
