"""Gives the directions of a message type one schema, and one name, where they are equal."""

from __future__ import annotations

from typing import Any

from anycloud_common.rest.openapi.messages import PREFIX, Messages
from anycloud_common.rest.openapi.values import Direction, Schema

Names = dict[str, str]


def merge(messages: Messages) -> Names:
    """Name in `messages.schemas` -> the name it is to have.

    Types may refer to each other. So it starts from "all are equal" and takes back what is not, until nothing changes.
    """
    schemas = messages.schemas
    own = {base: _in_order(found) for base, found in messages.directions.items()}
    names = {name: base for base, found in own.items() for name in found}
    while True:
        differing = {
            name
            for base, (first, *others) in own.items()
            for name in others
            if names[name] == base and renamed(schemas[name], names) != renamed(schemas[first], names)
        }
        if not differing:
            return names
        names.update({name: name for name in differing})


def _in_order(found: dict[Direction, str]) -> list[str]:
    return [found[direction] for direction in Direction if direction in found]


def schemas(messages: Messages, names: Names) -> dict[str, Schema]:
    """All schemas under their names, in the names' order. Raises ValueError when two would have the same."""
    merged: dict[str, Schema] = {}
    for name in sorted(messages.schemas):
        schema, new_name = renamed(messages.schemas[name], names), names.get(name, name)
        if merged.setdefault(new_name, schema) != schema:
            raise ValueError(f"two schemas would have the same name in OpenAPI: {new_name}")
    return dict(sorted(merged.items()))


def renamed(value: Any, names: Names) -> Any:
    """The schema, or whatever holds schemas, with its references changed."""
    if isinstance(value, dict):
        return {key: renamed(inner, names) for key, inner in value.items()}
    if isinstance(value, list):
        return [renamed(inner, names) for inner in value]
    if isinstance(value, str) and value.startswith(PREFIX):
        name = value.removeprefix(PREFIX)
        return PREFIX + names.get(name, name)
    return value
