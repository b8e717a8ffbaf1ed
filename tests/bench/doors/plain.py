"""The deployment service behind a door that does nothing: typed gRPC, for Envoy's own transcoder. No token is checked,
nothing is counted, no codec of ours runs.

Usage: plain.py, with the environment of a service; listens on its socket.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from anycloud_common import calls
from anycloud_common.calls import Call, Principal
from anycloud_common.clock import SystemClock
from anycloud_common.server import ServerKit
from anycloud_common.settings import Settings
from anycloud_deployment.app import build
from anycloud_deployment.store.tables import SERVICE
from anycloudapi.deployment.v1 import deployments_pb2, workloads_pb2
from google.api import annotations_pb2
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import FileDescriptor

SOCKET = f"{SERVICE}.sock"
MODULES = (deployments_pb2, workloads_pb2)
_CALL = Call(Principal("local", "local", "local", owner=True), "bench", None, None, None, "", False, {})


def descriptors() -> bytes:
    """The services' own descriptor set, as their .proto files are; answers are whole messages."""
    found: dict[str, FileDescriptor] = {}

    def collect(files: Iterable[FileDescriptor]) -> None:
        for file in files:
            if file.name not in found:
                collect(file.dependencies)
                found[file.name] = file

    collect(module.DESCRIPTOR for module in MODULES)
    made = descriptor_pb2.FileDescriptorSet()
    for file in found.values():
        file.CopyToProto(made.file.add())
    for method in (method for each in made.file for service in each.service for method in service.method):
        method.options.Extensions[annotations_pb2.http].ClearField("response_body")  # Envoy would refuse it
    return made.SerializeToString()


def services() -> list[str]:
    return [name.full_name for module in MODULES for name in module.DESCRIPTOR.services_by_name.values()]


class _Known:
    """A servicer all of whose calls come from one account."""

    def __init__(self, servicer: Any) -> None:
        self._servicer = servicer

    def __getattr__(self, name: str) -> Any:
        handler = getattr(self._servicer, name)

        async def known(request: Any, context: Any) -> Any:
            calls.enter(_CALL)
            return await handler(request, context)

        return known


class PlainKit(ServerKit):
    """What a service is built on, without what the product puts before its handlers."""

    def add(self, add_fn: Callable[[Any, Any], None], servicer: object) -> None:
        add_fn(_Known(servicer), self.server)


async def serve(settings: Settings) -> None:
    kit = PlainKit(SERVICE, settings, SystemClock())
    await build(kit)
    await kit.start()
    await kit.crashed.wait()


if __name__ == "__main__":
    asyncio.run(serve(Settings.from_environment()))
