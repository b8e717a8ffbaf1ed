"""Typed message -> JSON value: writes one Python function per message type."""

from __future__ import annotations

import keyword
from collections.abc import Callable, Iterator
from typing import Any

from anycloudapi.rest.v1 import options_pb2 as rest
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, OneofDescriptor
from google.protobuf.message import Message

from anycloud_common.rest import rules, wellknown
from anycloud_common.rest.generated import Generated
from anycloud_common.rest.union import tags
from anycloud_common.rest.wellknown import BadResponse

Encode = Callable[[Message], Any]


def unset(what: str) -> Any:
    raise BadResponse(f"{what} is not set in a response")


def no_wire(what: str, number: int) -> Any:
    raise BadResponse(f"{what} has the value {number} in a response, which has no spelling")


def not_finite(number: float) -> Any:
    raise BadResponse(f"{number} in a response")


_LARGE = 8  # fields; from there on it is cheaper to ask a message which of its fields are set than to ask for each

MISSING = object()

HELPERS: dict[str, Any] = {
    "MISSING": MISSING,
    "unset": unset,
    "no_wire": no_wire,
    "not_finite": not_finite,
    "plain_struct": wellknown.plain_struct,
    "plain_value": wellknown.plain_value,
    "plain_listvalue": wellknown.plain_listvalue,
}


