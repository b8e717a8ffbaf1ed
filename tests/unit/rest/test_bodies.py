"""The body as bytes: what counts as JSON, and what an operation takes."""

from __future__ import annotations

import pytest

from tests.unit.rest.shapes import refusal, request

GOOD = b'{"name":"n","maxVmCount":0}'


@pytest.mark.parametrize("kind", ["application/json", "application/json; charset=utf-8", "Application/JSON", ""])
def test_json_is_taken_by_any_spelling_of_its_content_type(kind: str) -> None:
    assert request("CreateThing", GOOD, kind).thing.name == "n"


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "application/jsonp"])
def test_another_content_type_is_refused(kind: str) -> None:
    assert refusal("CreateThing", GOOD, kind) == "body: content-type must be application/json"


def test_a_required_body_has_to_be_there() -> None:
    assert refusal("CreateThing") == "body: a JSON object is required"


@pytest.mark.parametrize("body", [b"", b"{}", b" {} "])
def test_an_operation_without_body_takes_nothing_or_an_empty_object(body: bytes) -> None:
    assert request("DeleteThing", body, id="t1").id == "t1"


@pytest.mark.parametrize("body", [b'{"force":true}', b"[]", b"null"])
def test_an_operation_without_body_refuses_one(body: bytes) -> None:
    assert refusal("DeleteThing", body, id="t1") == "body: this operation takes no body"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "unexpected end"),
        (b'{"maxVmCount":NaN}', "unexpected character"),
        (b'{"maxVmCount":Infinity}', "unexpected character"),
        (b'{"ratio":1e999}', "infinity"),
        (b'{"name":"\\ud800"}', "surrogate"),
        (b'{"name":"\xff"}', "not valid UTF-8"),
        (b'\xef\xbb\xbf{"name":"n"}', "byte order mark"),
        (b'{"name":"\n"}', "control character"),
        (b'{"name":"hush" "x"}', "line 1 column 16"),
        (b"[" * 2000 + b"]" * 2000, "depth limit"),
    ],
)
def test_what_is_not_json_is_refused(body: bytes, said: str) -> None:
    text = refusal("CreateThing", body)
    assert text.startswith("body: is not valid JSON: ")
    assert said in text
    assert "hush" not in text


def test_64_levels_of_nesting_are_taken_and_65_refused() -> None:
    def nested(levels: int) -> bytes:
        inner = levels - 1
        return b'{"name":"n","maxVmCount":0,"anythings":' + b"[" * inner + b"]" * inner + b"}"

    assert request("CreateThing", nested(64)).thing.HasField("anythings")
    assert refusal("CreateThing", nested(65)) == "body: is nested deeper than 64 levels"
    assert refusal("CreateThing", nested(1000)) == "body: is nested deeper than 64 levels"


@pytest.mark.parametrize(
    ("body", "key"),
    [
        (b'{"name":"a","name":"b","maxVmCount":0}', "name"),
        (b'{"name":"n","maxVmCount":0,"env":{"a:b":"1","a:b":"2"}}', "a:b"),
        (b'{"name":"n","maxVmCount":0,"parts":[{"name":"a","n\\u0061me":"b"}]}', "name"),
        (b'{"name":"n","maxVmCount":0,"anything":{"%s":1,"%s":1}}' % (b"k" * 60, b"k" * 60), "k" * 39 + "…"),
    ],
)
def test_a_key_given_twice_is_refused(body: bytes, key: str) -> None:
    assert refusal("CreateThing", body) == f'body: has the key "{key}" more than once'


def test_colons_in_text_are_no_keys() -> None:
    body = b'{"name":"a:b","maxVmCount":0,"env":{"URL":"http://x:1/"},"parts":[{"name":":"},{"name":":"}]}'
    assert request("CreateThing", body).thing.env == {"URL": "http://x:1/"}
