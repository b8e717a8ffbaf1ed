"""Comments of the .proto files, which become descriptions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from google.protobuf import descriptor_pb2

_PATH = tuple[int, ...]
# Field numbers in descriptor.proto: what a source location's path is made of.
_FILE_PACKAGE, _FILE_MESSAGE, _FILE_SERVICE = 2, 4, 6
_MESSAGE_FIELD, _MESSAGE_NESTED, _SERVICE_METHOD = 2, 3, 2
_PROTO_NAME = re.compile(r"`([a-z]+(?:_[a-z0-9]+)+)`")


def comments(files: Iterable[descriptor_pb2.FileDescriptorProto]) -> dict[str, str]:
    """Full name of a message, field, service or method -> its leading comment as one paragraph; so for a file's name.

    Empty for descriptors that were made without source info.
    """
    return {name: text for file in files for name, text in _of_file(file)}


def _of_file(file: descriptor_pb2.FileDescriptorProto) -> Iterator[tuple[str, str]]:
    told = {
        tuple(place.path): _paragraph(place.leading_comments)
        for place in file.source_code_info.location
        if place.leading_comments
    }
    for name, path in _places(file):
        if path in told:
            yield name, told[path]


def _places(file: descriptor_pb2.FileDescriptorProto) -> Iterator[tuple[str, _PATH]]:
    yield file.name, (_FILE_PACKAGE,)
    yield from _messages(file.package, file.message_type, (_FILE_MESSAGE,))
    for i, service in enumerate(file.service):
        name, path = f"{file.package}.{service.name}", (_FILE_SERVICE, i)
        yield name, path
        for j, method in enumerate(service.method):
            yield f"{name}.{method.name}", (*path, _SERVICE_METHOD, j)


def _messages(
    outer: str, messages: Iterable[descriptor_pb2.DescriptorProto], above: _PATH
) -> Iterator[tuple[str, _PATH]]:
    for i, message in enumerate(messages):
        name, path = f"{outer}.{message.name}", (*above, i)
        yield name, path
        for j, field in enumerate(message.field):
            yield f"{name}.{field.name}", (*path, _MESSAGE_FIELD, j)
        yield from _messages(name, message.nested_type, (*path, _MESSAGE_NESTED))


def _paragraph(comment: str) -> str:
    """Names of fields are said as JSON has them."""
    text = " ".join(line.strip() for line in comment.strip().splitlines())
    return _PROTO_NAME.sub(lambda found: f"`{_json_name(found[1])}`", text)


def _json_name(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(part.capitalize() for part in others)
