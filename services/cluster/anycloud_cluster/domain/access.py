"""Accounts and their API tokens."""

from __future__ import annotations

import hashlib
import secrets
import string
from dataclasses import dataclass
from typing import Final

PREFIX: Final = "acapi_"
LASTING_TOKENS: Final = 10  # of one account; an exchange beyond them ends the oldest
BRIEF_MS: Final = 10 * 60_000  # life of a token that an installer takes for one question
_DIGITS: Final = string.digits + string.ascii_uppercase + string.ascii_lowercase
_LENGTH: Final = 43  # 256 random bits in base 62


@dataclass(frozen=True)
class Account:
    """A GitHub account by its number, which never changes, and the login that it had when it was last seen."""

    user_id: str
    username: str


def new_token() -> str:
    """`acapi_` and 43 characters of base 62, from 32 random bytes."""
    number, digits = int.from_bytes(secrets.token_bytes(32)), ""
    for _ in range(_LENGTH):
        number, digit = divmod(number, len(_DIGITS))
        digits += _DIGITS[digit]
    return PREFIX + digits


def digest(token: str) -> bytes:
    """What is stored of a token, and asked for."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def principal_id(user_id: str) -> str:
    return f"github:{user_id}"


def user_of(principal: str) -> str:
    return principal.removeprefix("github:")


def is_user_id(text: str) -> bool:
    return text.isascii() and text.isdigit() and not text.startswith("0")
