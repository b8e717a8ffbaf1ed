"""Checks of single JSON values: each gives what a message constructor takes, or raises Invalid."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anycloudapi.rest.v1 import options_pb2 as rest
from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor

from anycloud_common.rest import bounds, rules
from anycloud_common.rest.invalid import wrong
from anycloud_common.rest.wellknown import well_known

Check = Callable[[Any], Any]


def check(field: FieldDescriptor, rule: rest.FieldRule) -> Check:
    """The check of one value of this type. `rule` is the field's own, or for a map's values that of the map."""
    if field.enum_type is not None:
        return enum(field.enum_type)
    if field.type in bounds.INTEGERS:
        return integer(field.type, bounds.Range.of(rule))
    if field.type == FieldDescriptor.TYPE_DOUBLE:
        return double(bounds.Range.of(rule))
    if field.type == FieldDescriptor.TYPE_BOOL:
        return boolean
    if field.type == FieldDescriptor.TYPE_STRING:
        return string(bounds.Text.of(rule))
    if field.message_type is not None:
        return well_known(field, rule)
    raise ValueError(f"{field.full_name}: no JSON form for this type; numbers are double or integers, bytes are text")


def quick_test(field: FieldDescriptor, rule: rest.FieldRule) -> str | None:
    """Python text that is true for a good value `v` which needs no conversion: saves the call of the check."""
    if field.type in bounds.INTEGERS:
        low, high = bounds.integer_limits(field.type, bounds.Range.of(rule))
        return f"type(v) is int and {low} <= v <= {high}"
    if field.type == FieldDescriptor.TYPE_BOOL:
        return "type(v) is bool"
    text = bounds.Text.of(rule)
    if field.type == FieldDescriptor.TYPE_STRING and text.form is None:
        length = text.length.test("v")
        return "type(v) is str" + (f" and {length}" if length else "")
    return None


def enum(kind: EnumDescriptor) -> Check:
    numbers = rules.wire_values(kind)
    choice = "one of " + ", ".join(numbers)

    def check_enum(value: Any) -> int:
        number = numbers.get(value) if type(value) is str else None
        if number is None:
            raise wrong(choice, value)
        return number

    return check_enum


def integer(kind: int, declared: bounds.Range) -> Check:
    low, high = bounds.integer_limits(kind, declared)

    def check_integer(value: Any) -> int:
        if type(value) is not int:
            raise wrong(declared.said("an integer"), value)
        if value > high:
            raise wrong(bounds.Range(declared.low, high).said("an integer"), value)
        if value < low:
            raise wrong(bounds.Range(low, declared.high).said("an integer"), value)
        return value

    return check_integer


def double(declared: bounds.Range) -> Check:
    kind = declared.said("a number")

    def check_double(value: Any) -> float:
        # bool is not a number here, so no isinstance; infinity and NaN are no JSON
        if (
            (type(value) is not int and type(value) is not float)
            or (declared.low is not None and value < declared.low)
            or (declared.high is not None and value > declared.high)
        ):
            raise wrong(kind, value)
        return float(value)

    return check_double


def boolean(value: Any) -> bool:
    if type(value) is not bool:
        raise wrong("true or false", value)
    return value


def string(text: bounds.Text) -> Check:
    length, form = text.length, text.form

    def check_string(value: Any) -> str:
        if type(value) is not str:
            raise wrong("a string", value)
        length.check(value)
        if form is not None and not form.fullmatch(value):
            raise wrong(text.form_said, value)
        return value

    return check_string
