"""What is wrong with a request: where, which rule, and (unless it may be a secret) the value."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NoReturn

import orjson

ABSENT: Final = object()
"""No value at all; None is JSON's null."""
SHOWN_CHARACTERS = 40
SECRET_WORDS = ("key", "secret", "token", "password", "webhook")


class Invalid(Exception):
    """A request that does not have the declared shape. `str()` is the text for the client: `vmTypes[0]: must be …`."""

    def __init__(self, rule: str, *path: str | int, value: object = ABSENT) -> None:
        super().__init__(rule)
        self.rule = rule
        self.path = list(path)
        self._value = value

    def at(self, key: str | int) -> Invalid:
        """The same, seen from one level further out."""
        self.path.insert(0, key)
        return self

    def without_value(self) -> Invalid:
        self._value = ABSENT
        return self

    def __str__(self) -> str:
        where = "".join(f"[{p}]" if isinstance(p, int) else f".{cut(p)}" for p in self.path).removeprefix(".")
        what = "" if self._value is ABSENT or is_secret(self.path) else f", not {shown(self._value)}"
        return f"{where or 'body'}: {self.rule}{what}"


def is_secret(path: Iterable[str | int]) -> bool:
    """Something on the way to the value is called like a secret."""
    return any(word in key.lower() for key in path if isinstance(key, str) for word in SECRET_WORDS)


def cut(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…"


def shown(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an array"
    return orjson.dumps(cut(value) if isinstance(value, str) else value).decode()


def wrong(kind: str, value: object, *path: str | int) -> Invalid:
    return Invalid(f"must be {kind}", *path, value=value)


def refuse_unknown(given: dict[str, Any], known: Iterable[str]) -> NoReturn:
    extra = sorted(given.keys() - set(known))
    names = ", ".join(f'"{cut(key)}"' for key in extra[:5])
    raise Invalid(f"unknown {'key' if len(extra) == 1 else 'keys'} {names}")
