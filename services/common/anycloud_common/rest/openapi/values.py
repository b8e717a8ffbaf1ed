"""JSON Schema of single values: numbers with their bounds, text, times, and values of any shape."""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

from anycloudapi.rest.v1 import options_pb2 as rest
from google.protobuf.descriptor import FieldDescriptor

from anycloud_common.rest import bounds, rules, wellknown

Schema = dict[str, Any]


class Direction(Enum):
    """What a schema is for; the value is what its name ends with where it differs from the other directions'."""

    RESPONSE = ""
    REQUEST = "Input"
    PATCH = "Patch"


_ANY: Final[dict[str, Schema]] = {"Struct": {"type": "object"}, "ListValue": {"type": "array"}, "Value": {}}


def scalar(field: FieldDescriptor, rule: rest.FieldRule, direction: Direction) -> Schema:
    """`rule` is the field's own, or for a map's values that of the map."""
    if field.type in bounds.INTEGERS:
        return _integer(field, rule, direction)
    if field.type == FieldDescriptor.TYPE_DOUBLE:
        declared = bounds.Range.of(rule)
        return {"type": "number", "format": "double", **_limits(declared.low, declared.high)}
    if field.type == FieldDescriptor.TYPE_BOOL:
        return {"type": "boolean"}
    if field.type == FieldDescriptor.TYPE_STRING:
        return _string(bounds.Text.of(rule))
    return _well_known(field, rule)


def _integer(field: FieldDescriptor, rule: rest.FieldRule, direction: Direction) -> Schema:
    """Requests are held to what JSON readers carry exactly; a response may hold any number of its type."""
    declared = bounds.Range.of(rule)
    low, high = bounds.integer_limits(field.type, declared)
    if direction is Direction.RESPONSE:
        low_or_none = 0 if declared.low is None and low == 0 else declared.low
        limits = _limits(low_or_none, declared.high)
    else:
        limits = _limits(low, high)
    narrow = low >= -(2**31) and high < 2**31
    return {"type": "integer", "format": "int32" if narrow else "int64", **limits}


def _string(text: bounds.Text) -> Schema:
    schema: Schema = {"type": "string", **_counted("Length", text.length)}
    if text.uuid:
        schema["format"] = "uuid"
    elif text.pattern:
        schema["pattern"] = f"^(?:{text.pattern})$"
    return schema


def _well_known(field: FieldDescriptor, rule: rest.FieldRule) -> Schema:
    kind = rules.well_known(field)
    if kind in _ANY:
        return dict(_ANY[kind])
    if kind in {"Timestamp", "Duration"}:
        if wellknown.per_second(field, rule) == 1:
            return {"type": "number", "format": "double"}
        return {"type": "integer", "format": "int64"}
    raise ValueError(f"{field.full_name}: no JSON form for this type")


def repeated(items: Schema, rule: rest.FieldRule) -> Schema:
    return {"type": "array", "items": items, **_counted("Items", bounds.Count.items(rule))}


def mapped(values: Schema, rule: rest.FieldRule) -> Schema:
    count = bounds.Count.items(rule)
    return {"type": "object", "additionalProperties": values or True, **_counted("Properties", count)}


def or_null(schema: Schema) -> Schema:
    """The same, or null."""
    if not schema:
        return schema
    kind = schema.get("type")
    if isinstance(kind, str) and "enum" not in schema:
        return {**schema, "type": [kind, "null"]}
    if set(schema) == {"oneOf"}:
        return {"oneOf": [*schema["oneOf"], {"type": "null"}]}
    return {"anyOf": [schema, {"type": "null"}]}


def closed(properties: dict[str, Schema], required: list[str], is_open: bool = False) -> Schema:
    """An object; unless it is open, without any other key."""
    schema: Schema = {"type": "object"}
    if properties:
        schema["properties"] = properties
    if required:
        schema["required"] = required
    if not is_open:
        schema["additionalProperties"] = False
    return schema


def _limits(low: int | None, high: int | None) -> Schema:
    return {
        **({} if low is None else {"minimum": low}),
        **({} if high is None else {"maximum": high}),
    }


def _counted(noun: str, count: bounds.Count) -> Schema:
    return {
        **({f"min{noun}": count.low} if count.low else {}),
        **({} if count.high is None else {f"max{noun}": count.high}),
    }
