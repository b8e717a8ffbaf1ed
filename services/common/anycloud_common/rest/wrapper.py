"""What Envoy's transcoder is told a request is: the parameters as text, and the body as it came.

The same functions make Envoy's descriptor set and, in the service, the message that takes Envoy's bytes apart.
"""

from __future__ import annotations

from google.api import http_pb2, httpbody_pb2
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import Message

from anycloud_common.rest.route import Param, Path, Route

BODY = "http_body"
HTTP_BODY_FILE = "google/api/httpbody.proto"
# Numbers unlike the typed request's: bytes that reach the wrong decoder must not look like a request.
OFFSET = 10000
_Field = descriptor_pb2.FieldDescriptorProto
_Message = descriptor_pb2.DescriptorProto


def name(route: Route) -> str:
    return f"{route.method.containing_service.name}{route.method.name}Rest"


def wrapper(route: Route) -> descriptor_pb2.DescriptorProto:
    top = _Message(name=name(route))
    nodes: dict[Path, descriptor_pb2.DescriptorProto] = {(): top}
    for param in route.params:
        _add_leaf(_node(nodes, route, param), param)
    if route.takes_body:
        if any(field.name == BODY for field in top.field):
            raise ValueError(f"{route.method.full_name}: a request field is called {BODY}")
        top.field.add(
            name=BODY,
            json_name="httpBody",
            number=OFFSET,
            type=_Field.TYPE_MESSAGE,
            label=_Field.LABEL_OPTIONAL,
            type_name=".google.api.HttpBody",
        )
    return top


def _node(
    nodes: dict[Path, descriptor_pb2.DescriptorProto], route: Route, param: Param
) -> descriptor_pb2.DescriptorProto:
    """The message that holds the parameter; made, with those above it, when it is not there."""
    source = route.method.input_type
    for depth, step in enumerate(param.path[:-1], start=1):
        field, path = source.fields_by_name[step], param.path[:depth]
        assert field.message_type is not None
        source = field.message_type
        if path not in nodes:
            parent = nodes[path[:-1]]
            nodes[path] = parent.nested_type.add(name="".join(part.title().replace("_", "") for part in path))
            parent.field.add(
                name=field.name,
                json_name=field.json_name,
                number=field.number + OFFSET,
                type=_Field.TYPE_MESSAGE,
                label=_Field.LABEL_OPTIONAL,
                type_name=nodes[path].name,
            )
    return nodes[param.path[:-1]]


def _add_leaf(node: descriptor_pb2.DescriptorProto, param: Param) -> None:
    # Repeated even for a single value: tells absent from empty, and shows a parameter given twice. Envoy lets a query
    # parameter override a path variable of the same name; as a list both arrive, and the pair is refused.
    node.field.add(
        name=param.field.name,
        json_name=param.field.json_name,
        number=param.field.number + OFFSET,
        type=_Field.TYPE_STRING,
        label=_Field.LABEL_REPEATED,
    )


def http_rule(route: Route) -> http_pb2.HttpRule:
    return http_pb2.HttpRule(**{route.verb: route.path}, body=BODY if route.takes_body else "")


def message_class(route: Route) -> type[Message]:
    """The wrapper as a class, in a pool of its own."""
    pool = descriptor_pool.DescriptorPool()
    for dependency in (*httpbody_pb2.DESCRIPTOR.dependencies, httpbody_pb2.DESCRIPTOR):
        pool.AddSerializedFile(dependency.serialized_pb)
    file = descriptor_pb2.FileDescriptorProto(
        name="wrapper.proto", package="wrapper", syntax="proto3", dependency=[HTTP_BODY_FILE]
    )
    file.message_type.append(wrapper(route))
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"wrapper.{name(route)}"))
