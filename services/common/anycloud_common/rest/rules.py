"""What the descriptors say about the JSON and HTTP side of a message: reads the options of anycloudapi/rest/v1."""

from __future__ import annotations

import re
from collections.abc import Sequence

from anycloudapi.rest.v1 import options_pb2 as rest
from google.api import field_behavior_pb2
from google.protobuf.descriptor import (
    Descriptor,
    EnumDescriptor,
    EnumValueDescriptor,
    FieldDescriptor,
    MethodDescriptor,
    OneofDescriptor,
)

GOOGLE = "google.protobuf."


def method_rule(method: MethodDescriptor) -> rest.MethodRule:
    return method.GetOptions().Extensions[rest.method]


def message_rule(message: Descriptor) -> rest.MessageRule:
    return message.GetOptions().Extensions[rest.message]


def field_rule(field: FieldDescriptor) -> rest.FieldRule:
    return field.GetOptions().Extensions[rest.field]


def union_rule(oneof: OneofDescriptor) -> rest.UnionRule:
    rule = oneof.GetOptions().Extensions[rest.union]
    if not rule.tag_key and not rule.by_keys:
        raise ValueError(f"{oneof.full_name}: a oneof needs the `union` option")
    return rule


def value_rule(value: EnumValueDescriptor) -> rest.EnumValueRule:
    return value.GetOptions().Extensions[rest.value]


def is_required(field: FieldDescriptor) -> bool:
    """The key has to be there in a request."""
    return field_behavior_pb2.REQUIRED in field.GetOptions().Extensions[field_behavior_pb2.field_behavior]


def is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def map_value(field: FieldDescriptor) -> FieldDescriptor:
    """The value half of a map's entries. JSON keys are text, so the key half has to be `string`."""
    entry = message_type(field)
    if entry.fields_by_name["key"].type != FieldDescriptor.TYPE_STRING:
        raise ValueError(f"{field.full_name}: map keys must be strings")
    return entry.fields_by_name["value"]


def message_type(field: FieldDescriptor) -> Descriptor:
    if field.message_type is None:
        raise ValueError(f"{field.full_name}: not a message")
    return field.message_type


def is_optional(field: FieldDescriptor) -> bool:
    """Declared with the `optional` keyword."""
    oneof = field.containing_oneof
    return oneof is not None and oneof.name == f"_{field.name}" and len(oneof.fields) == 1


def union_of(message: Descriptor) -> OneofDescriptor | None:
    """The message's only `oneof`, those that `optional` makes aside."""
    unions = [o for o in message.oneofs if not is_optional(o.fields[0])]
    if len(unions) > 1:
        raise ValueError(f"{message.full_name}: one oneof at most")
    return unions[0] if unions else None


def plain_fields(message: Descriptor) -> list[FieldDescriptor]:
    """The fields outside the union."""
    union = union_of(message)
    if union is None:
        return list(message.fields)
    members = {f.number for f in union.fields}
    return [f for f in message.fields if f.number not in members]


def is_plain(message: Descriptor) -> bool:
    """Our own message whose JSON is an object with the same keys always."""
    return union_of(message) is None and not message_rule(message).bare and not message.full_name.startswith(GOOGLE)


def bare_fields(message: Descriptor) -> Sequence[FieldDescriptor]:
    """The only field of a `bare` message, or the members of its only oneof."""
    union = union_of(message)
    fields = message.fields if union is None else union.fields
    if len(fields) != len(message.fields) or (union is None and len(fields) != 1):
        raise ValueError(f"{message.full_name}: a bare message has one field or one oneof")
    return fields


def well_known(field: FieldDescriptor) -> str | None:
    """`Struct` for a google.protobuf.Struct, and so on; None for our own messages and for Empty, which is `{}`."""
    name = message_type(field).full_name
    return name.removeprefix(GOOGLE) if name.startswith(GOOGLE) and name != f"{GOOGLE}Empty" else None


def wire_values(enum: EnumDescriptor) -> dict[str, int]:
    """Wire spelling -> number. The zero value (`…_UNSPECIFIED`) has no spelling unless it declares one."""
    prefix = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", enum.name).upper() + "_"
    spelled = {}
    for value in enum.values:
        wire = value_rule(value).wire
        if wire or value.number != 0:
            spelled[wire or value.name.removeprefix(prefix).lower()] = value.number
    return spelled
