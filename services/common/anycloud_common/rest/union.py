"""Choosing the member of a union from a request object: by its tag, or by its keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from google.protobuf.descriptor import FieldDescriptor, OneofDescriptor

from anycloud_common.rest import rules
from anycloud_common.rest.invalid import ABSENT, Invalid, wrong

Choices = Sequence[tuple[Sequence[str], Callable[[dict[str, Any]], dict[str, Any]]]]


def tags(union: OneofDescriptor) -> dict[str, FieldDescriptor]:
    """Value of the tag key -> member."""
    members = {rules.field_rule(member).tag or member.name: member for member in union.fields}
    if len(members) != len(union.fields):
        raise ValueError(f"{union.full_name}: two members with the same tag")
    return members


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
    found = [(key, decode) for keys, decode in choices if (key := next((k for k in keys if k in given), None))]
    if len(found) == 1:
        return found[0][1](given)
    if found:
        raise Invalid(f"the keys {' and '.join(key for key, _ in found)} exclude each other")
    raise Invalid(f"needs one of the keys {', '.join(keys[0] for keys, _ in choices)}")


def telling_keys(union: OneofDescriptor) -> list[tuple[tuple[str, ...], FieldDescriptor]]:
    """For each member its required keys that no other member has, in the order of declaration."""
    fields = {member.name: rules.message_type(member).fields for member in union.fields}
    told = []
    for member in union.fields:
        others = {f.json_name for name, own in fields.items() if name != member.name for f in own}
        required = [f.json_name for f in fields[member.name] if rules.is_required(f)]
        keys = tuple(key for key in required if key not in others)
        if not keys:
            raise ValueError(f"{member.full_name}: no required key tells it from the other members")
        told.append((keys, member))
    return told
