from __future__ import annotations

import contextvars
import logging
import sys
from typing import Any

import orjson
import pytest
from anycloud_common import calls
from anycloud_common.calls import Call
from anycloud_common.telemetry.logs import JsonLines, mask


def line(message: str, *args: Any, **record: Any) -> dict[str, Any]:
    made = logging.LogRecord("anycloud_common.x", logging.WARNING, "f", 1, message, args, record.pop("exc_info", None))
    made.__dict__.update(record)
    parsed: dict[str, Any] = orjson.loads(JsonLines("cluster").format(made))
    return parsed


def test_a_line_has_time_level_service_event_and_fields() -> None:
    made = line("pool %s created", "p", pool="np-1", sizes=[1, 2])
    assert made.pop("time").endswith("+00:00")
    assert made == {
        "level": "warning",
        "service": "cluster",
        "event": "pool p created",
        "logger": "anycloud_common.x",
        "pool": "np-1",
        "sizes": [1, 2],
    }


def test_a_line_inside_of_a_call_has_its_request_id() -> None:
    def inside() -> dict[str, Any]:
        calls.enter(Call(None, "r-1", None, None, None, "/m", False, {}))
        return line("x")

    assert contextvars.copy_context().run(inside)["request_id"] == "r-1"
    assert "request_id" not in line("x")


def test_a_traceback_is_one_field_of_the_line() -> None:
    try:
        raise RuntimeError("boom")
    except RuntimeError:
        made = line("failed", exc_info=sys.exc_info())
    assert "RuntimeError: boom" in made["traceback"]


def test_fields_that_json_does_not_know_are_written_as_text() -> None:
    assert line("x", path=ValueError("odd"))["path"] == "odd"


JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2ln"
SECRETS = [
    ("Authorization: Bearer abc.def-123", "abc"),
    ("bearer QUJD+/=", "QUJD"),
    ("token acapi_9fKx-22", "9fKx"),
    ("ghs_sandbox_demo", "demo"),
    ("gho_1234", "1234"),
    ("ghp_1234", "1234"),
    ("github_pat_11AA_bb", "11AA"),
    (JWT, "c2ln"),
    ("K10" + "a" * 64 + "::abcdef.0123456789abcdef", "0123456789"),
    ("-----BEGIN EC PRIVATE KEY-----\nMHcCAQ\n-----END EC PRIVATE KEY-----", "MHcCAQ"),
]


@pytest.mark.parametrize(("text", "secret"), SECRETS)
def test_what_looks_like_a_credential_is_masked_wherever_it_stands(text: str, secret: str) -> None:
    assert secret not in mask(text)
    for made in (line(text), line("%s", text), line("x", field=text), line("x", nested={"a": [text]})):
        assert secret not in str(made)
    try:
        raise RuntimeError(text)
    except RuntimeError:
        assert secret not in line("x", exc_info=sys.exc_info())["traceback"]


def test_ordinary_text_is_left_alone() -> None:
    for text in ("cluster cl-3k5v7qgxw2ma", "K10", "eyJ is a prefix", "highs_and_lows"):
        assert mask(text) == text
