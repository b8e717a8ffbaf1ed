"""The two forms in which a call reaches its handler: native gRPC, and HTTP/JSON through Envoy's transcoder.

Both are bytes in, bytes out towards gRPC: decoding and encoding run inside the call, once the caller is known and while
an error can still choose the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import grpc
from google.protobuf.message import DecodeError, Message

from anycloud_common.errors import STATUS_DETAILS, Problem
from anycloud_common.rest import NDJSON, Binding, Invalid, http_body
from anycloud_common.server.shape import Check

_STATUS = {code.value[0]: code for code in grpc.StatusCode}


class Form(Protocol):
    name: str
    nothing: bytes | None
    """What a response stream without a message is told as, if anything."""

    def decode(self, raw: bytes) -> Message:
        """Raises Invalid."""
        ...

    def variables(self, raw: bytes) -> Mapping[str, str]:
        """Path variables, by the names of their fields, of a request that can't be decoded: those that can be read."""
        ...

    def encode(self, message: Any, url: str) -> bytes:
        """`url` is the path and query of an HTTP request."""
        ...

    async def refuse(self, context: Any, problem: Problem, sent: bool) -> bytes:
        """The answer to a call that failed. `sent`: a message of the response stream is out already."""
        ...


class Native:
    """Native gRPC. A refusal ends the call with google.rpc.Status among its trailers, so it gives nothing to send."""

    name = "grpc"
    nothing: bytes | None = None

    def __init__(self, handler: Any, check: Check | None, variables: frozenset[str]) -> None:
        """`check` is None for internal methods: siblings are built from one source. `variables`: the fields that HTTP
        callers give in the path."""
        self._parse = handler.request_deserializer
        self._check = check
        self._variables = variables
        self._serialize = handler.response_serializer

    def decode(self, raw: bytes) -> Message:
        try:
            message: Message = self._parse(raw)
        except DecodeError:
            raise Invalid("must be an encoded message of the method's request type") from None
        if self._check is not None:
            self._check(message)
        return message

    def variables(self, raw: bytes) -> Mapping[str, str]:
        try:
            message = self._parse(raw)
        except DecodeError:
            return {}
        return {name: str(getattr(message, name)) for name in self._variables}

    def encode(self, message: Any, url: str) -> bytes:
        serialized: bytes = self._serialize(message)
        return serialized

    async def refuse(self, context: Any, problem: Problem, sent: bool) -> bytes:
        details = problem.to_status().SerializeToString()
        await context.abort(_STATUS[problem.grpc], problem.message, ((STATUS_DETAILS, details),))
        raise AssertionError("abort returned")


class Rest:
    """HTTP/JSON. A refusal is an ordinary body with another HTTP status, which the gateway's filter sets; on a stream
    that has begun it is a last line, as the status is out."""

    name = "rest"
    nothing: bytes | None = http_body(b"", NDJSON)  # of no message at all the gateway makes another type

    def __init__(self, binding: Binding) -> None:
        self.decode = binding.decode
        self.variables = binding.variables
        self.encode = binding.encode

    async def refuse(self, context: Any, problem: Problem, sent: bool) -> bytes:
        if sent:
            return http_body(b'{"error":' + problem.to_json() + b"}\n", NDJSON)
        return http_body(problem.to_json(), status=problem.http)
