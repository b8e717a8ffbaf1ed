"""What holds for every message and every body, not only for the examples."""

from __future__ import annotations

import json
import math
from typing import Any

import orjson
import pytest
from anycloud_common.rest import Invalid, rules
from anycloud_common.rest.bounds import EXACT
from anycloud_common.rest.parse import parse
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.rest.shapes import CODEC, ROUTES, pb, request

SETTINGS = settings(max_examples=150, deadline=None, derandomize=True)
TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
EXACT_INTEGERS = st.integers(-EXACT, EXACT)
COLOURS = st.integers(1, 5)


def objects(required: dict[str, Any], optional: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(required, optional=optional)


PARTS = st.recursive(
    objects({}, {"name": TEXT}),
    lambda inner: objects({}, {"name": TEXT, "parts": st.lists(inner, max_size=2)}),
    max_leaves=4,
)
TEXT_LISTS = objects({}, {"values": st.lists(TEXT, max_size=3)})
NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
TEXT_OR_LIST = st.one_of(
    objects({"one": NAMES}, {}),
    objects({"many": objects({"values": st.lists(NAMES, min_size=1, max_size=3)}, {})}, {}),
)
ACCOUNTS = st.tuples(
    objects({}, {"label": TEXT}),
    st.one_of(
        objects({"aws": objects({"access_key_id": TEXT, "secret_access_key": TEXT}, {})}, {}),
        objects({"lambda": objects({}, {"region": TEXT})}, {}),
        objects({"local": objects({}, {})}, {}),
    ),
).map(lambda parts: parts[0] | parts[1])
CONFIGS = objects({}, {"vm_type": TEXT_OR_LIST, "account": ACCOUNTS})
TARGETS = st.tuples(
    objects({}, {"id": TEXT}),
    st.one_of(
        objects({"deployment_target": objects({"deployment": TEXT}, {"timeout": FINITE})}, {}),
        objects({"image_target": objects({"image": TEXT, "config": CONFIGS}, {})}, {}),
    ),
).map(lambda parts: parts[0] | parts[1])
# Struct holds all numbers as doubles. Whole ones are printed as integers, which have no negative zero.
FREE = st.recursive(
    st.none() | st.booleans() | FINITE.map(lambda number: number + 0.0) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
STRUCTS = st.dictionaries(TEXT, FREE, max_size=3)
MILLIS = st.integers(-62135596800000, 253402300799999).map(
    lambda ms: {"seconds": ms // 1000, "nanos": ms % 1000 * 1000000}
)
DURATIONS = st.integers(-315576000000000, 315576000000000).map(
    lambda ms: {
        "seconds": int(math.copysign(abs(ms) // 1000, ms)),
        "nanos": int(math.copysign(abs(ms) % 1000, ms)) * 1000000,
    }
)
REQUIRED = {"part": PARTS, "at_ms": MILLIS, "struct": STRUCTS, "list": st.lists(FREE, max_size=3), "empty": st.just({})}
OPTIONAL = {
    "text": TEXT,
    "nullable_text": TEXT,
    "omitted_text": TEXT,
    "i32": st.integers(-(2**31), 2**31 - 1),
    "u32": st.integers(0, 2**32 - 1),
    "i64": EXACT_INTEGERS,
    "u64": st.integers(0, EXACT),
    "s64": EXACT_INTEGERS,
    "f32": st.integers(-(2**31), 2**31 - 1),
    "number": FINITE,
    "flag": st.booleans(),
    "texts": st.lists(TEXT, max_size=3),
    "numbers": st.lists(EXACT_INTEGERS, max_size=3),
    "colours": st.lists(COLOURS, max_size=3),
    "text_by_key": st.dictionaries(TEXT, TEXT, max_size=3),
    "number_by_key": st.dictionaries(TEXT, FINITE, max_size=3),
    "part_by_key": st.dictionaries(TEXT, PARTS, max_size=3),
    "text_list": TEXT_LISTS,
    "text_map": objects({}, {"entries": st.dictionaries(TEXT, TEXT, max_size=3)}),
    "text_or_list": TEXT_OR_LIST,
    "parts": st.lists(PARTS, max_size=2),
    "account": ACCOUNTS,
    "targets": st.lists(TARGETS, max_size=2),
    "took_ms": DURATIONS,
    "structs": st.lists(STRUCTS, max_size=2),
    "true_or_absent": st.booleans(),
    "from": TEXT,
}


@st.composite
def everything(draw: st.DrawFn, levels: int = 1) -> Any:
    arguments = draw(objects({**REQUIRED, "colour": COLOURS}, OPTIONAL))
    if levels and draw(st.booleans()):
        arguments["inner"] = draw(everything(levels - 1))
    return pb.Everything(**arguments, value=draw(values()))


@st.composite
def values(draw: st.DrawFn) -> Any:
    """A google.protobuf.Value as JSON makes it."""
    return pb.Everything(**CODEC.decoder(pb.Everything.DESCRIPTOR)({"value": draw(FREE)})).value


@SETTINGS
@given(everything())
def test_a_message_survives_json(message: Any) -> None:
    text = CODEC.json(message)
    assert pb.Everything(**CODEC.decoder(message.DESCRIPTOR)(parse(text))) == message


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | FINITE | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
WITH_BODY = sorted(name for name, route in ROUTES.items() if route.takes_body)
PATH = {"id": "t", "thing__id": "t", "layer": "1"}


def decode_or_refuse(method: str, body: bytes) -> None:
    path = {name: value for name, value in PATH.items() if f"{{{name.replace('__', '.')}}}" in ROUTES[method].path}
    try:
        request(method, body, "application/json", **path)
    except Invalid as e:
        assert len(str(e)) < 1000


@SETTINGS
@pytest.mark.parametrize("method", WITH_BODY)
@given(data=st.data())
def test_any_json_is_decoded_or_refused(method: str, data: st.DataObject) -> None:
    body = ROUTES[method].method.input_type.fields_by_name.get("thing")
    message = ROUTES[method].method.input_type if body is None else rules.message_type(body)
    keys = st.dictionaries(st.sampled_from([f.json_name for f in message.fields]) | TEXT, JSON_VALUES, max_size=4)
    decode_or_refuse(method, orjson.dumps(data.draw(keys | JSON_VALUES)))


@SETTINGS
@pytest.mark.parametrize("method", WITH_BODY)
@given(body=st.binary(max_size=40) | st.text(st.sampled_from('{}[],:"\\a1.eE-u0d8'), max_size=20).map(str.encode))
def test_any_bytes_are_decoded_or_refused(method: str, body: bytes) -> None:
    decode_or_refuse(method, body)


@SETTINGS
@given(JSON_VALUES)
def test_any_json_is_an_everything_or_refused(value: Any) -> None:
    try:
        pb.Everything(**CODEC.decoder(pb.Everything.DESCRIPTOR)(value))
    except Invalid as e:
        assert str(e)


@SETTINGS
@given(st.sampled_from([p.path for p in ROUTES["ListThings"].params]), st.lists(TEXT, min_size=1, max_size=2))
def test_any_parameter_is_decoded_or_refused(path: tuple[str, ...], texts: list[str]) -> None:
    try:
        request("ListThings", b"", "", **{"__".join(path): texts})
    except Invalid as e:
        assert str(e)


@SETTINGS
@given(JSON_VALUES, st.integers(0, 3))
def test_a_body_is_parsed_as_the_standard_library_parses_it(value: Any, indent: int) -> None:
    text = json.dumps(value, indent=indent or None, ensure_ascii=bool(indent))
    assert parse(text.encode()) == json.loads(text)
