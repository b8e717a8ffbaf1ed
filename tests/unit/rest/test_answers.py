"""What the gateway gets for a response: status, content type, root of the JSON."""

from __future__ import annotations

import re

import pytest
from anycloud_common.rest import BadResponse
from google.protobuf import empty_pb2

from tests.unit.rest.shapes import CODEC, answer, pb, thing


def test_a_status_other_than_200_ends_the_content_type() -> None:
    kind, body = answer("CreateThing", thing())
    assert kind == "application/json; status=202"
    assert body == b'{"thing":' + CODEC.json(thing()) + b"}"


def test_a_plain_answer_is_the_message() -> None:
    assert answer("GetThing", thing()) == ("application/json", CODEC.json(thing()))


@pytest.mark.parametrize("count", [0, 2])
def test_a_list_may_be_the_root(count: int) -> None:
    kind, body = answer("ListThings", pb.ListThingsResponse(things=[thing()] * count))
    assert (kind, body) == ("application/json", b"[" + b",".join([CODEC.json(thing())] * count) + b"]")


def test_204_has_no_body() -> None:
    assert answer("DeleteThing", empty_pb2.Empty()) == ("application/json; status=204", b"")


def test_an_answer_that_may_be_missing_is_204_when_unset() -> None:
    assert answer("NextThing", pb.NextThingResponse()) == ("application/json; status=204", b"")
    assert answer("NextThing", pb.NextThingResponse(thing=thing())) == ("application/json", CODEC.json(thing()))


def test_a_page_of_a_list_has_its_total_and_its_cursor_in_headers() -> None:
    page = pb.PageThingsResponse(things=[thing()], total_count=7, next_cursor="a/b c")
    kind, body = answer("PageThings", page, "/v1/thing-pages?limit=1&owner=x%20y&cursor=old")
    assert body == b'{"things":[' + CODEC.json(thing()) + b"]}"
    link = '</v1/thing-pages?limit=1&owner=x%20y&cursor=a%2Fb%20c>; rel="next"'
    assert kind == f"application/json; anycloud-total-count=7; link={link}"


def test_the_last_page_has_no_link() -> None:
    page = pb.PageThingsResponse()
    told = answer("PageThings", page, "/v1/thing-pages?cursor=x")
    assert told == ("application/json; anycloud-total-count=0", b'{"things":[]}')


@pytest.mark.parametrize("url", ['/v1/x?owner=>;"<', "/v1/x?owner=ö", "/v1/x?&&", "/v1/x"])
def test_a_link_is_a_url_whatever_the_requests_was(url: str) -> None:
    kind, _ = answer("PageThings", pb.PageThingsResponse(next_cursor="c"), url)
    link = kind.partition("; link=")[2]
    assert re.fullmatch(r"</v1/x\?(owner=[!-~]*&)?cursor=c>; rel=\"next\"", link)
    assert set('<>"') & set(link[1:-13]) == set()


def test_answers_that_are_no_page_have_no_headers_of_their_own() -> None:
    assert answer("ListThings", pb.ListThingsResponse(), "/v1/things") == ("application/json", b"[]")


def test_a_union_may_be_the_root() -> None:
    account = pb.Account(**{"lambda": {"region": "r"}})
    assert answer("GetAccount", account) == ("application/json", b'{"cloudProvider":"Lambda","region":"r"}')


def test_an_empty_message_is_an_empty_object() -> None:
    assert answer("PaintThing", empty_pb2.Empty()) == ("application/json", b"{}")


def test_a_stream_is_one_json_object_a_line() -> None:
    assert answer("FollowThing", pb.Line(text="a\nb")) == ("application/x-ndjson", b'{"text":"a\\nb"}\n')


def test_a_bad_response_reaches_the_caller_as_such() -> None:
    with pytest.raises(BadResponse):
        answer("GetThing", pb.Thing())
