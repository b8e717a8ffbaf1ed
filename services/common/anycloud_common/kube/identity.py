"""A connection that is meant for one cluster: it asks nothing of another one that answers at the same address."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from functools import partial
from typing import Any, TypeVar

from anycloud_common.kube.errors import KubeError
from anycloud_common.kube.kinds import KINDS
from anycloud_common.kube.names import NAMESPACE_SYSTEM
from anycloud_common.kube.transport import Request, TokenSource, Transport

T = TypeVar("T")
_KIND = KINDS["Namespace"]
_PATH = _KIND.path(name=NAMESPACE_SYSTEM)
_ATTEMPTS = 32  # to get hold of a connection among requests that look for one too

_asking: ContextVar[bool] = ContextVar("asking", default=False)


class _NewConnection(Exception):
    """The request would open a connection that nobody has looked at yet. It was not sent."""


def who_are_you() -> Request:
    """A cluster's identity is the UID of its Namespace kube-system."""
    return Request("get", _KIND.resource, "GET", _PATH)


class BoundTransport(Transport):
    """Compares the cluster's identity on each TCP connection, before anything else goes over it.

    KubeError(auth) while another cluster answers."""

    def __init__(self, identity: str, endpoint: str, ca_pem: str, token: TokenSource, deadline_s: float) -> None:
        super().__init__(endpoint, ca_pem, token, deadline_s)
        self._identity = identity
        self._proven = False  # by the last answer: an idle connection may have been made to somebody else

    async def call(self, request: Request) -> dict[str, Any]:
        if request == who_are_you():
            return await self._ask()
        return await self._when_proven(request, partial(super().call, request))

    @contextlib.asynccontextmanager
    async def stream(self, request: Request, idle_s: float | None) -> AsyncIterator[AsyncIterator[bytes]]:
        open_stream = super().stream
        async with contextlib.AsyncExitStack() as stack:
            yield await self._when_proven(request, lambda: stack.enter_async_context(open_stream(request, idle_s)))

    def connecting(self) -> None:
        if not _asking.get():
            raise _NewConnection

    async def _when_proven(self, request: Request, send: Callable[[], Awaitable[T]]) -> T:
        """Sends it over a connection that was looked at, as often as it takes to get hold of one."""
        for _ in range(_ATTEMPTS):
            with contextlib.suppress(_NewConnection):
                if self._proven:
                    return await send()
            await self._prove()
        text = f"{request.verb} {request.resource}: others took each connection that was made for it"
        raise KubeError("unreachable", text, verb=request.verb, resource=request.resource)

    async def _prove(self) -> None:
        """Leaves a connection to the right cluster for the next request."""
        self._proven = False
        found = (await self._ask())["metadata"]["uid"]
        self._proven = found == self._identity
        if not self._proven:
            text = f"another cluster answers: its kube-system UID is {found}, and {self._identity} is recorded"
            raise KubeError("auth", text, verb="get", resource=_KIND.resource)

    async def _ask(self) -> dict[str, Any]:
        """The only question that may open a connection."""
        token = _asking.set(True)
        try:
            return await super().call(who_are_you())
        finally:
            _asking.reset(token)
