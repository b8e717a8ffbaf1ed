"""The JSON types by which the members of a `bare` message are told apart."""

from __future__ import annotations

from typing import Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from anycloud_common.rest import bounds, rules

TESTS: Final = {
    "an object": "type(o) is dict",
    "an array": "type(o) is list",
    "true or false": "type(o) is bool",
    "a number": "type(o) is int or type(o) is float",
    "a string": "type(o) is str",
}
"""How a kind is called in errors -> Python text of its test."""


def kinds(message: Descriptor) -> dict[str, FieldDescriptor]:
    """JSON type -> the member that has it."""
    fields = rules.bare_fields(message)
    by_kind = {_kind(f): f for f in fields}
    if len(by_kind) != len(fields):
        raise ValueError(f"{message.full_name}: two members with the same JSON type")
    return by_kind


def _kind(field: FieldDescriptor) -> str:
    inner = field.message_type
    if field.is_repeated and not rules.is_map(field):
        return "an array"
    if inner is not None:
        bare_inside = rules.message_rule(inner).bare and rules.union_of(inner) is None
        return _kind(inner.fields[0]) if bare_inside else "an object"
    if field.type == FieldDescriptor.TYPE_BOOL:
        return "true or false"
    if field.type in bounds.INTEGERS or field.type == FieldDescriptor.TYPE_DOUBLE:
        return "a number"
    return "a string"
