"""Names and tokens that are issued, each never twice: the incarnation of the database is part of all of them."""

from __future__ import annotations

import re
import secrets
import string
from typing import Final

from anycloud_common import ids

_ISSUED: Final = re.compile(r"(np-[a-z2-7]{12})-[0-9]+-[0-9a-z]+")
_TOKEN_CHARACTERS: Final = string.ascii_lowercase + string.digits


def pool_id() -> str:
    return ids.new("np")


def attempt_id(number: int, incarnation: str) -> str:
    """Such as `at-17-5e2a90c1`: numbers are in the order of issue."""
    return f"at-{number}-{incarnation}"


def node_name(pool: str, number: int, incarnation: str) -> str:
    """Name of an attempt's VM and of its Node."""
    return f"{pool}-{number}-{incarnation}"


def pool_of_node(name: str) -> str | None:
    """The pool that a Node's name was issued for, if it looks like one of ours."""
    match = _ISSUED.fullmatch(name)
    return match[1] if match else None


def network_token(pool: str, incarnation: str) -> str:
    return f"{pool}-network-{incarnation}"


def pool_of_network(token: str) -> str | None:
    """The pool of a token that `network_token` made."""
    pool, separator, _ = token.partition("-network-")
    return pool if separator else None


def token_id() -> str:
    """Public half of a bootstrap token."""
    return _random(6)


def token_secret() -> str:
    """Secret half of a bootstrap token: 82 random bits."""
    return _random(16)


def _random(length: int) -> str:
    return "".join(secrets.choice(_TOKEN_CHARACTERS) for _ in range(length))
