"""JSON -> typed request: shapes and bounds, and what is said when they are broken."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from anycloud_common.rest.wellknown import plain_listvalue, plain_value

from tests.unit.rest.shapes import pb, refusal, request


def body(**changes: Any) -> bytes:
    """A good CreateThing body with some keys changed; a value of `...` leaves the key out."""
    keys = {"name": "n", "maxVmCount": 1} | changes
    return orjson.dumps({key: value for key, value in keys.items() if value is not ...})


def created(**changes: Any) -> Any:
    return request("CreateThing", body(**changes)).thing


def refused(**changes: Any) -> str:
    return refusal("CreateThing", body(**changes))


def test_a_good_request_becomes_the_typed_message() -> None:
    assert created(vmTypes=["a"], env={"K": "v"}, ratio=1, level=-5, spot=False, colour="sky-blue") == pb.Spec(
        name="n",
        max_vm_count=1,
        vm_types=["a"],
        env={"K": "v"},
        ratio=1.0,
        level=-5,
        spot=False,
        colour=pb.COLOUR_SKY_BLUE,
    )


def test_absent_keys_stay_unset() -> None:
    made = created()
    unset = ("periods", "path", "ratio", "account", "spot", "probe")
    assert not any(made.HasField(name) for name in unset)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"name": ...}, "name: is required"),
        ({"name": None}, "name: must be a string, not null"),
        ({"name": ""}, "name: must have 1 to 64 characters"),
        ({"name": "x" * 65}, "name: must have 1 to 64 characters, not 65"),
        ({"name": 5}, "name: must be a string, not 5"),
        ({"maxVmCount": "5"}, 'maxVmCount: must be an integer of at least 0, not "5"'),
        ({"maxVmCount": 5.0}, "maxVmCount: must be an integer of at least 0, not 5.0"),
        ({"maxVmCount": True}, "maxVmCount: must be an integer of at least 0, not true"),
        ({"maxVmCount": -1}, "maxVmCount: must be an integer of at least 0, not -1"),
        ({"maxVmCount": 2**53}, "maxVmCount: must be an integer from 0 to 9007199254740991, not 9007199254740992"),
        ({"big": 2**53}, "big: must be an integer up to 9007199254740991, not 9007199254740992"),
        ({"big": -1}, "big: must be an integer of at least 0, not -1"),
        ({"level": 2**31}, "level: must be an integer up to 2147483647, not 2147483648"),
        ({"level": -(2**31) - 1}, "level: must be an integer of at least -2147483648, not -2147483649"),
        ({"port": 2**32}, "port: must be an integer up to 4294967295, not 4294967296"),
        ({"periods": 0}, "periods: must be an integer from 1 to 3600, not 0"),
        ({"periods": 3601}, "periods: must be an integer from 1 to 3600, not 3601"),
        ({"ratio": 1.5}, "ratio: must be a number from 0 to 1, not 1.5"),
        ({"ratio": "1"}, 'ratio: must be a number from 0 to 1, not "1"'),
        ({"ratio": False}, "ratio: must be a number from 0 to 1, not false"),
        ({"vmTypes": []}, "vmTypes: must have 1 to 4 items"),
        ({"vmTypes": ["a"] * 5}, "vmTypes: must have 1 to 4 items, not 5"),
        ({"vmTypes": ["a", ""]}, "vmTypes[1]: must have at least 1 character"),
        ({"vmTypes": ["a", 1]}, "vmTypes[1]: must be a string, not 1"),
        ({"vmTypes": "a"}, 'vmTypes: must be an array, not "a"'),
        ({"env": {"a": "", "b": "", "c": "", "d": ""}}, "env: must have at most 3 items, not 4"),
        ({"env": []}, "env: must be an object, not an array"),
        ({"path": "a"}, 'path: must be text that matches /[a-z/]*, not "a"'),
        ({"path": "/a\n"}, r'path: must be text that matches /[a-z/]*, not "/a\n"'),
        ({"executionId": "x"}, 'executionId: must be a UUID, not "x"'),
        ({"spot": 1}, "spot: must be true or false, not 1"),
        ({"colour": "RED"}, 'colour: must be one of red, sky-blue, -, not found, AWS, not "RED"'),
        ({"colour": []}, "colour: must be one of red, sky-blue, -, not found, AWS, not an array"),
        ({"parts": [{"name": "a", "parts": [{"name": 5}]}]}, "parts[0].parts[0].name: must be a string, not 5"),
        ({"gpuType": 5}, "gpuType: must be a string or an array, not 5"),
        ({"gpuType": ""}, "gpuType: must have at least 1 character"),
        ({"gpuType": []}, "gpuType: must have at least 1 item"),
        ({"gpuType": [""]}, "gpuType[0]: must have at least 1 character"),
        ({"probe": {}}, "probe.seconds: is required"),
        ({"anythings": {}}, "anythings: must be an array, not an object"),
        ({"ipc": 1}, 'unknown key "ipc"'),
        ({"b": 1, "a": 1}, 'unknown keys "a", "b"'),
        ({"name": "x" * 65, "path": "y" * 50}, "name: must have 1 to 64 characters, not 65"),
    ],
)
def test_a_broken_rule_is_named_with_key_path_and_value(changes: dict[str, Any], text: str) -> None:
    assert refused(**changes).removeprefix("body: ") == text


def test_a_long_value_is_cut_at_40_characters() -> None:
    assert refused(path="y" * 500) == f'path: must be text that matches /[a-z/]*, not "{"y" * 39}…"'
    assert refused(**{"z" * 500: 1}) == f'body: unknown key "{"z" * 39}…"'


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"apiKey": "hush"}, "apiKey: must be text that matches k-[0-9]+"),
        ({"apiKey": ["hush"]}, "apiKey: must be a string"),
        ({"account": {"cloudProvider": "AWS", "accessKeyId": 7}}, "account.accessKeyId: must be a string"),
        (
            {"account": {"cloudProvider": "AWS", "accessKeyId": "i", "secretAccessKey": "hush" * 6}},
            "account.secretAccessKey: must have at most 20 characters, not 24",
        ),
        ({"env": {"PLAIN": 7}}, "env.PLAIN: must be a string"),
    ],
)
def test_the_value_of_a_secret_or_of_a_map_is_never_shown(changes: dict[str, Any], text: str) -> None:
    assert refused(**changes) == text


def test_null_is_taken_only_where_it_is_declared() -> None:
    made = created(executionId=None, probe=None)
    assert not made.HasField("execution_id")
    assert not made.HasField("probe")
    assert refused(spot=None) == "spot: must be true or false, not null"


def test_an_open_object_ignores_unknown_keys() -> None:
    assert created(probe={"seconds": 1, "other": {}}).probe == pb.Probe(seconds=1)


@pytest.mark.parametrize("value", ["7d444840-9dc0-11d1-b245-5ffdce74fad2", "7D444840-9DC0-11D1-B245-5FFDCE74FAD2"])
def test_a_uuid_is_taken_as_it_is_spelled(value: str) -> None:
    assert created(executionId=value).execution_id == value


def test_numbers_with_and_without_fraction_fit_a_number_field() -> None:
    assert (created(ratio=0).ratio, created(ratio=0.25).ratio, created(ratio=1.0).ratio) == (0, 0.25, 1)


def test_text_or_list_takes_both() -> None:
    assert created(gpuType="a").gpu_type == pb.TextOrList(one="a")
    assert created(gpuType=["a", "b"]).gpu_type == pb.TextOrList(many={"values": ["a", "b"]})


@pytest.mark.parametrize("value", [None, True, 1.5, "x", {"a": [1, None]}, [1, {"b": "c"}]])
def test_a_value_of_any_kind_is_kept(value: Any) -> None:
    assert plain_value(created(anything=value).anything) == value
    assert plain_listvalue(created(anythings=[value]).anythings) == [value]
