"""Unions in requests: by tag, and by keys."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from tests.unit.rest.shapes import CODEC, pb, refusal, request

CHOICE = "one of AWS, Lambda, local"


def account(**keys: Any) -> bytes:
    return orjson.dumps({"name": "n", "maxVmCount": 0, "account": keys})


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (
            {"cloudProvider": "AWS", "accessKeyId": "a", "secretAccessKey": "s", "label": "l"},
            {"label": "l", "aws": {"access_key_id": "a", "secret_access_key": "s"}},
        ),
        ({"cloudProvider": "Lambda", "region": "r"}, {"lambda": {"region": "r"}}),
        ({"cloudProvider": "local"}, {"local": {}}),
    ],
)
def test_the_tag_chooses_the_member(keys: dict[str, Any], expected: dict[str, Any]) -> None:
    assert request("CreateThing", account(**keys)).thing.account == pb.Account(**expected)


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({}, f"account.cloudProvider: is required: {CHOICE}"),
        ({"cloudProvider": "aws"}, f'account.cloudProvider: must be {CHOICE}, not "aws"'),
        ({"cloudProvider": None}, f"account.cloudProvider: must be {CHOICE}, not null"),
        ({"cloudProvider": "AWS", "accessKeyId": "a"}, "account.secretAccessKey: is required"),
        ({"cloudProvider": "local", "region": "r"}, 'account: unknown key "region"'),
    ],
)
def test_a_wrong_tag_or_a_key_of_another_member_is_refused(keys: dict[str, Any], text: str) -> None:
    assert refusal("CreateThing", account(**keys)) == text


def test_an_open_object_around_a_union_ignores_unknown_keys() -> None:
    decode = CODEC.decoder(pb.OpenAccount.DESCRIPTOR)
    assert decode({"kind": "lambda", "region": "r", "other": 1}) == {"lambda": {"region": "r"}}


def test_keys_choose_the_member_of_an_untagged_union() -> None:
    assert request("SubmitTarget", b'{"id":"i","deployment":"d","timeout":5}') == pb.Target(
        id="i", deployment_target={"deployment": "d", "timeout": 5}
    )
    assert request("SubmitTarget", b'{"image":"i","config":{"vmType":["a"]}}') == pb.Target(
        image_target={"image": "i", "config": {"vm_type": {"many": {"values": ["a"]}}}}
    )


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"{}", "body: needs one of the keys deployment, image"),
        (b'{"deployment":"d","image":"i"}', "body: the keys deployment and image exclude each other"),
        (b'{"image":"i"}', "config: is required"),
        (b'{"deployment":"d","config":{}}', "body: the keys deployment and config exclude each other"),
        (b'{"image":"i","config":{},"timeout":1}', 'body: unknown key "timeout"'),
        (b'{"image":"i","config":{"vmType":5}}', "config.vmType: must be a string or an array, not 5"),
        (b"[]", "body: must be an object, not an array"),
    ],
)
def test_keys_of_no_member_or_of_two_are_refused(body: bytes, text: str) -> None:
    assert refusal("SubmitTarget", body) == text
