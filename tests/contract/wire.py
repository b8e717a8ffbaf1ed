"""HTTP exchanges as tables: what is sent, and what has to come back, byte for byte where that matters.

An expected answer is JSON with these words in it:

    $name               a value that an earlier step kept, or that the world gives
    <time> <integer> <number> <string> <boolean> <uuid> <anything>, with ? for "or null"
    …part…              a text with this part in it (also …part and part…)
    [<each>, pattern]   a list, not empty, of which every element fits
    …: …                as a key: other keys may be there too; without it, an object has exactly these keys
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import httpx

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_VARIABLE = re.compile(r"\$(\w+)")
_MORE = "…"
_EACH = "<each>"
_FIRST_MS, _LAST_MS = 1_700_000_000_000, 4_000_000_000_000  # anything else isn't a time in milliseconds


def _is_integer(value: Any) -> bool:
    return type(value) is int and abs(value) < 2**53


_KINDS: dict[str, Callable[[Any], bool]] = {
    "<time>": lambda value: _is_integer(value) and _FIRST_MS < value < _LAST_MS,
    "<integer>": _is_integer,
    "<number>": lambda value: type(value) in (int, float),
    "<string>": lambda value: isinstance(value, str) and value != "",
    "<boolean>": lambda value: isinstance(value, bool),
    "<uuid>": lambda value: isinstance(value, str) and _UUID.fullmatch(value) is not None,
    "<anything>": lambda value: True,
}


def filled(template: Any, values: Mapping[str, Any]) -> Any:
    """The template with the values of its variables; a text that is one variable alone keeps the value's type."""
    if isinstance(template, str):
        whole = _VARIABLE.fullmatch(template)
        if whole:
            return values[whole[1]]
        return _VARIABLE.sub(lambda found: str(values[found[1]]), template)
    if isinstance(template, list):
        return [filled(item, values) for item in template]
    if isinstance(template, dict):
        return {name: filled(item, values) for name, item in template.items()}
    return template


def check(expected: Any, actual: Any, where: str = "answer") -> None:
    """Raises AssertionError that says where the two differ."""
    if isinstance(expected, dict):
        _check_object(expected, actual, where)
    elif isinstance(expected, list):
        _check_list(expected, actual, where)
    elif not _fits(expected, actual):
        raise AssertionError(f"{where} is {actual!r}, not {expected!r}")


def _fits(expected: Any, actual: Any) -> bool:
    if not isinstance(expected, str):
        return type(expected) is type(actual) and bool(expected == actual)
    if expected.endswith("?>"):
        return actual is None or _fits(expected[:-2] + ">", actual)
    if expected in _KINDS:
        return _KINDS[expected](actual)
    if _MORE in (expected[:1], expected[-1:]):
        pattern = ".*".join(re.escape(part) for part in expected.split(_MORE))
        return isinstance(actual, str) and re.fullmatch(pattern, actual, re.DOTALL) is not None
    return bool(expected == actual)


def _check_object(expected: dict[str, Any], actual: Any, where: str) -> None:
    assert isinstance(actual, dict), f"{where} is {actual!r}, not an object"
    wanted = set(expected) - {_MORE}
    missing = sorted(wanted - set(actual))
    assert not missing, f"{where} lacks {', '.join(missing)}"
    extra = sorted(set(actual) - wanted)
    assert not extra or _MORE in expected, f"{where} has {', '.join(extra)} beyond what is expected"
    for name in wanted:
        check(expected[name], actual[name], f"{where}.{name}")


def _check_list(expected: list[Any], actual: Any, where: str) -> None:
    assert isinstance(actual, list), f"{where} is {actual!r}, not a list"
    if expected[:1] == [_EACH]:
        assert actual, f"{where} is empty"
        expected = [expected[1]] * len(actual)
    assert len(expected) == len(actual), f"{where} has {len(actual)} elements, not {len(expected)}: {actual!r}"
    for number, (one, other) in enumerate(zip(expected, actual, strict=True)):
        check(one, other, f"{where}[{number}]")


def error(code: str, status: int, says: str = "<string>", *, defined: bool = True, data: Any = None) -> dict[str, Any]:
    """The one form of all errors."""
    body = {"code": code, "defined": defined, "message": says, "status": status}
    return body if data is None else {**body, "data": data}


def check_form(answer: httpx.Response) -> None:
    """What holds for every answer: its id, its type, and no trace of the gRPC behind it."""
    assert answer.headers.get("x-request-id"), "no x-request-id"
    grpc = [name for name in answer.headers if name.startswith(("grpc-", "x-envoy-"))]
    assert not grpc, f"headers of the gateway's inside: {grpc}"
    if answer.status_code == 204 or answer.request.method == "HEAD":
        assert not answer.content
    if answer.status_code == 204:
        assert "content-type" not in answer.headers
        assert "content-length" not in answer.headers
    elif answer.request.method != "HEAD":
        assert answer.headers["content-type"] in ("application/json", "application/x-ndjson"), answer.headers


def check_refused(answer: httpx.Response, status: int, *codes: str, defined: bool | None = True) -> str:
    """A refusal in the one form of all errors, with one of these codes; its message. `defined` None: either."""
    check_form(answer)
    assert answer.status_code == status, f"{answer.status_code} {answer.text}"
    body = answer.json()
    check(error("<string>", status, defined=body.get("defined") if defined is None else defined), body)
    assert body["code"] in codes, body
    return str(body["message"])
