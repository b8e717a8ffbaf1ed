"""The whole document."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from anycloudapi.rest.v1 import options_pb2 as rest
from google.protobuf import descriptor_pb2, descriptor_pool

from anycloud_common.rest.openapi import merging
from anycloud_common.rest.openapi.comments import comments
from anycloud_common.rest.openapi.messages import Messages
from anycloud_common.rest.openapi.operations import (
    LINK_HEADER,
    REQUEST_HEADERS,
    SIGN_IN,
    TOTAL_HEADER,
    USER,
    VERSION_HEADER,
    WORKLOAD,
    Operations,
    path,
)
from anycloud_common.rest.openapi.problems import Problems
from anycloud_common.rest.route import Route, routes

_ABOUT: Final = (
    "Times are epoch milliseconds. Integers are written without a fraction: 5.0 is refused. "
    "Objects are closed unless they say `additionalProperties`: unknown keys of a request are refused."
)
_PARAMETERS: Final = {
    VERSION_HEADER: {
        "name": "AnyCloud-Client-Version",
        "in": "header",
        "required": True,
        "description": "Version of the client, which has to be that of the API. Calls about the API's own release "
        "tolerate one minor release of difference.",
        "schema": {"type": "string"},
    },
    REQUEST_HEADERS[rest.REQUEST_HEADER_IDEMPOTENCY_KEY]: {
        "name": "idempotency-key",
        "in": "header",
        "required": True,
        "description": "Id of the execution, a UUID that the caller chose. A repeated call with it answers the same.",
        "schema": {"type": "string", "format": "uuid"},
    },
    REQUEST_HEADERS[rest.REQUEST_HEADER_GITHUB_TOKEN]: {
        "name": "AnyCloud-GitHub-Token",
        "in": "header",
        "required": False,
        "description": "GitHub token of the caller, for what is done with GitHub in the caller's name.",
        "schema": {"type": "string"},
    },
}
_HEADERS: Final = {
    TOTAL_HEADER: {
        "description": "How many there are on all pages.",
        "required": True,
        "schema": {"type": "integer", "minimum": 0},
    },
    LINK_HEADER: {
        "description": '`<…>; rel="next"` when there is another page: its path and query.',
        "schema": {"type": "string"},
    },
}
_SECURITY: Final = {
    USER: {"type": "http", "scheme": "bearer", "description": "The local installation's token, or an API token."},
    WORKLOAD: {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "JWT",
        "description": "The ServiceAccount token that a Deployment's containers find in their volume.",
    },
    SIGN_IN: {"type": "http", "scheme": "bearer", "description": "A GitHub token of the person who signs in."},
}


def document(api: descriptor_pb2.FileDescriptorSet, version: str) -> dict[str, Any]:
    """Descriptors with source info -> OpenAPI 3.1. The same input gives the same document, in the same order.

    Raises ValueError for protos that two things of the same name would come of.
    """
    files = sorted(api.file, key=lambda f: f.name)
    told = comments(files)
    messages = Messages(told)
    operations = Operations(messages, Problems(messages), told)
    found = _routes(api, files)
    paths = _paths(found, operations)
    names = merging.merge(messages)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Anycloud", "version": version, "description": _ABOUT},
        "tags": _tags(found, told),
        "paths": merging.renamed(paths, names),
        "components": {
            "securitySchemes": _SECURITY,
            "parameters": _PARAMETERS,
            "headers": _HEADERS,
            "schemas": merging.schemas(messages, names),
        },
    }


def _routes(api: descriptor_pb2.FileDescriptorSet, files: Iterable[descriptor_pb2.FileDescriptorProto]) -> list[Route]:
    pool = descriptor_pool.DescriptorPool()
    for file in api.file:  # in the order of their imports
        pool.Add(file)
    services = [pool.FindServiceByName(f"{f.package}.{service.name}") for f in files for service in f.service]
    return routes(services)


def _paths(found: list[Route], operations: Operations) -> dict[str, Any]:
    paths: dict[str, Any] = {}
    ids: set[str] = set()
    for route in found:
        operation = operations.operation(route)
        if operation["operationId"] in ids:
            raise ValueError(f"{route.method.full_name}: another method has that name, and clients are made of names")
        ids.add(operation["operationId"])
        paths.setdefault(path(route), {})[route.verb] = operation
    return dict(sorted(paths.items()))


def _tags(found: list[Route], told: dict[str, str]) -> list[dict[str, str]]:
    """A service that is alone in its file has the file's comment."""
    services = {route.method.containing_service.name: route.method.containing_service for route in found}
    descriptions = {name: told.get(s.full_name) or told.get(s.file.name) for name, s in sorted(services.items())}
    return [{"name": name, **({"description": d} if d else {})} for name, d in descriptions.items()]
