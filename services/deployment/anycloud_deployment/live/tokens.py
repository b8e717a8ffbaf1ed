"""Who holds a workload token, by the cluster's word: remembered for seconds, and asked anew for each pickup."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import OrderedDict
from dataclasses import dataclass

from anycloud_common.clock import Clock
from anycloud_common.kube import KubeError

from anycloud_deployment.domain import ports
from anycloud_deployment.domain.refusal import Refusal

KEPT_S = 10.0
_TOKENS = 8192

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Bearer:
    """A Pod that showed its token, with the ServiceAccount that the token is of."""

    namespace: str
    service_account: str
    pod_uid: str


class TokenReviews:
    """Verdicts by token hash. Both questions raise Refusal: WORKLOAD_UNAUTHORIZED and WORKLOAD_FORBIDDEN on the
    cluster's own answer only, WORKLOAD_UNAVAILABLE when it gives none."""

    def __init__(self, tokens: ports.Tokens, clock: Clock) -> None:
        self._tokens = tokens
        self._clock = clock
        self._kept: OrderedDict[bytes, tuple[float, ports.Holder | None]] = OrderedDict()
        self._flights: dict[bytes, asyncio.Task[ports.Holder | None]] = {}

    async def recent(self, token: str) -> Bearer:
        """A verdict that is at most 10 s old. Callers with one token share one question."""
        digest = _digest(token)
        until, holder = self._kept.get(digest, (0.0, None))
        if self._clock.monotonic() >= until:
            holder = await self._shared(digest, token)
        return _bearer(holder)

    async def fresh(self, token: str) -> Bearer:
        """A verdict that was asked for after this call began."""
        return _bearer(await self._ask(_digest(token), token))

    async def _shared(self, digest: bytes, token: str) -> ports.Holder | None:
        flight = self._flights.get(digest)
        if flight is None:
            flight = self._flights[digest] = asyncio.create_task(self._ask(digest, token))
            flight.add_done_callback(lambda done: self._landed(digest, done))
        return await asyncio.shield(flight)  # a caller that leaves must not take the others' answer along

    def _landed(self, digest: bytes, flight: asyncio.Task[ports.Holder | None]) -> None:
        del self._flights[digest]
        if not flight.cancelled():
            flight.exception()  # each caller has had it

    async def _ask(self, digest: bytes, token: str) -> ports.Holder | None:
        asked_at = self._clock.monotonic()
        try:
            # The API server says no, word by word the same, when it couldn't look up the account or the Pod in time.
            holder = await self._tokens.review(token) or await self._tokens.review(token)
        except KubeError as error:
            log.warning("a workload token can't be reviewed", extra={"reason": str(error)})
            text = "The cluster can't be asked about workload tokens right now; try again in a moment."
            raise Refusal("WORKLOAD_UNAVAILABLE", text) from None
        self._kept[digest] = (asked_at + KEPT_S, holder)
        self._kept.move_to_end(digest)
        if len(self._kept) > _TOKENS:
            self._kept.popitem(last=False)
        return holder


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def _bearer(holder: ports.Holder | None) -> Bearer:
    if holder is None:
        raise Refusal("WORKLOAD_UNAUTHORIZED", "The cluster doesn't accept this workload token.")
    if holder.pod_uid is None:
        raise Refusal("WORKLOAD_FORBIDDEN", "This token isn't bound to a Pod.")
    return Bearer(holder.namespace, holder.service_account, holder.pod_uid)
