"""gRPC reflection. Whichever service a client happens to ask, it is shown the whole public API, and that service's own
internal methods; the stubs of the other services are imported when somebody asks for the first time."""

from __future__ import annotations

import asyncio
import importlib
import pkgutil
from collections.abc import AsyncIterator, Iterable
from typing import Any

import anycloudapi
from google.protobuf import descriptor_pool
from grpc_reflection.v1alpha import reflection_pb2_grpc
from grpc_reflection.v1alpha._async import ReflectionServicer


class Reflection(reflection_pb2_grpc.ServerReflectionServicer):  # type: ignore[misc]
    """`own` are the full names of the services that this process serves."""

    def __init__(self, own: Iterable[str]) -> None:
        self._own = frozenset(own)
        self._made: ReflectionServicer | None = None

    async def ServerReflectionInfo(self, request_iterator: Any, context: Any) -> AsyncIterator[Any]:
        if self._made is None:
            names = self._own | await asyncio.to_thread(_public_services)
            self._made = ReflectionServicer(sorted(names), descriptor_pool.Default())
        async for answer in self._made.ServerReflectionInfo(request_iterator, context):
            yield answer


def _public_services() -> set[str]:
    found: set[str] = set()
    for module in pkgutil.walk_packages(anycloudapi.__path__, "anycloudapi."):
        if module.name.endswith("_pb2") and ".internal." not in module.name:
            file = importlib.import_module(module.name).DESCRIPTOR
            found |= {service.full_name for service in file.services_by_name.values()}
    return found
