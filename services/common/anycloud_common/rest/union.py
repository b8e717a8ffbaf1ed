"""Choosing the member of a union from a request object: by its tag, or by its keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from google.protobuf.descriptor import FieldDescriptor, OneofDescriptor

from anycloud_common.rest import rules
from anycloud_common.rest.invalid import ABSENT, Invalid, wrong

Choices = Sequence[tuple[frozenset[str], Callable[[dict[str, Any]], dict[str, Any]]]]


def tags(union: OneofDescriptor) -> dict[str, FieldDescriptor]:
    """Value of the tag key -> member."""
    return {rules.field_rule(member).tag or member.name: member for member in union.fields}


def choose_by_tag(
    given: dict[str, Any], key: str, decoders: dict[str, Callable[[Any], dict[str, Any]]]
) -> dict[str, Any]:
    tag = given.get(key, ABSENT)
    decode = decoders.get(tag) if type(tag) is str else None
    if decode is not None:
        return decode(given)
    choice = "one of " + ", ".join(decoders)
    raise Invalid(f"is required: {choice}", key) if tag is ABSENT else wrong(choice, tag, key)


def choose_by_keys(given: dict[str, Any], choices: Choices) -> dict[str, Any]:
    """The member is the one of which a telling key is there, even if not all that it needs."""
    found = [(keys, decode) for keys, decode in choices if not keys.isdisjoint(given)]
    if len(found) == 1:
        return found[0][1](given)
    if found:
        keys = sorted(min(k & given.keys()) for k, _ in found)
        raise Invalid(f"the keys {' and '.join(keys)} exclude each other")
    raise Invalid(f"needs one of the keys {', '.join(min(k) for k, _ in choices)}")


def telling_keys(union: OneofDescriptor) -> list[tuple[frozenset[str], FieldDescriptor]]:
    """For each member its required keys that no other member has."""
    fields = {member.name: rules.message_type(member).fields for member in union.fields}
    told = []
    for member in union.fields:
        others = {f.json_name for name, own in fields.items() if name != member.name for f in own}
        keys = frozenset(f.json_name for f in fields[member.name] if rules.is_required(f)) - others
        if not keys:
            raise ValueError(f"{member.full_name}: no required key tells it from the other members")
        told.append((keys, member))
    return told
