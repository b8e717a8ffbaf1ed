"""Messages as a handler may answer them: what has to be set is set, and bounds hold."""

from __future__ import annotations

from functools import cache
from typing import Any

from anycloud_common.rest import bounds, rules, wellknown
from google.protobuf import message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from hypothesis import strategies as st

TEXT = st.text(st.characters(codec="utf-8"), max_size=6)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False, width=32)
LEAVES = st.none() | st.booleans() | NUMBERS | TEXT
FREE = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2), max_leaves=3
)
_DEEPEST = 4


@cache
def message(kind: Descriptor) -> st.SearchStrategy[Message]:
    made: type[Message] = message_factory.GetMessageClass(kind)
    return _arguments(kind, 0).map(lambda arguments: made(**arguments))


@st.composite
def _arguments(draw: st.DrawFn, kind: Descriptor, depth: int) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    for field in rules.plain_fields(kind):
        if not rules.is_optional(field) or (depth < _DEEPEST and draw(st.booleans())):
            arguments[field.name] = draw(_value(field, depth))
    union = rules.union_of(kind)
    if union is not None:
        member = draw(st.sampled_from(list(union.fields)))
        arguments[member.name] = draw(_value(member, depth))
    return arguments


def _value(field: FieldDescriptor, depth: int) -> st.SearchStrategy[Any]:
    rule = rules.field_rule(field)
    if not field.is_repeated:
        return _one(field, field, depth)
    most = 0 if depth >= _DEEPEST and not rule.min_items else max(2, rule.min_items)
    if rules.is_map(field):
        return st.dictionaries(TEXT, _one(rules.map_value(field), field, depth), max_size=most)
    return st.lists(_one(field, field, depth), min_size=rule.min_items, max_size=most)


def _one(field: FieldDescriptor, ruled: FieldDescriptor, depth: int) -> st.SearchStrategy[Any]:
    rule = rules.field_rule(ruled)
    if field.enum_type is not None:
        return st.sampled_from(list(rules.wire_values(field.enum_type).values()))
    if field.message_type is not None:
        if rules.well_known(field) is None:
            return _arguments(field.message_type, depth + 1)
        return _well_known(field, ruled)
    if field.type in bounds.INTEGERS:
        return st.integers(*bounds.integer_limits(field.type, bounds.Range.of(rule)))
    if field.type == FieldDescriptor.TYPE_DOUBLE:
        declared = bounds.Range.of(rule)
        return st.floats(declared.low, declared.high, allow_nan=False, allow_infinity=False)
    if field.type == FieldDescriptor.TYPE_BOOL:
        return st.booleans()
    return text(bounds.Text.of(rule))


def text(rule: bounds.Text) -> st.SearchStrategy[str]:
    if rule.uuid:
        return st.uuids().map(str)
    if rule.form is not None:
        return st.from_regex(rule.form, fullmatch=True)
    high = rule.length.low + 6 if rule.length.high is None else min(rule.length.high, rule.length.low + 6)
    return st.text(st.characters(codec="utf-8"), min_size=rule.length.low, max_size=high)


def _well_known(field: FieldDescriptor, ruled: FieldDescriptor) -> st.SearchStrategy[Any]:
    kind = rules.well_known(field)
    if kind in {"Timestamp", "Duration"}:
        return st.integers(-(10**9), 10**9).map(lambda seconds: {"seconds": seconds})
    of: dict[str | None, st.SearchStrategy[Any]] = {
        "Struct": st.dictionaries(TEXT, FREE, max_size=2),
        "ListValue": st.lists(FREE, max_size=2),
        "Value": FREE,
    }
    check = wellknown.well_known(field, rules.field_rule(ruled))
    return of[kind].map(check)
