"""How an admission can fail."""

from __future__ import annotations


class Refused(Exception):
    """The parent's service decided against it. `code` and `message` are the parent's own."""

    def __init__(self, parent_kind: str, parent_id: str, code: str, message: str) -> None:
        super().__init__(message)
        self.parent_kind = parent_kind
        self.parent_id = parent_id
        self.code = code
        self.message = message


class HoldsUnavailable(Exception):
    """The parent's service gave no answer: whether it took or released the holds is unknown."""

    unavailable = True  # the server answers it with the operation's declared 503


class Conflict(Exception):
    """The admission is no longer pending, or its owner is another revision than it was made for."""
