"""PATCH: which keys are there at all becomes the update mask."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from anycloud_common.rest import rules
from anycloud_common.rest.decode import Decoders
from anycloud_common.rest.invalid import Invalid, refuse_unknown, wrong

Patch = Callable[[Any], tuple[dict[str, Any], list[str]]]
"""JSON object -> constructor arguments and the mask's paths (proto names, dots between)."""


@dataclass(frozen=True)
class _Key:
    field: str
    nullable: bool
    merge: Patch | None
    decode: Callable[[Any], Any]

    def read(self, value: Any, into: dict[str, Any]) -> list[str]:
        """Puts the value where it belongs; gives the paths that it adds to the mask."""
        if value is None and self.nullable:
            return [self.field]
        if self.merge is None:
            into[self.field] = self.decode(value)
            return [self.field]
        into[self.field], below = self.merge(value)
        return [f"{self.field}.{path}" for path in below]


def patcher(message: Descriptor, decoders: Decoders, skip: frozenset[str] = frozenset()) -> Patch:
    """`skip`: fields that the path fills. No key is required in a PATCH."""
    if not rules.is_plain(message):
        raise ValueError(f"{message.full_name}: a PATCH body is a plain message")
    keys = {f.json_name: _key(f, decoders) for f in message.fields if f.name not in skip}
    is_open = rules.message_rule(message).open

    def patch(given: Any) -> tuple[dict[str, Any], list[str]]:
        if type(given) is not dict:
            raise wrong("an object", given)
        if not is_open and not given.keys() <= keys.keys():
            refuse_unknown(given, keys)
        arguments: dict[str, Any] = {}
        paths: list[str] = []
        for name, value in given.items():
            try:
                paths += keys[name].read(value, arguments) if name in keys else []
            except Invalid as e:
                raise e.at(name) from None
        return arguments, paths

    return patch


def _key(field: FieldDescriptor, decoders: Decoders) -> _Key:
    rule = rules.field_rule(field)
    merge = patcher(rules.message_type(field), decoders) if rule.merge else None
    return _Key(field.name, rule.nullable, merge, decoders.field_decoder(field))
