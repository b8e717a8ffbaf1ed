"""Bytes of a request body -> JSON value, strictly: what one reader takes and another does not is refused."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import orjson

from anycloud_common.rest.invalid import Invalid, cut

DEPTH = 64
"""Levels of nesting that a body may have."""


def parse(data: bytes) -> Any:
    """Raises Invalid for bad JSON (NaN, numbers too large, lone surrogates, bad UTF-8), a key given twice, or depth."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as e:
        raise Invalid(f"is not valid JSON: {e}") from None
    if data.count(b"{") + data.count(b"[") > DEPTH:
        _refuse_deep(value)
    # As many colons as keys: none was given twice. More may stand in nested objects or in text: then look closer.
    if data.count(b":") != (len(value) if type(value) is dict else 0):
        _refuse_repeated_keys(data.decode())
    return value


def _refuse_deep(value: Any) -> None:
    level = [value]
    for _ in range(DEPTH):
        level = [inner for outer in level for inner in _items(outer) if type(inner) is dict or type(inner) is list]
        if not level:
            return
    raise Invalid(f"is nested deeper than {DEPTH} levels")


def _items(value: Any) -> Iterable[Any]:
    if type(value) is dict:
        return value.values()
    return value if type(value) is list else ()


def _distinct(pairs: list[tuple[str, Any]]) -> None:
    seen = {key for key, _ in pairs}
    if len(seen) == len(pairs):
        return
    for key, _ in pairs:
        if key not in seen:
            raise Invalid(f'has the key "{cut(key)}" more than once')
        seen.remove(key)


# The same text once more, through the standard library's reader, which shows all pairs of an object.
_refuse_repeated_keys = json.JSONDecoder(object_pairs_hook=_distinct, parse_int=str, parse_float=str).decode
