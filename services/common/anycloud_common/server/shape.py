"""The declared shape of a request, checked on the message: for native gRPC callers. For HTTP ones the codec checks it
while it reads their JSON."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from anycloud_common.rest import Invalid, rules, scalars
from anycloud_common.rest.bounds import INTEGERS, Count

Check = Callable[[Any], None]
"""Raises Invalid. Given a message, or the value of a field."""


class Shapes:
    """Keeps what was compiled: a list of checks for each message type."""

    def __init__(self) -> None:
        self._checks: dict[tuple[str, frozenset[str]], list[tuple[str, Check]]] = {}

    def of(self, message: Descriptor, variables: frozenset[str] = frozenset()) -> Check:
        """The check of a message type. `variables`: fields that the path fills, and so never with nothing."""
        key = (message.full_name, variables)
        if key not in self._checks:
            checks = self._checks[key] = []  # known before it is filled: a type may hold itself
            for field in message.fields:
                if field.name in variables:
                    checks.append((field.name, partial(_filled, field.name)))
                if (check := self._field(field)) is not None:
                    checks.append((field.name, check))
            union = rules.union_of(message)
            if union is not None:
                members = [member.name for member in union.fields]
                checks.append((union.name, partial(_has_member, union.name, members)))
        return partial(_all, self._checks[key])

    def _field(self, field: FieldDescriptor) -> Check | None:
        required = rules.is_required(field)
        if rules.is_map(field):
            value = self._value(rules.map_value(field), field)
            return partial(_map, field.name, required, Count.items(rules.field_rule(field)), value)
        value = self._value(field, field)
        if field.is_repeated:
            return partial(_list, field.name, required, Count.items(rules.field_rule(field)), value)
        if field.has_presence:
            required = required and not rules.field_rule(field).nullable
            return partial(_present, field.name, required, value) if required or value else None
        return partial(_plain, field.name, required, value) if value else None

    def _value(self, field: FieldDescriptor, ruled_by: FieldDescriptor) -> Check | None:
        """The check of one value, or None where every value of the type will do."""
        if field.message_type is not None:
            return None if field.message_type.full_name.startswith(rules.GOOGLE) else self.of(field.message_type)
        if field.enum_type is not None:
            spelled = rules.wire_values(field.enum_type)
            return partial(_enum, frozenset(spelled.values()), "must be one of " + ", ".join(spelled))
        if field.type not in {*INTEGERS, FieldDescriptor.TYPE_DOUBLE, FieldDescriptor.TYPE_STRING}:
            return None
        check = scalars.check(field, rules.field_rule(ruled_by))
        return partial(_finite, check) if field.type == FieldDescriptor.TYPE_DOUBLE else check


def _all(checks: list[tuple[str, Check]], message: Any) -> None:
    for name, check in checks:
        try:
            check(message)
        except Invalid as error:
            raise error.at(name) from None


def _filled(name: str, message: Any) -> None:
    if not getattr(message, name):
        raise Invalid("is required")


def _has_member(union: str, members: list[str], message: Any) -> None:
    if message.WhichOneof(union) is None:
        raise Invalid(f"needs one of {', '.join(members)}")


def _present(name: str, required: bool, value: Check | None, message: Any) -> None:
    if message.HasField(name):
        if value is not None:
            value(getattr(message, name))
    elif required:
        raise Invalid("is required")


def _plain(name: str, required: bool, value: Check, message: Any) -> None:
    """A field without presence: its zero value counts as left out."""
    given = getattr(message, name)
    if given or required:
        value(given)


def _list(name: str, required: bool, count: Count, value: Check | None, message: Any) -> None:
    items = getattr(message, name)
    if items or required:
        count.check(items)
    for index, item in enumerate(items if value else ()):
        _at(index, value, item)


def _map(name: str, required: bool, count: Count, value: Check | None, message: Any) -> None:
    items = getattr(message, name)
    if items or required:
        count.check(items)
    for key in items if value else ():
        _at(key, value, items[key])


def _at(key: int | str, value: Check | None, item: Any) -> None:
    assert value is not None
    try:
        value(item)
    except Invalid as error:
        raise error.without_value().at(key) if isinstance(key, str) else error.at(key) from None


def _enum(numbers: frozenset[int], rule: str, value: int) -> None:
    if value not in numbers:
        raise Invalid(rule)


def _finite(check: Check, value: float) -> None:
    if not math.isfinite(value):
        raise Invalid("must be a finite number")
    check(value)
