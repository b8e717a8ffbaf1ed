"""Lets a call in: finds out who calls, or says why not, before anything of the request is read."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from typing import Protocol

from anycloud_common.calls import LOCAL, Call, Principal
from anycloud_common.clock import Clock
from anycloud_common.errors import ApiError
from anycloud_common.server import version
from anycloud_common.server.delays import FailureDelays
from anycloud_common.server.policy import Policy
from anycloud_common.telemetry import metrics

log = logging.getLogger(__name__)

CALLER = "anycloud-caller"
PRINCIPAL = "anycloud-principal"
REQUEST_ID = "anycloud-request-id"
BUILD = "anycloud-build"
GITHUB_TOKEN = "anycloud-github-token"  # noqa: S105 - a header's name
REST_MARK = "x-envoy-original-path"  # set by Envoy's transcoder, and stripped from outside callers
_SECRET_HEADERS = {"authorization", GITHUB_TOKEN}

Metadata = Mapping[str, str]


class Authenticator(Protocol):
    """Tells who holds a token of this API."""

    async def user(self, token: str) -> Principal:
        """Raises ApiError UNAUTHORIZED or AUTHENTICATION_UNAVAILABLE."""
        ...


class UnknownCallerError(Exception):
    """An internal method was called without the metadata that siblings send."""


class Gate:
    """`authenticator` is None until the service sets one; then its user methods answer AUTHENTICATION_UNAVAILABLE."""

    def __init__(self, api_version: str, clock: Clock) -> None:
        self.authenticator: Authenticator | None = None
        self._api_version = api_version
        self._clock = clock
        self._delays = FailureDelays(clock)

    def read(self, policy: Policy, metadata: Metadata) -> Call:
        """The call as its headers tell it, without a principal and before any check."""
        wants_bearer = policy.access in ("workload", "sign-in")
        return Call(
            principal=None,
            request_id=metadata.get("x-request-id") or metadata.get(REQUEST_ID) or str(uuid.uuid4()),
            github_token=metadata.get(GITHUB_TOKEN),
            bearer=bearer(metadata) if wants_bearer else None,
            idempotency_key=metadata.get("idempotency-key"),
            method=policy.path,
            rest=REST_MARK in metadata,
            headers={key: value for key, value in metadata.items() if key not in _SECRET_HEADERS},
        )

    async def principal(self, policy: Policy, call: Call, metadata: Metadata) -> Principal | None:
        """Checks the caller by the method's access class and client version; None where the handler checks the bearer.

        Raises ApiError or UnknownCallerError.
        """
        if policy.access == "internal":
            return _sibling(metadata)
        who = None
        if policy.access == "user":
            who = await self._user(bearer(metadata))
        elif call.bearer is None:
            raise _no_bearer(policy)
        if policy.access != "workload":
            header = metadata.get(version.HEADER)
            version.check(header, self._api_version, neighbour=policy.neighbour, rest=call.rest)
        return who

    async def refused(self, policy: Policy, metadata: Metadata, peer: str) -> None:
        """Notes an answer of 401, and holds it back when its source has had many. Never for a valid token."""
        address = source(metadata, peer)
        wait = self._delays.failed(address)
        metrics.TOKEN_REFUSALS.inc()
        log.warning("bearer refused", extra={"method": policy.path, "source": address, "delay_s": wait})
        if wait:
            await self._clock.sleep(wait)

    async def _user(self, token: str | None) -> Principal:
        if token is None:
            raise ApiError("UNAUTHORIZED", "This call needs `Authorization: Bearer <token>`.")
        if self.authenticator is None:
            raise ApiError("AUTHENTICATION_UNAVAILABLE", "This API can't check tokens yet; try again in a moment.")
        return await self.authenticator.user(token)


def bearer(metadata: Metadata) -> str | None:
    """The token of the authorization header, or None."""
    scheme, _, token = metadata.get("authorization", "").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


def source(metadata: Metadata, peer: str) -> str:
    """Address of who called. The last one of x-forwarded-for was written by our own Envoy, the others by anybody."""
    return metadata.get("x-forwarded-for", "").rpartition(",")[2].strip() or peer


def _no_bearer(policy: Policy) -> ApiError:
    if policy.access == "workload":
        return ApiError("WORKLOAD_UNAUTHORIZED", "This call needs the workload token as bearer.")
    return ApiError("UNAUTHORIZED", "This call needs a GitHub sign-in: `Authorization: Bearer <GitHub token>`.")


def _sibling(metadata: Metadata) -> Principal:
    caller = metadata.get(CALLER)
    if not caller:
        raise UnknownCallerError
    behalf = metadata.get(PRINCIPAL)
    if not behalf:
        return Principal(caller, caller, "service")
    return Principal(behalf, behalf, "local" if behalf == LOCAL else "user")
