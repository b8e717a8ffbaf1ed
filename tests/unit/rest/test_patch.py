"""PATCH: absent, null and empty are three different things."""

from __future__ import annotations

import pytest

from tests.unit.rest.shapes import pb, refusal, request


@pytest.mark.parametrize(
    ("body", "mask", "docker_options"),
    [
        (b"{}", [], False),
        (b'{"dockerOptions":null}', ["docker_options"], False),
        (b'{"dockerOptions":{}}', [], True),
        (b'{"dockerOptions":{"memory":null}}', ["docker_options.memory"], True),
        (b'{"dockerOptions":{"cpus":"7","binds":[]}}', ["docker_options.cpus", "docker_options.binds"], True),
        (b'{"command":null}', ["command"], False),
        (b'{"command":[]}', ["command"], False),
        (b'{"env":null}', ["env"], False),
        (b'{"env":{}}', ["env"], False),
        (b'{"probe":{"seconds":1},"image":"i"}', ["probe", "image"], False),
    ],
)
def test_the_mask_names_what_the_body_speaks_of(body: bytes, mask: list[str], docker_options: bool) -> None:
    made = request("UpdateThing", body, id="t1")
    assert made.HasField("update_mask")  # a native client's message without mask means something else
    assert list(made.update_mask.paths) == mask
    assert made.thing.HasField("docker_options") is docker_options


def test_null_clears_a_list_and_an_empty_one_sets_it() -> None:
    assert not request("UpdateThing", b'{"command":null}', id="t1").thing.HasField("command")
    assert request("UpdateThing", b'{"command":[]}', id="t1").thing.HasField("command")


def test_given_values_reach_the_message() -> None:
    made = request("UpdateThing", b'{"dockerOptions":{"cpus":"7","binds":["/a"]},"replicas":2}', id="t1")
    assert made.id == "t1"
    assert made.thing == pb.Change(docker_options={"cpus": "7", "binds": ["/a"]}, replicas=2)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b'{"replicas":null}', "replicas: must be an integer of at least 1, not null"),
        (b'{"replicas":0}', "replicas: must be an integer of at least 1, not 0"),
        (b'{"image":""}', "image: must have at least 1 character"),
        (b'{"dockerOptions":[]}', "dockerOptions: must be an object, not an array"),
        (b'{"dockerOptions":{"ipc":"host"}}', 'dockerOptions: unknown key "ipc"'),
        (b'{"dockerOptions":{"cpus":7}}', "dockerOptions.cpus: must be a string, not 7"),
        (b'{"probe":{}}', "probe.seconds: is required"),
        (b'{"id":"other"}', 'body: unknown key "id"'),
        (b"", "body: a JSON object is required"),
        (b"[]", "body: must be an object, not an array"),
    ],
)
def test_a_patch_obeys_the_rules_of_its_fields(body: bytes, text: str) -> None:
    assert refusal("UpdateThing", body, id="t1") == text
