"""JSON value -> constructor arguments of a typed message: writes one Python function per message type.

Arguments rather than messages: the whole tree is then built by a single call into protobuf's C code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anycloudapi.rest.v1 import options_pb2 as rest
from google.protobuf.descriptor import Descriptor, FieldDescriptor, OneofDescriptor

from anycloud_common.rest import bare, bounds, rules, scalars
from anycloud_common.rest.bounds import Count
from anycloud_common.rest.generated import Generated
from anycloud_common.rest.invalid import ABSENT, Invalid, refuse_unknown, wrong
from anycloud_common.rest.union import choose_by_keys, choose_by_tag, tags, telling_keys

Decode = Callable[[Any], dict[str, Any]]
Targets = list[tuple[FieldDescriptor, str]]
"""Fields, and which dict of the generated function takes each: `k` the message's own, `u` the union member's."""


def at(key: str, decode: Callable[[Any], Any], value: Any) -> Any:
    """Decodes the value of this key; an error then names the key."""
    try:
        return decode(value)
    except Invalid as e:
        raise e.at(key) from None


def each_item(value: Any, decode: Callable[[Any], Any], count: Count) -> list[Any]:
    if type(value) is not list:
        raise wrong("an array", value)
    count.check(value)
    items: list[Any] = []
    try:
        for item in value:
            items.append(decode(item))
    except Invalid as e:
        raise e.at(len(items)) from None
    return items


def each_value(value: Any, decode: Callable[[Any], Any], count: Count) -> dict[str, Any]:
    """Values of a map are never shown in errors: environments and Secrets come as maps."""
    if type(value) is not dict:
        raise wrong("an object", value)
    count.check(value)
    entries = {}
    for key, item in value.items():
        try:
            entries[key] = decode(item)
        except Invalid as e:
            raise e.without_value().at(key) from None
    return entries


HELPERS: dict[str, Any] = {
    "ABSENT": ABSENT,
    "Invalid": Invalid,
    "wrong": wrong,
    "refuse_unknown": refuse_unknown,
    "at": at,
    "each_item": each_item,
    "each_value": each_value,
    "choose_by_tag": choose_by_tag,
    "choose_by_keys": choose_by_keys,
}


class Decoders:
    """A generated function looks like this (`o`: the JSON object, `k`: arguments, `n`: keys found):

    def decode_1(o):
        if type(o) is not dict: raise wrong('an object', o)
        n = 0
        k = {}
        v = o.get('name', ABSENT)
        if v is not ABSENT:
            n += 1
            if type(v) is str and 1 <= len(v) <= 64: k['name'] = v
            else: k['name'] = at('name', check_2, v)
        else: raise Invalid('is required', 'name')
        if n != len(o): refuse_unknown(o, ('name',))
        return k
    """

    def __init__(self, generated: Generated) -> None:
        self._generated = generated

    def decoder(self, message: Descriptor, skip: frozenset[str] = frozenset()) -> Decode:
        """`skip`: fields that the path fills, which are no keys of the body."""
        decode: Decode = self._generated[self.name(message, skip)]
        return decode

    def field_decoder(self, field: FieldDescriptor) -> Callable[[Any], Any]:
        decode: Callable[[Any], Any] = self._generated[self.field(field)]
        return decode

    def name(self, message: Descriptor, skip: frozenset[str] = frozenset()) -> str:
        name, new = self._generated.reserve("decode", (message.full_name, skip))
        if new:
            self._generated.function(name, "o", self._body(name, message, skip), message.full_name)
        return name

    def _body(self, name: str, message: Descriptor, skip: frozenset[str]) -> list[str]:
        if rules.message_rule(message).bare:
            return self._bare(message)
        check = "if type(o) is not dict: raise wrong('an object', o)"
        own = [(f, "k") for f in rules.plain_fields(message) if f.name not in skip]
        union = rules.union_of(message)
        if union is None:
            return [check, "k = {}", *self._keys(own, (), message, rules.message_rule(message).open), "return k"]
        return [check, self._union(name, union, own)]

    def _union(self, name: str, union: OneofDescriptor, own: Targets) -> str:
        """The line that picks a member's function. Each of them decodes the object's `own` fields too."""
        rule = rules.union_rule(union)
        if rule.tag_key:
            by_tag = {tag: self._member(name, m, own, (rule.tag_key,)) for tag, m in tags(union).items()}
            table = self._generated.constant("tags", name, lambda: by_tag)
            return f"return choose_by_tag(o, {rule.tag_key!r}, {table})"
        by_keys = [(keys, self._member(name, m, own, ())) for keys, m in telling_keys(union)]
        table = self._generated.constant("keys", name, lambda: by_keys)
        return f"return choose_by_keys(o, {table})"

    def _member(self, name: str, member: FieldDescriptor, own: Targets, tag: tuple[str, ...]) -> Decode:
        kind = rules.message_type(member)
        if not rules.is_plain(kind):
            raise ValueError(f"{member.full_name}: a union member is a plain message")
        is_open = any(rules.message_rule(m).open for m in (kind, member.containing_type) if m is not None)
        keys = self._keys(own + [(f, "u") for f in kind.fields], tag, kind, is_open)
        body = [f"k = {{{member.name!r}: (u := {{}})}}", *keys, "return k"]
        function = f"{name}_{member.name}"
        self._generated.function(function, "o", body, member.full_name)
        decode: Decode = self._generated[function]
        return decode

    def _keys(self, fields: Targets, tag: tuple[str, ...], message: Descriptor, is_open: bool) -> list[str]:
        known = (*tag, *(f.json_name for f, _ in fields))
        if len(set(known)) != len(known):
            raise ValueError(f"{message.full_name}: two fields with the same JSON key")
        body = [f"n = {len(tag)}"]
        for field, target in fields:
            body += [f"v = o.get({field.json_name!r}, ABSENT)", "if v is not ABSENT:", "    n += 1"]
            body += [f"    {line}" for line in self._assign(field, target)]
            if rules.is_required(field):
                body.append(f"else: raise Invalid('is required', {field.json_name!r})")
        if not is_open:
            body.append(f"if n != len(o): refuse_unknown(o, {known!r})")
        return body

    def _assign(self, field: FieldDescriptor, target: str) -> list[str]:
        place, checked = f"{target}[{field.name!r}]", f"at({field.json_name!r}, {self.field(field)}, v)"
        rule = rules.field_rule(field)
        quick = None if field.is_repeated else scalars.quick_test(field, rule)
        body = [f"if {quick}: {place} = v", f"else: {place} = {checked}"] if quick else [f"{place} = {checked}"]
        return ["if v is not None:", *(f"    {line}" for line in body)] if rule.nullable else body

    def _bare(self, message: Descriptor) -> list[str]:
        if rules.union_of(message) is None:
            field = rules.bare_fields(message)[0]
            return [f"return {{{field.name!r}: {self.field(field)}(o)}}"]
        kinds = bare.kinds(message)
        body = [f"if {bare.TESTS[kind]}: return {{{f.name!r}: {self.field(f)}(o)}}" for kind, f in kinds.items()]
        return [*body, f"raise wrong({' or '.join(kinds)!r}, o)"]

    def field(self, field: FieldDescriptor) -> str:
        """Name of a function from the field's JSON value to its constructor argument."""
        bounds.refuse_misplaced(field)
        if rules.field_rule(field).flat or rules.field_rule(field).object:
            raise ValueError(f"{field.full_name}: `flat` and `object` are for responses")
        if not field.is_repeated:
            return self._one(field, rules.field_rule(field))
        name, new = self._generated.reserve("all", field.full_name)
        if new:
            rule = rules.field_rule(field)
            count = self._generated.constant("count", field.full_name, lambda: Count.items(rule))
            value, each = (rules.map_value(field), "each_value") if rules.is_map(field) else (field, "each_item")
            line = f"return {each}(v, {self._one(value, rule)}, {count})"
            self._generated.function(name, "v", [line], field.full_name)
        return name

    def _one(self, field: FieldDescriptor, rule: rest.FieldRule) -> str:
        kind = field.message_type or field.enum_type
        if field.message_type is not None and rules.well_known(field) is None:
            return self.name(field.message_type)
        same = (field.type, kind and kind.full_name, rule.SerializeToString(deterministic=True))
        return self._generated.constant("check", same, lambda: scalars.check(field, rule))
