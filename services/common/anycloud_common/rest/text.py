"""Path variables and query parameters: values that come as text."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from google.protobuf.descriptor import FieldDescriptor

from anycloud_common.rest import bounds, rules, scalars
from anycloud_common.rest.invalid import wrong

Read = Callable[[str], Any]
_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,18})", re.ASCII)
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,63})(\.[0-9]{1,64})?([eE][+-]?[0-9]{1,2})?", re.ASCII)
_BOOLEANS = {"true": True, "false": False}


def reader(field: FieldDescriptor) -> Read:
    """Text -> constructor argument for one value of this field; raises Invalid."""
    bounds.refuse_misplaced(field)
    check = scalars.check(field, rules.field_rule(field))
    if field.type in bounds.INTEGERS or field.message_type is not None:  # a message here is a Timestamp
        return lambda text: check(int(text) if _INTEGER.fullmatch(text) else text)
    if field.type == FieldDescriptor.TYPE_DOUBLE:
        return lambda text: check(float(text) if _NUMBER.fullmatch(text) else text)
    return _boolean if field.type == FieldDescriptor.TYPE_BOOL else check


def _boolean(text: str) -> bool:
    if text not in _BOOLEANS:
        raise wrong("true or false", text)
    return _BOOLEANS[text]
