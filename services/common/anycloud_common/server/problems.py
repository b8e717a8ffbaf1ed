"""Turns whatever a handler raised into the answer that its method may give."""

from __future__ import annotations

import logging

import grpc

from anycloud_common.errors import INTERNAL, ApiError, NotAvailable, Problem, invalid_request, not_available
from anycloud_common.rest import Invalid
from anycloud_common.server.gate import UnknownCallerError
from anycloud_common.server.policy import Policy

log = logging.getLogger(__name__)

_TRY_AGAIN = "The API can't take this request right now; try again in a moment."
_RESTARTING = "The API is restarting; try again in a moment."
_ABSENT_SIBLING = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}
_CALLER_UNKNOWN = Problem(
    "CALLER_UNKNOWN", False, "internal methods are for sibling services", 401, grpc.StatusCode.UNAUTHENTICATED.value[0]
)


def problem_of(error: Exception, policy: Policy) -> Problem:
    """Never fails, and never gives out the text of an exception that wasn't written for clients."""
    if isinstance(error, ApiError):
        return _declared(error, policy)
    if isinstance(error, Invalid):
        return _misshapen(error, policy)
    if isinstance(error, NotAvailable):
        return not_available(str(error))
    if isinstance(error, UnknownCallerError):
        return _CALLER_UNKNOWN
    if _is_unavailable(error):
        log.warning("call not possible now", extra={"method": policy.path, "reason": _reason(error)})
        return Problem.of(ApiError(policy.unavailable, _TRY_AGAIN))
    log.error("unexpected error", exc_info=error, extra={"method": policy.path})
    return INTERNAL


def restarting(policy: Policy) -> Problem:
    """The end of a stream when its process stops."""
    return Problem.of(ApiError(policy.unavailable, _RESTARTING))


def _declared(error: ApiError, policy: Policy) -> Problem:
    defined = policy.declares is None or error.code in policy.declares
    if not defined:
        log.error("the method doesn't declare this error", exc_info=error, extra={"method": policy.path})
    return Problem.of(error, defined)


def _misshapen(error: Invalid, policy: Policy) -> Problem:
    violations = ((".".join(map(str, error.path)), error.rule),)
    if not policy.invalid:
        return invalid_request(str(error), violations)
    return Problem.of(ApiError(policy.invalid, str(error)), violations=violations)


def _is_unavailable(error: Exception) -> bool:
    """The store says so by a class attribute; a sibling that is away or late by its status."""
    if isinstance(error, grpc.aio.AioRpcError):
        return error.code() in _ABSENT_SIBLING
    return getattr(error, "unavailable", False) is True


def _reason(error: Exception) -> str:
    if isinstance(error, grpc.aio.AioRpcError):
        return f"{error.code().name}: {error.details()}"
    return f"{type(error).__name__}: {error}"
