"""The OpenAPI documents under test, with the bindings of the codec that they describe, and jsonschema as the judge."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import yaml
from anycloud_common.rest import Binding
from anycloud_common.rest.openapi import document
from anycloud_common.rest.openapi.operations import path
from anycloudapi.rest.v1 import options_pb2 as rest
from google.protobuf import descriptor_pb2

from tests.unit.rest import shapes
from tests.unit.rest.test_api import BINDINGS

ROOT = Path(__file__).resolve().parents[3]
JSON, NDJSON = "application/json", "application/x-ndjson"


def _is_integer(_: Any, value: Any) -> bool:
    """JSON Schema takes 5.0 for an integer, and this API doesn't."""
    return type(value) is int


_BASE = jsonschema.Draft202012Validator
_STRICT = jsonschema.validators.extend(_BASE, type_checker=_BASE.TYPE_CHECKER.redefine("integer", _is_integer))


@dataclass(frozen=True, repr=False)
class Operation:
    """A route, and what the document says about it."""

    binding: Binding
    said: dict[str, Any]
    document: dict[str, Any]

    def __repr__(self) -> str:
        return self.binding.route.grpc_path

    def judge(self, schema: dict[str, Any]) -> Any:
        """A validator for this schema; references are to the document."""
        whole = {"allOf": [schema], "components": self.document["components"]}
        return _STRICT(whole, format_checker=jsonschema.FormatChecker(["uuid"]))

    @property
    def body(self) -> dict[str, Any]:
        schema: dict[str, Any] = self.said["requestBody"]["content"][JSON]["schema"]
        return schema

    def answer(self, status: int) -> dict[str, Any]:
        """The schema of a JSON answer, or of one line of a stream."""
        content: dict[str, Any] = self.said["responses"][str(status)]["content"]
        if NDJSON in content:
            line: dict[str, Any] = content[NDJSON]["schema"]["contentSchema"]
            return line
        schema: dict[str, Any] = content[JSON]["schema"]
        return schema


def _operations(said: dict[str, Any], bindings: dict[str, Binding]) -> dict[str, Operation]:
    return {
        name: Operation(binding, said["paths"][path(binding.route)][binding.route.verb], said)
        for name, binding in bindings.items()
    }


def _without_errors(files: descriptor_pb2.FileDescriptorSet) -> descriptor_pb2.FileDescriptorSet:
    """The examples name errors that the product doesn't have."""
    copy = descriptor_pb2.FileDescriptorSet.FromString(files.SerializeToString())
    for method in (method for file in copy.file for service in file.service for method in service.method):
        method.options.Extensions[rest.method].ClearField("errors")
    return copy


DOCUMENT: dict[str, Any] = yaml.load((ROOT / "sdk" / "openapi.yaml").read_text(), Loader=yaml.CSafeLoader)
SHAPES = document(_without_errors(shapes.FILES), "1.0.0")
PRODUCT = _operations(DOCUMENT, BINDINGS)
"""gRPC path -> operation."""
OPERATIONS = PRODUCT | _operations(SHAPES, shapes.BINDINGS)
"""With the examples of every shape."""


def operation(name: str) -> Operation:
    """By `Service/Method`."""
    return next(found for path, found in OPERATIONS.items() if path.endswith(f".{name}"))
