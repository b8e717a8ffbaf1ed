"""Who asked for something, for records."""

from __future__ import annotations

from dataclasses import dataclass

from anycloud_common import calls


@dataclass(frozen=True)
class Actor:
    id: str
    request_id: str | None


def actor() -> Actor:
    call = calls.peek()
    if call is None:
        return Actor("system", None)
    return Actor(call.principal.id if call.principal else "system", call.request_id)
