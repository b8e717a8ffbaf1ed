"""gRPC reflection, in both versions. Whichever service a client happens to ask, it is shown the whole public API, and
nothing else; the stubs of the other services are imported when somebody asks for the first time."""

from __future__ import annotations

import asyncio
import importlib
import pkgutil
from collections.abc import AsyncIterator, Iterable
from typing import Any, Final

import anycloudapi
import grpc
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_reflection.v1alpha import reflection_pb2
from grpc_reflection.v1alpha._async import ReflectionServicer

_INTERNAL: Final = ".internal."
_VERSIONS: Final = ("grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection")


def add_to(server: grpc.aio.Server, own: Iterable[str]) -> None:
    """`own` are the full names of the services that this process serves. The two versions are alike on the wire."""
    handler = grpc.stream_stream_rpc_method_handler(
        Reflection(own).answer,
        request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
        response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    for name in _VERSIONS:
        server.add_registered_method_handlers(name, {"ServerReflectionInfo": handler})


class Reflection:
    def __init__(self, own: Iterable[str]) -> None:
        self._own = frozenset(name for name in own if _INTERNAL not in name)
        self._made: Any = None

    async def answer(self, questions: Any, context: Any) -> AsyncIterator[Any]:
        if self._made is None:
            self._made = await asyncio.to_thread(self._make)
        async for answer in self._made.ServerReflectionInfo(questions, context):
            yield answer

    def _make(self) -> ReflectionServicer:
        find = descriptor_pool.Default().FindServiceByName
        files = [*_public_files(), *(find(name).file for name in self._own)]
        names = self._own | {service.full_name for file in files for service in file.services_by_name.values()}
        return ReflectionServicer(sorted(names), _pool(files))


def _public_files() -> list[FileDescriptor]:
    modules = pkgutil.walk_packages(anycloudapi.__path__, "anycloudapi.")
    wanted = [module.name for module in modules if module.name.endswith("_pb2") and _INTERNAL not in module.name]
    return [importlib.import_module(name).DESCRIPTOR for name in wanted]


def _pool(files: Iterable[FileDescriptor]) -> DescriptorPool:
    """These and what they import: the default pool knows the internal ones too."""
    pool, added = DescriptorPool(), set()

    def add(file: FileDescriptor) -> None:
        if file.name in added:
            return
        added.add(file.name)
        for imported in file.dependencies:
            add(imported)
        pool.AddSerializedFile(file.serialized_pb)

    for file in files:
        add(file)
    return pool
