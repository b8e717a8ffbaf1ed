"""Envoy's descriptor set from that of all services: `python -m anycloud_common.rest.descriptors api.pb rest.pb`.

Every method with a google.api.http rule keeps its name. Its request becomes the wrapper of wrapper.py, its response
google.api.HttpBody; the typed messages stay out. The same input gives the same bytes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from google.api import annotations_pb2, http_pb2, httpbody_pb2
from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.descriptor import ServiceDescriptor

from anycloud_common.rest import wrapper
from anycloud_common.rest.route import Route, routes

_DEPENDENCIES = (
    descriptor_pb2.DESCRIPTOR,
    http_pb2.DESCRIPTOR,
    annotations_pb2.DESCRIPTOR,
    *httpbody_pb2.DESCRIPTOR.dependencies,
    httpbody_pb2.DESCRIPTOR,
)


def build(api: descriptor_pb2.FileDescriptorSet) -> descriptor_pb2.FileDescriptorSet:
    pool = descriptor_pool.DescriptorPool()
    for file in api.file:
        pool.Add(file)
    out = descriptor_pb2.FileDescriptorSet()
    for dependency in _DEPENDENCIES:
        dependency.CopyToProto(out.file.add())
    for file in sorted(api.file, key=lambda f: f.name):
        names = [f"{file.package}.{service.name}" for service in file.service]
        found = routes([pool.FindServiceByName(name) for name in names])
        if found:
            out.file.append(_file(file.name, file.package, found))
    return out


def _file(name: str, package: str, found: Iterable[Route]) -> descriptor_pb2.FileDescriptorProto:
    dependencies = [annotations_pb2.DESCRIPTOR.name, wrapper.HTTP_BODY_FILE]
    file = descriptor_pb2.FileDescriptorProto(name=name, package=package, syntax="proto3", dependency=dependencies)
    for service, of_service in groupby(found, key=_service):
        service_out = file.service.add(name=service.name)
        for route in of_service:
            file.message_type.append(wrapper.wrapper(route))
            method = service_out.method.add(
                name=route.method.name,
                input_type=f".{package}.{wrapper.name(route)}",
                output_type=".google.api.HttpBody",
                server_streaming=route.streams,
            )
            method.options.Extensions[annotations_pb2.http].CopyFrom(wrapper.http_rule(route))
    return file


def _service(route: Route) -> ServiceDescriptor:
    return route.method.containing_service


def main(api: Path, rest: Path) -> None:
    made = build(descriptor_pb2.FileDescriptorSet.FromString(api.read_bytes()))
    rest.write_bytes(made.SerializeToString(deterministic=True))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