class Encoders:
    """A generated function looks like this, or for a large message as in `_filled_in`:

    def encode_1(m):
        d = {'id': m.id, 'zone': m.zone if m.HasField('zone') else None, 'vmTypes': list(m.vm_types)}
        if m.HasField('url'): d['url'] = m.url
        return d
    """

    def __init__(self, generated: Generated) -> None:
        self._generated = generated

    def encoder(self, message: Descriptor) -> Encode:
        encode: Encode = self._generated[self.name(message)]
        return encode

    def name(self, message: Descriptor) -> str:
        """Name of the function for this message type, made at the first call."""
        name, new = self._generated.reserve("encode", message.full_name)
        if new:
            body = self._bare(message) if rules.message_rule(message).bare else self._object(message)
            self._generated.function(name, "m", body, message.full_name)
        return name

    def _object(self, message: Descriptor) -> list[str]:
        fields = rules.plain_fields(message)
        refuse_same_keys(message)
        alone = rules.union_of(message) is None and not any(rules.field_rule(f).flat for f in fields)
        if alone and len(fields) >= _LARGE:
            return self._filled_in(message)
        always = [f for f in fields if not rules.field_rule(f).omit_when_unset]
        omitted = [f for f in fields if rules.field_rule(f).omit_when_unset]
        union = rules.union_of(message)
        literal = "{" + ", ".join(self._entry(f) for f in always) + "}"
        if not omitted and union is None:
            return [f"return {literal}"]
        body = [f"d = {literal}"]
        body += [f"if {_is_set(f)}: d[{f.json_name!r}] = {self._field(f)}" for f in omitted]
        return body + (self._union(union) if union else []) + ["return d"]

    def _filled_in(self, message: Descriptor) -> list[str]:
        """For large messages: a copy of what the empty message is, in which the fields that are set are filled in."""
        fields = rules.plain_fields(message)
        empty: dict[str, Any] = {}
        keys: dict[FieldDescriptor, tuple[str, Callable[[Any], Any] | None]] = {}
        refused = []
        for field in fields:
            text = self._field(field, "v")
            keys[field] = (field.json_name, None if text == "v" else self._converter(field, text))
            if rules.field_rule(field).omit_when_unset:
                continue
            if (why := self._refused_when_unset(field)) is not None:
                refused.append(f"if d[{field.json_name!r}] is MISSING: {why}")
            empty[field.json_name] = MISSING if why is not None else self._empty(field)
        of = message.full_name
        return [
            f"d = {self._generated.constant('empty', of, lambda: empty)}.copy()",
            f"t = {self._generated.constant('keys', of, lambda: keys)}",
            "for f, v in m.ListFields():",
            "    k, c = t[f]",
            "    d[k] = v if c is None else c(v)",
            *refused,
            "return d",
        ]

    def _converter(self, field: FieldDescriptor, text: str) -> Callable[[Any], Any]:
        name, _ = self._generated.reserve("value", field.full_name)
        self._generated.function(name, "v", [f"return {text}"], field.full_name)
        made: Callable[[Any], Any] = self._generated[name]
        return made

    def _refused_when_unset(self, field: FieldDescriptor) -> str | None:
        """Python text that raises, for a field without which there is no JSON."""
        if field.has_presence and not rules.is_optional(field):
            return f"unset({field.full_name!r})"
        if field.enum_type is None or field.is_repeated or field.has_presence:
            return None
        spelled = 0 in rules.wire_values(field.enum_type).values()
        return None if spelled else f"no_wire({field.full_name!r}, 0)"

    @staticmethod
    def _empty(field: FieldDescriptor) -> Any:
        """The JSON value of a field that isn't set."""
        if field.has_presence:
            return None
        if rules.is_map(field) or rules.field_rule(field).object:
            return {}
        if field.is_repeated:
            return []
        if field.enum_type is not None:
            return next(wire for wire, number in rules.wire_values(field.enum_type).items() if number == 0)
        return field.default_value

    def _entry(self, field: FieldDescriptor) -> str:
        """Python text for the field's part of the dict display."""
        value = self._always(field)
        return f"**({value})" if rules.field_rule(field).flat else f"{field.json_name!r}: {value}"

    def _bare(self, message: Descriptor) -> list[str]:
        fields = rules.bare_fields(message)
        union = rules.union_of(message)
        if union is None:
            return [f"return {self._field(fields[0])}"]
        body = [f"w = m.WhichOneof({union.name!r})"]
        body += [f"if w == {f.name!r}: return {self._field(f)}" for f in fields]
        return [*body, f"return unset({union.full_name!r})"]

    def _union(self, union: OneofDescriptor) -> list[str]:
        """The keys of whichever member is set go beside those of the message around it."""
        key = rules.union_rule(union).tag_key
        body = [f"w = m.WhichOneof({union.name!r})"]
        for i, (tag, member) in enumerate(tags(union).items()):
            put_tag = f"d[{key!r}] = {tag!r}; " if key else ""
            put_keys = f"d.update({self.name(rules.message_type(member))}({_read(member)}))"
            body.append(f"{'el' if i else ''}if w == {member.name!r}: {put_tag}{put_keys}")
        return [*body, f"else: unset({union.full_name!r})"]

    def _always(self, field: FieldDescriptor) -> str:
        value = self._field(field)
        if not field.has_presence:
            return value
        otherwise = "None" if rules.is_optional(field) else f"unset({field.full_name!r})"
        return f"{value} if {_is_set(field)} else {otherwise}"

    def _field(self, field: FieldDescriptor, source: str = "") -> str:
        """Python text for the JSON value of a set field, which is read by `source`."""
        rule, source = rules.field_rule(field), source or _read(field)
        if rules.is_map(field):
            one = self._one(rules.map_value(field), rule, "v", field.full_name)
            return f"dict({source})" if one == "v" else f"{{k: {one} for k, v in {source}.items()}}"
        if rule.object:
            return self._object_of_pairs(field, source)
        if field.is_repeated:
            one = self._one(field, rule, "v", field.full_name)
            return f"list({source})" if one == "v" else f"[{one} for v in {source}]"
        return self._one(field, rule, source, field.full_name)

    def _object_of_pairs(self, field: FieldDescriptor, source: str) -> str:
        """A list of (name, value) as one object: a map's keys would come in any order."""
        parts = rules.message_type(field).fields_by_name if field.is_repeated and field.message_type else {}
        if set(parts) != {"name", "value"} or parts["name"].type != FieldDescriptor.TYPE_STRING:
            raise ValueError(f"{field.full_name}: `object` is for lists of messages with `string name` and `value`")
        value = parts["value"]
        return f"{{p.name: {self._one(value, rules.field_rule(value), 'p.value', value.full_name)} for p in {source}}}"

    def _one(self, field: FieldDescriptor, rule: rest.FieldRule, source: str, called: str) -> str:
        if field.enum_type is not None:
            table = self._spelling(field.enum_type)
            return f"({table}.get({source}) or no_wire({called!r}, {source}))"
        if field.type == FieldDescriptor.TYPE_DOUBLE:
            return f"(n if (n := {source}) - n == 0 else not_finite(n))"
        if field.type in {FieldDescriptor.TYPE_FLOAT, FieldDescriptor.TYPE_BYTES}:
            raise ValueError(f"{called}: no JSON form for this type; numbers are double or integers, bytes are text")
        if field.message_type is None:
            return source
        if rules.well_known(field):
            return wellknown.encoded(field, rule, source)
        return f"{self.name(field.message_type)}({source})"

    def _spelling(self, enum: EnumDescriptor) -> str:
        def spelling() -> dict[int, str]:
            return {number: wire for wire, number in rules.wire_values(enum).items()}

        return self._generated.constant("spelling", enum.full_name, spelling)


def refuse_same_keys(message: Descriptor) -> None:
    """The keys of a `flat` message have to differ from those of the object around it."""
    keys = list(_keys(message))
    if len(set(keys)) != len(keys):
        raise ValueError(f"{message.full_name}: two fields with the same JSON key")


def _keys(message: Descriptor) -> Iterator[str]:
    for field in rules.plain_fields(message):
        if not rules.field_rule(field).flat:
            yield field.json_name
        elif field.is_repeated or rules.is_optional(field) or not rules.is_plain(rules.message_type(field)):
            raise ValueError(f"{field.full_name}: what is flat is one plain message, and always set")
        else:
            yield from _keys(rules.message_type(field))


def _is_set(field: FieldDescriptor) -> str:
    """Python text; for a field without presence: it differs from its default."""
    return f"m.HasField({field.name!r})" if field.has_presence else _read(field)


def _read(field: FieldDescriptor) -> str:
    return f"getattr(m, {field.name!r})" if keyword.iskeyword(field.name) else f"m.{field.name}"
