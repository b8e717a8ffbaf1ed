"""Calls of the real servicers, as their server makes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import grpc
from anycloud_common import calls
from anycloud_common.calls import Call, Principal

LOCAL = Principal("local", "local", "local", owner=True)


def enter(
    principal: Principal | None = LOCAL,
    *,
    github_token: str | None = None,
    bearer: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> None:
    """Makes this the call that is being handled."""
    calls.enter(Call(principal, "request-1", github_token, bearer, None, "/test", True, headers or {}))


class Aborted(Exception):
    """What an internal method ended with."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        super().__init__(details)
        self.code = code


class Context:
    """The part of a servicer's context that handlers use."""

    async def abort(self, code: grpc.StatusCode, details: str = "", *_: Any) -> None:
        raise Aborted(code, details)
