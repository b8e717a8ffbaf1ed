"""Channels to sibling services: each call says who asks and for whom, and has a deadline."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import grpc

from anycloud_common import calls
from anycloud_common.server.gate import BUILD, CALLER, PRINCIPAL, REQUEST_ID

DEADLINE = 5.0
MESSAGE_BYTES = 16 << 20

_OPTIONS = [
    ("grpc.max_receive_message_length", MESSAGE_BYTES),
    ("grpc.max_send_message_length", MESSAGE_BYTES),
    # A sibling that restarts is back within a second: look for it that often.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
]


def to_sibling(socket: Path, caller: str, build: str) -> grpc.aio.Channel:
    """Unary calls without a timeout of their own get 5 s; streams have none but their own."""
    stamp = _Stamp(caller, build)
    return grpc.aio.insecure_channel(f"unix:{socket}", options=_OPTIONS, interceptors=stamp.interceptors())


class _Stamp:
    def __init__(self, caller: str, build: str) -> None:
        self._fixed = ((CALLER, caller), (BUILD, build))

    def interceptors(self) -> Sequence[grpc.aio.ClientInterceptor]:
        return [_UnaryUnary(self), _UnaryStream(self), _StreamUnary(self), _StreamStream(self)]

    def details(self, given: Any, deadline: float | None) -> Any:
        metadata = grpc.aio.Metadata(*(given.metadata or ()), *self._fixed, *_of_call())
        timeout = deadline if given.timeout is None else given.timeout
        return grpc.aio.ClientCallDetails(given.method, timeout, metadata, given.credentials, given.wait_for_ready)


def _of_call() -> Sequence[tuple[str, str]]:
    call = calls.peek()
    if call is None:
        return ()
    if call.principal is None or call.principal.kind == "service":
        return ((REQUEST_ID, call.request_id),)
    return ((REQUEST_ID, call.request_id), (PRINCIPAL, call.principal.id))


class _UnaryUnary(grpc.aio.UnaryUnaryClientInterceptor):
    def __init__(self, stamp: _Stamp) -> None:
        self._stamp = stamp

    async def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        return await continuation(self._stamp.details(client_call_details, DEADLINE), request)


class _UnaryStream(grpc.aio.UnaryStreamClientInterceptor):
    def __init__(self, stamp: _Stamp) -> None:
        self._stamp = stamp

    async def intercept_unary_stream(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        return await continuation(self._stamp.details(client_call_details, None), request)


class _StreamUnary(grpc.aio.StreamUnaryClientInterceptor):
    def __init__(self, stamp: _Stamp) -> None:
        self._stamp = stamp

    async def intercept_stream_unary(self, continuation: Any, client_call_details: Any, request_iterator: Any) -> Any:
        return await continuation(self._stamp.details(client_call_details, None), request_iterator)


class _StreamStream(grpc.aio.StreamStreamClientInterceptor):
    def __init__(self, stamp: _Stamp) -> None:
        self._stamp = stamp

    async def intercept_stream_stream(self, continuation: Any, client_call_details: Any, request_iterator: Any) -> Any:
        return await continuation(self._stamp.details(client_call_details, None), request_iterator)
