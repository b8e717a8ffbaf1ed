"""JSON of an answer or of a request -> the message, read by the options of the protos and by nothing of the codec: the
other half of "what is written can be read"."""

from __future__ import annotations

from typing import Any

from anycloud_common.rest import rules
from google.protobuf import struct_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.json_format import ParseDict

Json = dict[str, Any]


def arguments(message: Descriptor, value: Any) -> Json:
    """What the message's constructor takes. Raises KeyError, TypeError or ValueError for another form."""
    if rules.message_rule(message).bare:
        return _bare(message, value)
    found: Json = {}
    left = dict(value)
    union = rules.union_of(message)
    for field in rules.plain_fields(message):
        rule = rules.field_rule(field)
        if rule.flat:
            kind = rules.message_type(field)
            own = {inner.json_name for inner in kind.fields}
            found[field.name] = arguments(kind, {key: left.pop(key) for key in own & set(left)})
        elif field.json_name in left:
            given = left.pop(field.json_name)
            if given is not None or _is_value(field):
                found[field.name] = _field(field, given)
        elif not rule.omit_when_unset:
            raise KeyError(f"{field.full_name} is missing")
    if union is not None:
        found |= _member(message, left)
    elif left:
        raise KeyError(f"{message.full_name}: {sorted(left)} beyond what is declared")
    return found


def _bare(message: Descriptor, value: Any) -> Json:
    fields = rules.bare_fields(message)
    [field] = [field for field in fields if len(fields) == 1 or _is_list(field) == isinstance(value, list)]
    return {field.name: _field(field, value)}


def _is_list(field: FieldDescriptor) -> bool:
    inner = field.message_type
    return bool(field.is_repeated or (inner is not None and inner.fields and inner.fields[0].is_repeated))


def _member(message: Descriptor, value: Json) -> Json:
    """Of a union, the member whose keys these are."""
    union = rules.union_of(message)
    assert union is not None
    key = rules.union_rule(union).tag_key
    if key:
        tag = value.pop(key)
        [member] = [one for one in union.fields if (rules.field_rule(one).tag or one.name) == tag]
        return {member.name: arguments(rules.message_type(member), value)}
    fitting = [one for one in union.fields if _declares(rules.message_type(one), set(value))]
    [member] = fitting
    return {member.name: arguments(rules.message_type(member), value)}


def _declares(message: Descriptor, keys: set[str]) -> bool:
    needed = {field.json_name for field in message.fields if not rules.field_rule(field).omit_when_unset}
    return needed <= keys <= {field.json_name for field in message.fields}


def _field(field: FieldDescriptor, value: Any) -> Any:
    if rules.field_rule(field).object:
        return [{"name": name, "value": _any(inner)} for name, inner in value.items()]
    if rules.is_map(field):
        return {key: _one(rules.map_value(field), inner) for key, inner in value.items()}
    return [_one(field, inner) for inner in value] if field.is_repeated else _one(field, value)


def _one(field: FieldDescriptor, value: Any) -> Any:
    if field.enum_type is not None:
        return rules.wire_values(field.enum_type)[value]
    if field.message_type is None:
        return value
    known = rules.well_known(field)
    if known is None:
        return arguments(field.message_type, value)
    if known == "Struct":
        return ParseDict(value, struct_pb2.Struct())
    return _any(value)


def _is_value(field: FieldDescriptor) -> bool:
    return field.message_type is not None and rules.well_known(field) == "Value"


def _any(value: Any) -> struct_pb2.Value:
    return ParseDict(value, struct_pb2.Value())
