"""Bounds of a request value, read from FieldRule, and how they are said."""

from __future__ import annotations

import re
from collections.abc import Sized
from dataclasses import dataclass
from typing import Final

from anycloudapi.rest.v1 import options_pb2 as rest
from google.protobuf.descriptor import FieldDescriptor

from anycloud_common.rest import rules
from anycloud_common.rest.invalid import Invalid

EXACT: Final = 2**53 - 1
"""JSON readers with one number type hold integers exactly up to here."""
_F = FieldDescriptor
_UNSIGNED = {_F.TYPE_UINT32, _F.TYPE_FIXED32, _F.TYPE_UINT64, _F.TYPE_FIXED64}
_INT32 = {_F.TYPE_INT32, _F.TYPE_SINT32, _F.TYPE_SFIXED32}
_UINT32 = {_F.TYPE_UINT32, _F.TYPE_FIXED32}
INTEGERS = {_F.TYPE_INT64, _F.TYPE_SINT64, _F.TYPE_SFIXED64} | _INT32 | _UNSIGNED
UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


@dataclass(frozen=True)
class Range:
    """Inclusive bounds of a number; None where the field declares none."""

    low: int | None
    high: int | None

    @classmethod
    def of(cls, rule: rest.FieldRule) -> Range:
        return cls(rule.min if rule.HasField("min") else None, rule.max if rule.HasField("max") else None)

    def said(self, kind: str) -> str:
        if self.low is not None and self.high is not None:
            return f"{kind} from {self.low} to {self.high}"
        if self.low is not None:
            return f"{kind} of at least {self.low}"
        return kind if self.high is None else f"{kind} up to {self.high}"


@dataclass(frozen=True)
class Count:
    """How many characters or items there may be."""

    noun: str
    low: int
    high: int | None

    @classmethod
    def characters(cls, rule: rest.FieldRule) -> Count:
        return cls("character", rule.min_len, rule.max_len if rule.HasField("max_len") else None)

    @classmethod
    def items(cls, rule: rest.FieldRule) -> Count:
        return cls("item", rule.min_items, rule.max_items if rule.HasField("max_items") else None)

    def check(self, value: Sized) -> None:
        count = len(value)
        if count < self.low or (self.high is not None and count > self.high):
            raise Invalid(self.said() + (f", not {count}" if count else ""))

    def said(self) -> str:
        if self.high is None:
            return f"must have at least {self._counted(self.low)}"
        if self.low == 0:
            return f"must have at most {self._counted(self.high)}"
        bounds = f"{self.low} to {self.high}" if self.low < self.high else f"{self.high}"
        return f"must have {bounds} {self.noun}{'' if self.high == 1 else 's'}"

    def test(self, variable: str) -> str | None:
        """Python text of the check, or None when every count will do."""
        if self.high is not None:
            return f"{self.low} <= len({variable}) <= {self.high}"
        if self.low > 1:
            return f"len({variable}) >= {self.low}"
        return variable if self.low == 1 else None

    def _counted(self, count: int) -> str:
        return f"{count} {self.noun}{'' if count == 1 else 's'}"


@dataclass(frozen=True)
class Text:
    """Bounds of a string."""

    length: Count
    pattern: str
    uuid: bool

    @classmethod
    def of(cls, rule: rest.FieldRule) -> Text:
        return cls(Count.characters(rule), rule.pattern, rule.uuid)

    @property
    def form(self) -> re.Pattern[str] | None:
        """What the whole string has to match."""
        if self.uuid:
            return UUID
        return re.compile(self.pattern, re.ASCII) if self.pattern else None

    @property
    def form_said(self) -> str:
        return "a UUID" if self.uuid else f"text that matches {self.pattern}"


def integer_limits(kind: int, declared: Range) -> tuple[int, int]:
    """What the field's type, exact JSON numbers and the declared range leave together."""
    if kind in _INT32:
        low, high = -(2**31), 2**31 - 1
    elif kind in _UINT32:
        low, high = 0, 2**32 - 1
    else:
        low, high = (0 if kind in _UNSIGNED else -EXACT), EXACT
    return (
        low if declared.low is None else max(low, declared.low),
        high if declared.high is None else min(high, declared.high),
    )


def refuse_misplaced(field: FieldDescriptor) -> None:
    """A bound that nothing would check is a mistake in the .proto."""
    rule = rules.field_rule(field)
    kind = rules.map_value(field).type if rules.is_map(field) else field.type
    number = rule.HasField("min") or rule.HasField("max")
    text = rule.HasField("min_len") or rule.HasField("max_len") or rule.pattern or rule.uuid
    items = rule.HasField("min_items") or rule.HasField("max_items")
    if (
        (number and kind not in INTEGERS | {_F.TYPE_DOUBLE})
        or (text and kind != _F.TYPE_STRING)
        or (items and not field.is_repeated)
        or (rule.uuid and rule.pattern)
    ):
        raise ValueError(f"{field.full_name}: a bound that does not fit the field's type")
