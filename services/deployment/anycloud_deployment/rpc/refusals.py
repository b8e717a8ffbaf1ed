"""Refusals of the rules as errors of the API."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from anycloud_common import calls
from anycloud_common.errors import ApiError
from anycloud_common.rest import Invalid

from anycloud_deployment.domain.refusal import Refusal
from anycloud_deployment.rpc.worker_messages import INVALID
from anycloud_deployment.store.events import Actor

REJECTED = "WORKLOAD_ADMISSION_REJECTED"


def rejected(message: str) -> Refusal:
    """A workload that isn't taken in."""
    return Refusal(REJECTED, message)


@contextmanager
def answered(code: str | None = None) -> Iterator[None]:
    """Raises ApiError for a Refusal inside; with `code`, every one under that code. A request of the wrong shape at an
    operation that declares no code for it is answered with an undeclared 400."""
    try:
        yield
    except Refusal as refusal:
        if refusal.code == INVALID:
            field, _, rule = refusal.message.partition(": ")
            raise Invalid(rule, field) from None
        raise ApiError(code or refusal.code, refusal.message) from None


def actor() -> Actor:
    """Who makes the call at hand."""
    call = calls.current()
    assert call.principal is not None, "the interceptor lets nobody in without a principal"
    return Actor(call.principal.id, call.request_id)
