"""Declared errors: one exception for handlers, one table made from the error enum, and the two forms that an error
answer takes: `google.rpc.Status` for gRPC clients, a JSON object for HTTP ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import grpc
import orjson
from anycloudapi.common.v1 import errors_pb2
from anycloudapi.rest.v1 import options_pb2 as rest
from google.protobuf import any_pb2, message_factory
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from anycloud_common.rest.codec import Codec

DOMAIN: Final = "anycloud.sh"
STATUS_DETAILS: Final = "grpc-status-details-bin"

_CODEC = Codec()
_POOL = errors_pb2.DESCRIPTOR.pool


@dataclass(frozen=True)
class Declared:
    """What the error enum says about one code. `data` is the full name of its data message, or empty."""

    code: str
    http: int
    grpc: int
    data: str


def _declared() -> dict[str, Declared]:
    table = {}
    for value in errors_pb2.ErrorCode.DESCRIPTOR.values:
        rule = value.GetOptions().Extensions[rest.value]
        if rule.wire:
            table[rule.wire] = Declared(rule.wire, rule.http, rule.grpc, rule.data)
    return table


DECLARED: Final[Mapping[str, Declared]] = _declared()

_USER = frozenset(
    {
        "CLIENT_VERSION_MISMATCH",
        "UNAUTHORIZED",
        "FORBIDDEN",
        "GITHUB_SIGN_IN_REQUIRED",
        "API_RESTARTING",
        "AUTHENTICATION_UNAVAILABLE",
    }
)
_WORKLOAD = frozenset(
    {
        "WORKLOAD_UNAUTHORIZED",
        "WORKLOAD_FORBIDDEN",
        "WORKLOAD_NOT_FOUND",
        "WORKLOAD_CANDIDATE_STALE",
        "WORKLOAD_CONFLICT",
        "WORKLOAD_EXECUTION_USED",
        "API_RESTARTING",
        "WORKLOAD_UNAVAILABLE",
    }
)


def common_codes(access: int) -> frozenset[str]:
    """Codes that every method of an access class (a value of `anycloudapi.rest.v1.Access`) declares."""
    return _WORKLOAD if access == rest.ACCESS_WORKLOAD else _USER


class ApiError(Exception):
    """A declared error, raised by handlers.

    `code` is the wire spelling of a value of `anycloudapi.common.v1.ErrorCode`, `message` one sentence for a person,
    `data` the message that the code demands, and None for all others. A code or data that the enum doesn't have is a
    mistake of the caller's: ValueError.
    """

    def __init__(self, code: str, message: str, data: Message | None = None) -> None:
        declared = DECLARED.get(code)
        if declared is None:
            raise ValueError(f"{code} is no declared error")
        given = "" if data is None else data.DESCRIPTOR.full_name
        if given != declared.data:
            raise ValueError(f"{code} comes with data of type {declared.data or 'none'}, not {given or 'none'}")
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.data = data


class NotAvailable(Exception):
    """Raised by handlers of what the contract lists and this product doesn't do; one sentence that says what."""


@dataclass(frozen=True)
class Problem:
    """All that an error answer says. `violations` are (field, what is wrong) of a misshapen request."""

    code: str
    defined: bool
    message: str
    http: int
    grpc: int
    data: Message | None = None
    violations: tuple[tuple[str, str], ...] = ()

    @staticmethod
    def of(error: ApiError, defined: bool = True, violations: tuple[tuple[str, str], ...] = ()) -> Problem:
        """`defined=False` is for a method that doesn't declare the code."""
        declared = DECLARED[error.code]
        return Problem(error.code, defined, error.message, declared.http, declared.grpc, error.data, violations)

    def to_status(self) -> status_pb2.Status:
        """For gRPC: ErrorInfo first, then the code's data, then BadRequest."""
        details: list[Any] = [
            error_details_pb2.ErrorInfo(reason=self.code, domain=DOMAIN, metadata={"httpStatus": str(self.http)})
        ]
        if self.data is not None:
            details.append(self.data)
        if self.violations:
            violation = error_details_pb2.BadRequest.FieldViolation
            fields = [violation(field=field, description=text) for field, text in self.violations]
            details.append(error_details_pb2.BadRequest(field_violations=fields))
        return status_pb2.Status(code=self.grpc, message=self.message, details=[_packed(d) for d in details])

    def to_json(self) -> bytes:
        """For HTTP: the contract's closed object."""
        body: dict[str, Any] = {
            "code": self.code,
            "defined": self.defined,
            "message": self.message,
            "status": self.http,
        }
        if self.data is not None:
            body["data"] = orjson.Fragment(_CODEC.json(self.data))
        return orjson.dumps(body)


INTERNAL: Final = Problem("INTERNAL", False, "internal error", 500, grpc.StatusCode.INTERNAL.value[0])


def invalid_request(message: str, violations: tuple[tuple[str, str], ...] = ()) -> Problem:
    """A request without the declared shape, at a method that declares no code for it."""
    status = grpc.StatusCode.INVALID_ARGUMENT.value[0]
    return Problem("INVALID_REQUEST", False, message, 400, status, violations=violations)


def not_available(message: str) -> Problem:
    """No method declares it: clients take it for an error that they don't know."""
    return Problem("NOT_AVAILABLE", False, message, 403, grpc.StatusCode.PERMISSION_DENIED.value[0])


def from_rpc(error: grpc.RpcError) -> ApiError | None:
    """The declared error that a sibling service raised, out of what its caller caught; None for any other failure."""
    trailers: Any = error.trailing_metadata() or ()
    for key, value in trailers:
        if key == STATUS_DETAILS and isinstance(value, bytes):
            return _from_status(status_pb2.Status.FromString(value))
    return None


def _from_status(status: status_pb2.Status) -> ApiError | None:
    info = error_details_pb2.ErrorInfo()
    if not status.details or not status.details[0].Unpack(info):
        return None
    declared = DECLARED.get(info.reason)
    if info.domain != DOMAIN or declared is None:
        return None
    if not declared.data:
        return ApiError(info.reason, status.message)
    data = message_factory.GetMessageClass(_POOL.FindMessageTypeByName(declared.data))()
    status.details[1].Unpack(data)
    return ApiError(info.reason, status.message, data)


def _packed(detail: Message) -> any_pb2.Any:
    packed = any_pb2.Any()
    packed.Pack(detail)
    return packed
