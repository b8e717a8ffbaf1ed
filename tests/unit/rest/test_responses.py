"""Typed message -> JSON."""

from __future__ import annotations

import math
from typing import Any

import orjson
import pytest
from anycloud_common.rest import BadResponse

from tests.unit.rest.shapes import CODEC, pb, thing


def encoded(message: Any) -> Any:
    return CODEC.encoder(message.DESCRIPTOR)(message)


def test_zero_values_are_always_printed() -> None:
    value = encoded(thing(id=""))
    assert (value["id"], value["size"], value["ready"], value["vmTypes"], value["counts"]) == ("", 0, False, [], {})


def test_an_unset_optional_field_is_null() -> None:
    value = encoded(thing())
    nullable = ("zone", "command", "gpuType", "spare", "deletedAt", "timeout", "metadata", "shade")
    assert [value[key] for key in nullable] == [None] * len(nullable)


def test_a_field_that_is_omitted_when_unset_has_no_key() -> None:
    assert encoded(thing()).keys().isdisjoint({"revision", "primary"})
    value = encoded(thing(revision=0, primary=True))
    assert (value["revision"], value["primary"]) == (0, True)


@pytest.mark.parametrize("number", [-(2**63), 2**53 + 1, 2**63 - 1])
def test_integers_are_exact_json_numbers(number: int) -> None:
    assert f'"size":{number},'.encode() in CODEC.json(thing(size=number))
    assert f'"serial":{2**64 - 1},'.encode() in CODEC.json(thing(serial=2**64 - 1))


def test_a_time_is_a_number_of_its_declared_unit() -> None:
    value = encoded(
        thing(created_at={"seconds": 1700000000, "nanos": 123999999}, timeout={"seconds": -1, "nanos": -500000000})
    )
    assert (value["createdAt"], value["timeout"]) == (1700000000123, -1.5)


@pytest.mark.parametrize(
    ("colour", "wire"),
    [("RED", "red"), ("SKY_BLUE", "sky-blue"), ("NONE", "-"), ("NOT_FOUND", "not found"), ("AWS", "AWS")],
)
def test_an_enum_value_has_its_wire_spelling(colour: str, wire: str) -> None:
    assert encoded(thing(shade=getattr(pb, f"COLOUR_{colour}")))["shade"] == wire


def test_a_list_that_may_be_null_tells_empty_from_unset() -> None:
    assert encoded(thing())["command"] is None
    assert encoded(thing(command={}))["command"] == []


def test_text_or_list_is_printed_bare() -> None:
    assert encoded(thing(gpu_type={"one": "a"}))["gpuType"] == "a"
    assert encoded(thing(gpu_type={"many": {"values": ["a", "b"]}}))["gpuType"] == ["a", "b"]


def test_free_objects_keep_whole_numbers_whole() -> None:
    row = {"n": 3, "half": 0.5, "text": "x", "none": None, "list": [True, {"deep": -1}]}
    assert encoded(thing(rows=[row], metadata={}))["rows"] == [row]
    assert b'"n":3' in CODEC.json(thing(rows=[row]))
    assert encoded(thing(metadata={}))["metadata"] == {}


def test_a_union_lies_flat_beside_the_other_keys() -> None:
    account = pb.Account(label="l", aws={"access_key_id": "a", "secret_access_key": "s"})
    assert encoded(account) == {"label": "l", "cloudProvider": "AWS", "accessKeyId": "a", "secretAccessKey": "s"}
    assert encoded(pb.Account(local={})) == {"cloudProvider": "local"}
    assert encoded(pb.Target(deployment_target={"deployment": "d"})) == {"deployment": "d"}


def test_the_keys_of_a_flat_message_stand_in_the_object_around_it() -> None:
    listed = pb.ListedPart(position=3, part={"name": "a"}, note="n")
    assert encoded(listed) == {"name": "a", "parts": [], "position": 3, "note": "n"}
    with pytest.raises(BadResponse, match=r"shapes.v1.ListedPart.part is not set"):
        encoded(pb.ListedPart(position=3))


def test_a_list_of_names_and_values_is_an_object_that_keeps_its_order() -> None:
    names = [f"column_{n * 7 % 10}" for n in range(10)]
    row = pb.Row(cells=[{"name": name, "value": {"number_value": n}} for n, name in enumerate(names)])
    assert list(encoded(row).items()) == [(name, n) for n, name in enumerate(names)]
    assert list(orjson.loads(CODEC.json(row))) == names


def test_messages_may_refer_to_themselves() -> None:
    part = pb.Part(name="a", parts=[{"name": "b"}])
    assert encoded(part) == {"name": "a", "parts": [{"name": "b", "parts": []}]}


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"part": None}, "shapes.v1.Thing.part is not set"),
        ({"created_at": None}, "shapes.v1.Thing.created_at is not set"),
        ({"gpu_type": {}}, "shapes.v1.TextOrList.choice is not set"),
        ({"colour": 0}, "shapes.v1.Thing.colour has the value 0"),
        ({"shade": 99}, "shapes.v1.Thing.shade has the value 99"),
        ({"price": math.nan}, "nan in a response"),
        ({"price": math.inf}, "inf in a response"),
        ({"rows": [{"n": math.inf}]}, "inf in a response"),
    ],
)
def test_a_response_without_json_form_is_a_programming_error_that_names_the_field(
    fields: dict[str, Any], named: str
) -> None:
    with pytest.raises(BadResponse, match=named):
        encoded(thing(**fields))


def test_a_union_without_member_is_a_programming_error() -> None:
    with pytest.raises(BadResponse, match=r"shapes.v1.Account.provider is not set"):
        encoded(pb.Account())


def test_json_gives_text() -> None:
    assert orjson.loads(CODEC.json(pb.Part(name="ü"))) == {"name": "ü", "parts": []}
