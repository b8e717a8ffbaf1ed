"""Who is calling, and with what: the facts of one call, readable from anywhere below its handler."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Literal

LOCAL = "local"
"""Id of the one account of an installer API: whoever has its install token."""


@dataclass(frozen=True)
class Principal:
    """An account of this API. `kind` is `local` for the install token, `service` for a sibling acting by itself."""

    id: str
    name: str
    kind: Literal["local", "user", "service"]
    owner: bool = False


@dataclass(frozen=True)
class Call:
    """One call. `bearer` is set for sign-in and workload methods only, whose handlers check it themselves;
    `headers` are the lower-case text headers without the two that carry tokens."""

    principal: Principal | None
    request_id: str
    github_token: str | None = field(repr=False)
    bearer: str | None = field(repr=False)
    idempotency_key: str | None
    method: str  # gRPC path, "/package.Service/Method"
    rest: bool  # came as HTTP/JSON
    headers: Mapping[str, str] = field(repr=False)


_current: ContextVar[Call] = ContextVar("anycloud_call")


def current() -> Call:
    """The call being handled. LookupError outside of one (in a background task)."""
    return _current.get()


def peek() -> Call | None:
    """The call being handled, or None outside of one."""
    return _current.get(None)


def enter(call: Call) -> None:
    """Makes `call` the current one of this task and of the tasks that it starts."""
    _current.set(call)


def with_principal(call: Call, principal: Principal) -> Call:
    """The same call, by a caller who is known now."""
    return replace(call, principal=principal)
