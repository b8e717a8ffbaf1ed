"""JSON Schema of message types, one per type and direction, as the codec reads and writes them."""

from __future__ import annotations

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, OneofDescriptor

from anycloud_common.rest import rules, union
from anycloud_common.rest.openapi.values import Direction, Schema, closed, mapped, or_null, repeated, scalar

PREFIX = "#/components/schemas/"


def reference(name: str) -> Schema:
    return {"$ref": f"{PREFIX}{name}"}


def short(full_name: str) -> str:
    """`anycloudapi.cluster.v1.BucketPage.Entry` -> `BucketPageEntry`."""
    return "".join(part[0].upper() + part[1:] for part in full_name.split(".") if part[0].isupper())


class Messages:
    """Collects the schemas that were asked for, with all that these refer to."""

    def __init__(self, comments: dict[str, str]) -> None:
        self.schemas: dict[str, Schema] = {}
        """By name; that of a request or patch has its direction at the end."""
        self.directions: dict[str, dict[Direction, str]] = {}
        """Name without direction -> the names in `schemas`."""
        self._comments = comments
        self._made_for: dict[str, tuple[str, frozenset[str]]] = {}

    def put(self, name: str, schema: Schema, source: str) -> Schema:
        """Keeps the schema under this name, and gives a reference. The name belongs to `source` alone."""
        self._take(name, source)
        self.schemas[name] = schema
        return reference(name)

    def message(self, message: Descriptor, direction: Direction, skip: frozenset[str] = frozenset()) -> Schema:
        """`skip`: fields that the path fills, which are no keys of the body."""
        if rules.message_rule(message).bare:
            return self._bare(message, direction)
        base = short(message.full_name)
        name = self._directed(base, direction)
        if self._take(name, message.full_name, skip):
            self.schemas[name] = {}  # it may refer to itself
            self.schemas[name] = self._object(message, direction, skip, base)
        return reference(name)

    def _directed(self, base: str, direction: Direction) -> str:
        return self.directions.setdefault(base, {}).setdefault(direction, base + direction.value)

    def _take(self, name: str, source: str, skip: frozenset[str] = frozenset()) -> bool:
        """True when the schema has to be made now."""
        maker = self._made_for.setdefault(name, (source, skip))
        if maker != (source, skip):
            raise ValueError(f"{source} and {maker[0]} would have the same name in OpenAPI: {name}")
        return name not in self.schemas

    def _described(self, schema: Schema, source: str) -> Schema:
        told = self._comments.get(source)
        return {**schema, "description": told} if told else schema

    def _object(self, message: Descriptor, direction: Direction, skip: frozenset[str], base: str) -> Schema:
        own = [f for f in rules.plain_fields(message) if f.name not in skip]
        one_of = rules.union_of(message)
        if one_of is None:
            schema = self._keys(own, {}, direction, rules.message_rule(message).open)
        else:
            schema = self._union(one_of, own, direction, base)
        return self._described(schema, message.full_name)

    def _union(self, one_of: OneofDescriptor, own: list[FieldDescriptor], direction: Direction, base: str) -> Schema:
        """A variant has the keys of its member and those of the object around it."""
        key = rules.union_rule(one_of).tag_key
        variants: dict[str, Schema] = {}
        for tag, member in union.tags(one_of).items():
            kind = rules.message_type(member)
            is_open = any(rules.message_rule(m).open for m in (kind, member.containing_type) if m is not None)
            first = {key: {"type": "string", "enum": [tag]}} if key else {}
            keys = self._keys([*own, *kind.fields], first, direction, is_open)
            name = self._directed(base + member.name.title().replace("_", ""), direction)
            variants[tag] = self.put(name, self._described(keys, kind.full_name), member.full_name)
        schema: Schema = {"oneOf": list(variants.values())}
        if key:
            mapping = {tag: variant["$ref"] for tag, variant in variants.items()}
            schema["discriminator"] = {"propertyName": key, "mapping": mapping}
        return schema

    def _keys(self, fields: list[FieldDescriptor], first: Schema, direction: Direction, is_open: bool) -> Schema:
        properties, required = dict(first), list(first)
        for field in self._unfolded(fields):
            properties[field.json_name] = self._described(self._value(field, direction), field.full_name)
            if _is_always_there(field, direction):
                required.append(field.json_name)
        flat_open = any(rules.message_rule(rules.message_type(f)).open for f in fields if rules.field_rule(f).flat)
        return closed(properties, required, is_open or flat_open)

    def _unfolded(self, fields: list[FieldDescriptor]) -> list[FieldDescriptor]:
        """`flat` fields make way for those of their message."""
        unfolded = []
        for field in fields:
            flat = rules.field_rule(field).flat
            unfolded += self._unfolded(list(rules.message_type(field).fields)) if flat else [field]
        return unfolded

    def _value(self, field: FieldDescriptor, direction: Direction) -> Schema:
        rule = rules.field_rule(field)
        if direction is Direction.PATCH and rule.merge:
            schema = self.message(rules.message_type(field), Direction.PATCH)
        else:
            inner = Direction.REQUEST if direction is Direction.PATCH else direction
            schema = self.field(field, inner)
        if direction is Direction.RESPONSE:
            return or_null(schema) if rules.is_optional(field) and not rule.omit_when_unset else schema
        return or_null(schema) if rule.nullable else schema

    def field(self, field: FieldDescriptor, direction: Direction) -> Schema:
        """The value of a set field."""
        rule = rules.field_rule(field)
        if rules.is_map(field):
            return mapped(self._one(rules.map_value(field), field, direction), rule)
        if rule.object:
            value = rules.message_type(field).fields_by_name["value"]
            return {"type": "object", "additionalProperties": self._one(value, value, direction) or True}
        if field.is_repeated:
            return repeated(self._one(field, field, direction), rule)
        return self._one(field, field, direction)

    def _one(self, field: FieldDescriptor, ruled: FieldDescriptor, direction: Direction) -> Schema:
        """One value of the field's type, with the bounds of `ruled`."""
        if field.enum_type is not None:
            return self._enum(field.enum_type)
        if field.message_type is not None and rules.well_known(field) is None:
            return self.message(field.message_type, direction)
        return scalar(field, rules.field_rule(ruled), direction)

    def _enum(self, enum: EnumDescriptor) -> Schema:
        words = {"type": "string", "enum": list(rules.wire_values(enum))}
        return self.put(short(enum.full_name), words, enum.full_name)

    def _bare(self, message: Descriptor, direction: Direction) -> Schema:
        fields = rules.bare_fields(message)
        if rules.union_of(message) is None:
            return self.field(fields[0], direction)
        return {"oneOf": [self.field(f, direction) for f in fields]}


def _is_always_there(field: FieldDescriptor, direction: Direction) -> bool:
    if direction is Direction.RESPONSE:
        return not rules.field_rule(field).omit_when_unset
    return direction is Direction.REQUEST and rules.is_required(field)
