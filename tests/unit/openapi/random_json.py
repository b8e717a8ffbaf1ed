"""JSON that a schema of the document allows, and the same with something broken."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from tests.unit.openapi.random_messages import FREE, TEXT

Schema = dict[str, Any]
_DEEPEST = 5
_ANYTHING: Schema = {}


_known: dict[tuple[int, int], st.SearchStrategy[Any]] = {}
"""By the schema's identity and depth: the documents live as long as the tests."""


def allowed(schema: Schema, document: dict[str, Any], depth: int = 0) -> st.SearchStrategy[Any]:
    key = id(schema), depth
    if key not in _known:
        _known[key] = _allowed(schema, document, depth)
    return _known[key]


def _allowed(schema: Schema, document: dict[str, Any], depth: int) -> st.SearchStrategy[Any]:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return st.deferred(lambda: allowed(document["components"]["schemas"][name], document, depth + 1))
    for key in ("oneOf", "anyOf"):
        if key in schema:
            return st.one_of([allowed(choice, document, depth) for choice in schema[key]])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    kinds = schema.get("type", "anything")
    return st.one_of(
        [_of_kind(kind, schema, document, depth) for kind in ([kinds] if isinstance(kinds, str) else kinds)]
    )


def _of_kind(kind: str, schema: Schema, document: dict[str, Any], depth: int) -> st.SearchStrategy[Any]:
    if kind == "object":
        return _object(schema, document, depth)
    if kind == "array":
        low = schema.get("minItems", 0)
        most = low if depth > _DEEPEST else low + 2
        return st.lists(allowed(schema.get("items", _ANYTHING), document, depth + 1), min_size=low, max_size=most)
    if kind == "integer":
        return st.integers(schema.get("minimum", -(2**53) + 1), schema.get("maximum", 2**53 - 1))
    if kind == "number":
        limits = schema.get("minimum", -1e15), schema.get("maximum", 1e15)
        return st.floats(*limits, allow_nan=False, allow_infinity=False)
    if kind == "string":
        return _string(schema)
    return {"boolean": st.booleans(), "null": st.none(), "anything": FREE}[kind]


def _object(schema: Schema, document: dict[str, Any], depth: int) -> st.SearchStrategy[dict[str, Any]]:
    properties = schema.get("properties", {})
    needed = set(schema.get("required", []))
    values = {key: allowed(inner, document, depth + 1) for key, inner in properties.items()}
    required = {key: values[key] for key in needed}
    if depth > _DEEPEST:
        return st.fixed_dictionaries(required)
    optional = {key: value for key, value in values.items() if key not in needed}
    others = schema.get("additionalProperties", True)
    if properties or others is False:
        return st.fixed_dictionaries(required, optional=optional)
    return st.dictionaries(TEXT, FREE if others is True else allowed(others, document, depth + 1), max_size=2)


def _string(schema: Schema) -> st.SearchStrategy[str]:
    if schema.get("format") == "uuid":
        return st.uuids().map(str)
    if "pattern" in schema:
        # Without the end anchor of Python, which a line feed may follow.
        return st.from_regex(schema["pattern"].removeprefix("^").removesuffix("$"), fullmatch=True)
    low = schema.get("minLength", 0)
    high = min(schema.get("maxLength", low + 6), low + 6)
    return st.text(st.characters(codec="utf-8"), min_size=low, max_size=high)


@st.composite
def broken(draw: st.DrawFn, schema: Schema, document: dict[str, Any]) -> Any:
    """Changed in one or two places; now and then what comes of it is allowed all the same."""
    value = draw(allowed(schema, document))
    for _ in range(draw(st.integers(1, 2))):
        value = draw(_changed(value))
    return value


@st.composite
def _changed(draw: st.DrawFn, value: Any) -> Any:
    holder = {"": copy.deepcopy(value)}
    inside, key = draw(st.sampled_from(list(_places(holder))))
    found = inside[key]
    how = draw(st.sampled_from(["replace", "near", "remove", "add"]))
    if how == "remove" and inside is not holder:
        del inside[key]
    elif how == "add" and isinstance(found, dict):
        found[draw(TEXT)] = draw(FREE)
    elif how == "near":
        inside[key] = draw(st.sampled_from(_near(found)))
    else:
        inside[key] = draw(FREE)
    return holder[""]


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in list(keys):
        yield value, key
        yield from _places(value[key])


def _near(value: Any) -> list[Any]:
    """Values that a careless reader takes for the right ones, and those just out of bounds."""
    if isinstance(value, bool):
        return [int(value), str(value).lower()]
    if isinstance(value, int):
        return [str(value), float(value), -1, 0, 2**31, 2**53, -(2**53), True]
    if isinstance(value, float):
        return [str(value), -1, 2**60, None]
    if isinstance(value, str):
        return ["", value.upper(), value * 200, [value], None]
    return [None, [], {}, [value], ""]
