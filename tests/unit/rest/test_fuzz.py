"""Every message of every public operation, with any content that its bounds allow, and any bytes in their place.

A short run by default; `ANYCLOUD_FUZZ_EXAMPLES=20000 pytest tests/unit/rest/test_fuzz.py` looks longer, and with
ANYCLOUD_FUZZ_SEED (any number) elsewhere.
"""

from __future__ import annotations

import os
from typing import Any

import orjson
import pytest
from anycloud_common.rest import Binding, Codec, Invalid, rules, wrapper
from google.protobuf import json_format, message_factory
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message
from hypothesis import HealthCheck, Phase, assume, given, seed, settings
from hypothesis import strategies as st

from tests.unit.openapi.random_messages import FREE, message
from tests.unit.rest import reader
from tests.unit.rest.test_api import BINDINGS

EXAMPLES = int(os.environ.get("ANYCLOUD_FUZZ_EXAMPLES", "12"))
SEED = os.environ.get("ANYCLOUD_FUZZ_SEED")
FUZZ = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=SEED is None,
    database=None,
    phases=[Phase.generate] if SEED is None else [Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)
CODEC = Codec()
every_operation = pytest.mark.parametrize("binding", [pytest.param(one, id=path) for path, one in BINDINGS.items()])


def elsewhere(test: Any) -> Any:
    return test if SEED is None else seed(int(SEED))(test)


def without_nulls(kind: Descriptor, value: Any) -> Any:
    """A request leaves out what an answer says is null."""
    if isinstance(value, dict) and not kind.full_name.startswith(rules.GOOGLE):
        inner = {field.json_name: field for field in _fields(kind)}
        return {
            key: _inner_without_nulls(inner[key], item) if key in inner else item
            for key, item in value.items()
            if item is not None or (key in inner and rules.field_rule(inner[key]).nullable)
        }
    return value


def _fields(kind: Descriptor) -> list[Any]:
    union = rules.union_of(kind)
    members = [] if union is None else [field for one in union.fields for field in _fields(rules.message_type(one))]
    return [*rules.plain_fields(kind), *members]


def _inner_without_nulls(field: Any, value: Any) -> Any:
    kind = field.message_type
    if kind is None or rules.is_map(field):
        return value
    return [without_nulls(kind, item) for item in value] if field.is_repeated else without_nulls(kind, value)


@every_operation
@FUZZ
@given(data=st.data())
def test_an_answer_can_be_read_back(binding: Binding, data: st.DataObject) -> None:
    kind = binding.route.method.output_type
    answer: Any = data.draw(message(kind))
    if binding.route.method.name == "QueryDatabase":  # its columns are keys
        assume(all(len({cell.name for cell in row.cells}) == len(row.cells) for row in answer.rows))
    assert made(kind, reader.arguments(kind, orjson.loads(CODEC.json(answer)))) == answer


test_an_answer_can_be_read_back = elsewhere(test_an_answer_can_be_read_back)


def made(kind: Descriptor, arguments: dict[str, Any]) -> Message:
    found: Message = message_factory.GetMessageClass(kind)(**arguments)
    return found


def on_the_wire(binding: Binding, request: Any) -> bytes:
    """The request as Envoy hands it on."""
    route = binding.route
    wrapped: Any = wrapper.message_class(route)()
    for param in route.params:
        holder, target = request, wrapped
        for step in param.path[:-1]:
            holder, target = getattr(holder, step), getattr(target, step)
        name, field = param.path[-1], param.field
        if not param.in_path and not field.is_repeated and field.has_presence and not holder.HasField(name):
            continue
        given_value = getattr(holder, name)
        values = given_value if field.is_repeated else [given_value]
        getattr(target, name).extend(text(field, value) for value in values)
    if route.body:
        taken = request if route.body == "*" else getattr(request, route.body)
        body = without_nulls(taken.DESCRIPTOR, CODEC.encoder(taken.DESCRIPTOR)(taken))
        depth = 1 if route.body == "*" else 2
        named = {param.field.json_name for param in route.params if param.in_path and len(param.path) == depth}
        wrapped.http_body.data = orjson.dumps({key: value for key, value in body.items() if key not in named})
        wrapped.http_body.content_type = "application/json"
    return bytes(wrapped.SerializeToString())


def text(field: Any, value: Any) -> str:
    if field.enum_type is not None:
        return {number: word for word, number in rules.wire_values(field.enum_type).items()}[value]
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def requests(binding: Binding) -> st.SearchStrategy[Message]:
    """Of a PATCH only the object: its mask is what the body says."""
    route = binding.route
    if not route.has_update_mask:
        return message(route.method.input_type)
    named = {param.path[0]: "x" for param in route.params if param.in_path and len(param.path) == 1}
    body = rules.message_type(route.method.input_type.fields_by_name[route.body])
    return message(body).map(lambda changes: made(route.method.input_type, {**named, route.body: changes}))


@every_operation
@FUZZ
@given(data=st.data())
def test_a_request_is_what_was_sent(binding: Binding, data: st.DataObject) -> None:
    request: Any = data.draw(requests(binding))
    decoded: Any = binding.decode(on_the_wire(binding, request))
    if binding.route.has_update_mask:
        decoded.ClearField("update_mask")
    assert decoded == request


test_a_request_is_what_was_sent = elsewhere(test_a_request_is_what_was_sent)

BYTES = st.one_of(
    st.binary(max_size=60),
    st.text(st.sampled_from('{}[],:"\\a1.eE-u0d8 \n'), max_size=30).map(str.encode),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=6,
    ).map(lambda value: str(value).replace("'", '"').encode("utf-8", "surrogatepass")),
)


@every_operation
@FUZZ
@given(data=st.data())
def test_any_bytes_are_a_request_or_refused(binding: Binding, data: st.DataObject) -> None:
    """In the body, in each parameter, and in place of all that the gateway sends."""
    route = binding.route
    wrapped: Any = wrapper.message_class(route)()
    for param in route.params:
        target = wrapped
        for step in param.path[:-1]:
            target = getattr(target, step)
        least = 1 if param.in_path else 0
        values = st.lists(st.text(st.characters(codec="utf-8"), max_size=12), min_size=least, max_size=2)
        getattr(target, param.path[-1]).extend(data.draw(values))
    if route.takes_body:
        wrapped.http_body.data = data.draw(BYTES | bodies(binding))
        wrapped.http_body.content_type = data.draw(st.sampled_from(["application/json", "", "text/plain", "a;b=\0"]))
    decode_or_refuse(binding, wrapped.SerializeToString())
    if not any(param.in_path for param in route.params):
        decode_or_refuse(binding, data.draw(BYTES))


test_any_bytes_are_a_request_or_refused = elsewhere(test_any_bytes_are_a_request_or_refused)


def bodies(binding: Binding) -> st.SearchStrategy[bytes]:
    """Objects with the right keys and any values."""
    route = binding.route
    if not route.body:
        return st.just(b"{}")
    kind = route.method.input_type
    body = kind if route.body == "*" else rules.message_type(kind.fields_by_name[route.body])
    keys = [field.json_name for field in _fields(body)] if not rules.message_rule(body).bare else []
    return st.dictionaries(st.sampled_from([*keys, "?"]), FREE, max_size=5).map(orjson.dumps)


def decode_or_refuse(binding: Binding, raw: bytes) -> None:
    try:
        request = binding.decode(raw)
    except Invalid as refused:
        assert 0 < len(str(refused)) < 1000
    else:
        assert json_format.MessageToJson(request)
