"""Ids that we issue, and the names that users may choose."""

from __future__ import annotations

import base64
import re
import secrets

_LENGTH = 12  # base32 characters: 60 random bits
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,63}")


def new(prefix: str) -> str:
    """A fresh id such as `dep-3k5v7qgxw2ma`: the prefix, `-`, and 12 characters of lowercase base32 (a-z, 2-7)."""
    return f"{prefix}-{base64.b32encode(secrets.token_bytes(8)).decode().lower()[:_LENGTH]}"


def check_name(kind: str, value: str) -> str | None:
    """What is wrong with a name chosen by a user, as one sentence, or None. `kind` is the noun in it ("Deployment").

    Uniqueness is not judged here: it needs the database.
    """
    rule = "1 to 64 characters: letters, digits and -, starting with a letter"
    if not value:
        return f"{kind} name is empty; a name has {rule}."
    if len(value) > 64:
        return f"{kind} name has {len(value)} characters; a name has {rule}."
    if not _NAME.fullmatch(value):
        return f"{kind} name {value!r} isn't allowed; a name has {rule}."
    return None
