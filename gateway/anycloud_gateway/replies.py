"""Envoy's own answers, in the shapes that clients of the API know."""

from __future__ import annotations

from typing import Any

RESTARTING = "The API is restarting; try again in a moment."


def local_reply_config() -> dict[str, Any]:
    """The first mapper that matches is used."""
    return {
        "mappers": [
            _mapper(_all(_header(":path", {"exact": HEALTH_PATH}), _status("EQ", 200)), {"status": "ok"}),
            _mapper(_header(":path", {"exact": HEALTH_PATH}), {"status": "unavailable"}),
            _mapper(_all(*_native(), _status("EQ", 503)), RESTARTING),
            _mapper(_all(*_native(), _status("GE", 200)), "%LOCAL_REPLY_BODY%"),
            _mapper(_status("EQ", 404), _error("NOT_FOUND", "There is no such operation.")),
            _mapper(_status("EQ", 413), _error("PAYLOAD_TOO_LARGE", "The request body is larger than 8 MiB.")),
            _mapper(_status("EQ", 503), _error("API_RESTARTING", RESTARTING, defined=True)),
            _mapper(_status("EQ", 504), _error("DEADLINE_EXCEEDED", "The API did not answer in time.")),
            _mapper(_status("GE", 500), _error("GATEWAY_ERROR", "The API can't be reached.")),
        ],
        "body_format": {"json_format": _error("BAD_REQUEST", "%LOCAL_REPLY_BODY%")},
    }


HEALTH_PATH = "/healthz"


def _error(code: str, message: str, defined: bool = False) -> dict[str, Any]:
    return {"code": code, "defined": defined, "message": message, "status": "%RESPONSE_CODE%"}


def _mapper(matches: dict[str, Any], body: dict[str, Any] | str) -> dict[str, Any]:
    text = {"text_format_source": {"inline_string": body}}
    return {"filter": matches, "body_format_override": text if isinstance(body, str) else {"json_format": body}}


def _status(operator: str, code: int) -> dict[str, Any]:
    value = {"default_value": code, "runtime_key": "anycloud.unused"}
    return {"status_code_filter": {"comparison": {"op": operator, "value": value}}}


def _header(name: str, match: dict[str, Any], invert: bool = False) -> dict[str, Any]:
    return {"header_filter": {"header": {"name": name, "string_match": match, "invert_match": invert}}}


def _native() -> list[dict[str, Any]]:
    """Native gRPC callers. A transcoded call has that content type too by now, and the mark."""
    mark = {"name": "x-envoy-original-path", "present_match": True, "invert_match": True}
    return [_header("content-type", {"prefix": "application/grpc"}), {"header_filter": {"header": mark}}]


def _all(*filters: dict[str, Any]) -> dict[str, Any]:
    return {"and_filter": {"filters": list(filters)}}
