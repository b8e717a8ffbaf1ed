"""JSON forms of google.protobuf's own messages: times as numbers, and values of any shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anycloudapi.rest.v1 import options_pb2 as rest
from google.protobuf import struct_pb2
from google.protobuf.descriptor import FieldDescriptor

from anycloud_common.rest import rules
from anycloud_common.rest.bounds import EXACT
from anycloud_common.rest.invalid import wrong

Check = Callable[[Any], Any]
# What a Timestamp (years 1 to 9999) and a Duration (10,000 years either way) may hold, in seconds.
_LIMITS = {"Timestamp": (-62135596800, 253402300799), "Duration": (-315576000000, 315576000000)}
_PER_SECOND = {rest.NUMERIC_TIME_MILLIS: 1000, rest.NUMERIC_TIME_SECONDS: 1}


class BadResponse(Exception):
    """A handler's message that has no JSON form: our mistake, never the client's."""


def well_known(field: FieldDescriptor, rule: rest.FieldRule) -> Check:
    """The check of one JSON value."""
    kind = str(rules.well_known(field))
    if kind in _LIMITS:
        return _time(kind, per_second(field, rule))
    if kind in _ANY:
        return _ANY[kind]
    raise ValueError(f"{field.full_name}: no JSON form for google.protobuf.{kind}")


def encoded(field: FieldDescriptor, rule: rest.FieldRule, source: str) -> str:
    """Python text that turns the message in `source` into a JSON value."""
    kind = str(rules.well_known(field))
    if kind in _LIMITS:
        if per_second(field, rule) == 1:
            return f"(t := {source}).seconds + t.nanos / 1e9"
        return f"(t := {source}).seconds * 1000 + t.nanos // 1000000"
    if kind in _ANY:
        return f"plain_{kind.lower()}({source})"
    raise ValueError(f"{field.full_name}: no JSON form for google.protobuf.{kind}")


def per_second(field: FieldDescriptor, rule: rest.FieldRule) -> int:
    if rule.time not in _PER_SECOND:
        raise ValueError(f"{field.full_name}: times are JSON numbers, say which with the `time` option")
    return _PER_SECOND[rule.time]


def _time(kind: str, units: int) -> Check:
    first, last = _LIMITS[kind]
    low, beyond = first * units, (last + 1) * units
    whole = units > 1
    said = "an integer number of milliseconds" if whole else "a number of seconds"

    def check_time(value: Any) -> dict[str, int]:
        if (type(value) is not int and (whole or type(value) is not float)) or not low <= value < beyond:
            raise wrong(said, value)
        nanos = int(value * 1000000) if whole else round(value * 1000000000)
        seconds, rest_of_second = divmod(nanos, 1000000000)
        if kind == "Duration" and seconds < 0 and rest_of_second:  # both parts of a Duration have one sign
            seconds, rest_of_second = seconds + 1, rest_of_second - 1000000000
        return {"seconds": seconds, "nanos": rest_of_second}

    return check_time


def _struct(value: Any) -> dict[str, Any]:
    if type(value) is not dict:
        raise wrong("an object", value)
    return value


def _list(value: Any) -> list[Any]:
    if type(value) is not list:
        raise wrong("an array", value)
    return value


def _value(value: Any) -> dict[str, Any]:
    if value is None:
        return {"null_value": struct_pb2.NULL_VALUE}
    if type(value) is bool:
        return {"bool_value": value}
    if type(value) is str:
        return {"string_value": value}
    if type(value) is dict:
        return {"struct_value": value}
    if type(value) is list:
        return {"list_value": value}
    return {"number_value": value}


_ANY: dict[str, Check] = {"Struct": _struct, "ListValue": _list, "Value": _value}


def plain_struct(struct: struct_pb2.Struct) -> dict[str, Any]:
    return {key: plain_value(value) for key, value in struct.fields.items()}


def plain_listvalue(values: struct_pb2.ListValue) -> list[Any]:
    return [plain_value(value) for value in values.values]


def plain_value(value: struct_pb2.Value) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "number_value":
        return plain_number(value.number_value)
    if kind == "struct_value":
        return plain_struct(value.struct_value)
    if kind == "list_value":
        return plain_listvalue(value.list_value)
    return None if kind in {None, "null_value"} else getattr(value, kind)


def plain_number(number: float) -> int | float:
    """A whole number without `.0`: Struct holds every number as a double."""
    if number - number != 0:
        raise BadResponse(f"{number} in a response")
    return int(number) if number.is_integer() and abs(number) <= EXACT else number
