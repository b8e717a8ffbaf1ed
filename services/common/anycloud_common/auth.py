"""Who holds an API token: asked of whoever knows, and remembered for seconds."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from anycloud_common.calls import Principal
from anycloud_common.clock import Clock
from anycloud_common.errors import ApiError

log = logging.getLogger(__name__)

KEPT = 10.0  # seconds that a verdict is used
_TOKENS = 4096

Introspect = Callable[[bytes], Awaitable[Principal | None]]


class TokenAuthenticator:
    """Checks tokens through `introspect`, which is given the SHA-256 of the token and answers None for an unknown one.

    A verdict is kept for 10 s at most, of at most 4096 tokens; only their hashes are. Callers with one token share one
    question. Tokens are looked up by hash, so no comparison takes longer for a better guess.
    """

    def __init__(self, introspect: Introspect, clock: Clock) -> None:
        self._introspect = introspect
        self._clock = clock
        self._known: OrderedDict[bytes, tuple[float, Principal]] = OrderedDict()
        self._flights: dict[bytes, asyncio.Task[Principal | None]] = {}

    async def user(self, token: str) -> Principal:
        """Raises ApiError UNAUTHORIZED, or AUTHENTICATION_UNAVAILABLE when nobody could be asked."""
        digest = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        principal = self._remembered(digest) or await self._asked(digest)
        if principal is None:
            raise ApiError("UNAUTHORIZED", "This token isn't known to the API, or isn't valid any more.")
        return principal

    def drop(self, digest: bytes) -> None:
        """Forgets a token that was rotated or revoked, and the answer to a question that is under way."""
        self._known.pop(digest, None)
        self._flights.pop(digest, None)

    def forget(self) -> None:
        """Forgets all tokens; each is asked for again."""
        self._known.clear()
        self._flights.clear()

    def _remembered(self, digest: bytes) -> Principal | None:
        kept_until, principal = self._known.get(digest, (0.0, None))
        return principal if self._clock.monotonic() < kept_until else None

    async def _asked(self, digest: bytes) -> Principal | None:
        flight = self._flights.get(digest)
        if flight is None:
            flight = self._flights[digest] = asyncio.create_task(self._ask(digest))
        try:
            return await asyncio.shield(flight)  # a caller that leaves must not take the others' answer along
        except Exception as error:
            log.warning("a token can't be checked", extra={"reason": f"{type(error).__name__}: {error}"})
            text = "The API can't check tokens right now; try again in a moment."
            raise ApiError("AUTHENTICATION_UNAVAILABLE", text) from None

    async def _ask(self, digest: bytes) -> Principal | None:
        asked_at = self._clock.monotonic()
        flight = asyncio.current_task()
        try:
            principal = await self._introspect(digest)
            if principal is not None and self._flights.get(digest) is flight:
                self._remember(digest, asked_at + KEPT, principal)
            return principal
        finally:
            if self._flights.get(digest) is flight:
                del self._flights[digest]

    def _remember(self, digest: bytes, until: float, principal: Principal) -> None:
        self._known[digest] = (until, principal)
        self._known.move_to_end(digest)
        if len(self._known) > _TOKENS:
            self._known.popitem(last=False)
