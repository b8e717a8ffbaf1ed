"""Path variables and query parameters."""

from __future__ import annotations

from typing import Any

import pytest
from anycloud_common.rest import Invalid

from tests.unit.rest.shapes import binding, pb, refusal, request


def test_parameters_become_typed_fields() -> None:
    made = request(
        "ListThings",
        owner="o",
        wait_ms="20000",
        force="true",
        ratio="-1.5e2",
        colours=["red", "not found"],
        since="1700000000123",
        page__size="4294967295",
        page__token="t",
    )
    assert made == pb.ListThingsRequest(
        owner="o",
        wait_ms=20000,
        force=True,
        ratio=-150,
        colours=[pb.COLOUR_RED, pb.COLOUR_NOT_FOUND],
        since={"seconds": 1700000000, "nanos": 123000000},
        page={"size": 4294967295, "token": "t"},
    )


def test_absent_parameters_stay_unset() -> None:
    made = request("ListThings")
    assert made == pb.ListThingsRequest()
    assert not made.HasField("page")


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("owner", "", "owner: must have at least 1 character"),
        ("wait_ms", "", 'waitMs: must be an integer from 0 to 20000, not ""'),
        ("wait_ms", "20001", "waitMs: must be an integer from 0 to 20000, not 20001"),
        ("wait_ms", "1.0", 'waitMs: must be an integer from 0 to 20000, not "1.0"'),
        ("wait_ms", " 1", 'waitMs: must be an integer from 0 to 20000, not " 1"'),
        ("wait_ms", "01", 'waitMs: must be an integer from 0 to 20000, not "01"'),
        ("wait_ms", "٣", 'waitMs: must be an integer from 0 to 20000, not "٣"'),
        ("wait_ms", "9" * 30, f'waitMs: must be an integer from 0 to 20000, not "{"9" * 30}"'),
        ("force", "yes", 'force: must be true or false, not "yes"'),
        ("force", "True", 'force: must be true or false, not "True"'),
        ("ratio", "nan", 'ratio: must be a number, not "nan"'),
        ("ratio", "1e999", 'ratio: must be a number, not "1e999"'),
        ("colours", "blue", 'colours: must be one of red, sky-blue, -, not found, AWS, not "blue"'),
        ("since", "yesterday", 'sinceMs: must be an integer number of milliseconds, not "yesterday"'),
        ("page__size", "-1", "page.size: must be an integer of at least 0, not -1"),
        ("page__token", "hush" * 3, "page.token: must have at most 8 characters, not 12"),
    ],
)
def test_a_broken_rule_names_the_parameter(name: str, value: str, text: str) -> None:
    assert refusal("ListThings", b"", "", **{name: value}) == text


def test_a_required_parameter_has_to_be_there_and_may_be_empty() -> None:
    assert refusal("CountThings") == "owner: is required"
    assert request("CountThings", owner="") == pb.CountThingsRequest()


@pytest.mark.parametrize("values", [["1", "2"], ["1", "1"]])
def test_a_parameter_given_twice_is_refused(values: list[str]) -> None:
    assert refusal("ListThings", wait_ms=values) == "waitMs: is given more than once"


def test_a_query_parameter_cannot_override_a_path_variable() -> None:
    assert refusal("GetThing", id=["t1", "evil"]) == "id: is given more than once"


def test_enums_are_read_from_the_path_too() -> None:
    assert request("NextThing", colour="sky-blue").colour == pb.COLOUR_SKY_BLUE


def test_path_variables_and_body_fill_one_message() -> None:
    made = request("PaintThing", b'{"colour":"red","thing":{"label":"l"}}', thing__id="t1", layer="2")
    assert made == pb.PaintThingRequest(thing={"id": "t1", "label": "l"}, layer=2, colour=pb.COLOUR_RED)


def test_a_field_of_the_path_is_no_key_of_the_body() -> None:
    text = refusal("PaintThing", b'{"colour":"red","layer":3}', thing__id="t1", layer="2")
    assert text == 'body: unknown key "layer"'


def test_a_missing_path_variable_means_that_gateway_and_service_differ() -> None:
    with pytest.raises(RuntimeError, match="no path variable id"):
        request("GetThing")


def test_bytes_that_are_no_text_are_refused() -> None:
    wrapped: Any = binding("ListThings")._wrapper()
    wrapped.owner.append("o")
    broken = wrapped.SerializeToString().replace(b"o", b"\xff")
    with pytest.raises(Invalid, match="url: path and query must be UTF-8 text"):
        binding("ListThings").decode(broken)


def test_path_variables_of_a_bad_request_can_be_read() -> None:
    wrapped: Any = binding("GetThing")._wrapper(id=["t1"])
    assert binding("GetThing").variables(wrapped.SerializeToString()) == {"id": "t1"}
    wrapped.id.append("evil")
    assert binding("GetThing").variables(wrapped.SerializeToString()) == {}
    assert binding("GetThing").variables(b"\xff") == {}
