"""How the rules say no."""

from __future__ import annotations


class Refusal(Exception):
    """A request that isn't carried out: `code` is the wire spelling of a declared error, `message` one sentence."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def invalid(message: str) -> Refusal:
    """A node pool that can't be as asked."""
    return Refusal("NODE_POOL_INVALID", message)
