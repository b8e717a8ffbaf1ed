"""The rule that a client has the API's own version."""

from __future__ import annotations

import re

from anycloud_common.errors import ApiError

HEADER = "anycloud-client-version"
_VERSION = re.compile(r"(\d{1,9})\.(\d{1,9})\.\d{1,9}")


def check(client: str | None, api: str, *, neighbour: bool, rest: bool) -> None:
    """Raises ApiError CLIENT_VERSION_MISMATCH unless the client is served.

    HTTP callers have to say their version; native gRPC ones may leave it out. With `neighbour` a client one minor
    release apart is served too.
    """
    if client == api or (client is None and not rest) or (neighbour and client and _are_neighbours(client, api)):
        return
    told = f"The client is version {client}" if client else f"The client sends no version ({HEADER})"
    rule = "they may differ by one minor release here" if neighbour else "they must be the same"
    raise ApiError("CLIENT_VERSION_MISMATCH", f"{told} and the API is version {api}; {rule}.")


def _are_neighbours(client: str, api: str) -> bool:
    ours, theirs = _VERSION.fullmatch(api), _VERSION.fullmatch(client)
    if ours is None or theirs is None:
        return False
    return ours[1] == theirs[1] and abs(int(ours[2]) - int(theirs[2])) <= 1
