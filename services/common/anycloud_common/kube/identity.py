"""A connection that is meant for one cluster: it asks nothing of another one that answers at the same address."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from contextvars import ContextVar
from typing import Any

from anycloud_common.kube.errors import KubeError
from anycloud_common.kube.kinds import KINDS
from anycloud_common.kube.names import NAMESPACE_SYSTEM
from anycloud_common.kube.transport import Request, TokenSource, Transport

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
        for _ in range(_ATTEMPTS):
            with contextlib.suppress(_NewConnection):
                if self._proven:
                    return await super().call(request)
            await self._prove()
        raise _crowded(request)

    @contextlib.asynccontextmanager
    async def stream(self, request: Request, idle_s: float | None) -> AsyncIterator[AsyncIterator[bytes]]:
        async with contextlib.AsyncExitStack() as stack:
            yield await self._opened(request, idle_s, stack)

    def connecting(self) -> None:
        if not _asking.get():
            raise _NewConnection

    async def _opened(
        self, request: Request, idle_s: float | None, stack: contextlib.AsyncExitStack
    ) -> AsyncIterator[bytes]:
        for _ in range(_ATTEMPTS):
            with contextlib.suppress(_NewConnection):
                if self._proven:
                    return await stack.enter_async_context(super().stream(request, idle_s))
            await self._prove()
        raise _crowded(request)

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


def _crowded(request: Request) -> KubeError:
    text = f"{request.verb} {request.resource}: others took each connection that was made for it"
    return KubeError("unreachable", text, verb=request.verb, resource=request.resource)
