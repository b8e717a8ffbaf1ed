"""Envoy's own answers, in the shapes that clients of the API know."""

from __future__ import annotations

from typing import Any

RESTARTING = "The API is restarting; try again in a moment."
_NO_HTTP = "The request is no valid HTTP: %RESPONSE_CODE_DETAILS%."
_HEADERS = "Path and headers are larger than 24 KiB together, or more than 100."


def local_reply_config() -> dict[str, Any]:
    """The first mapper that matches is used."""
    return {
        "mappers": [
            _mapper(_all(_header(":path", {"exact": HEALTH_PATH}), _status("EQ", 200)), {"status": "ok"}),
            _mapper(_header(":path", {"exact": HEALTH_PATH}), {"status": "unavailable"}),
            _mapper(_all(*_native(), _status("EQ", 503)), RESTARTING),
            _mapper(_all(*_native(), _status("GE", 200)), "%LOCAL_REPLY_BODY%"),
            _mapper(_because('== "path_normalization_failed"'), _error("BAD_REQUEST", "url: holds what no URL may")),
            _mapper(_because('== "missing_host_header"'), _error("BAD_REQUEST", "host: is required")),
            _mapper(_status("EQ", 404), _error("NOT_FOUND", "There is no such operation.")),
            _mapper(_status("EQ", 408), _error("REQUEST_TIMEOUT", "The request did not arrive in time.")),
            _mapper(_status("EQ", 413), _error("PAYLOAD_TOO_LARGE", "The request body is larger than 8 MiB.")),
            _mapper(_status("EQ", 415), _error("UNSUPPORTED_MEDIA_TYPE", "%LOCAL_REPLY_BODY%")),
            _mapper(_status("EQ", 426), _error("BAD_REQUEST", "This API speaks HTTP/1.1 and HTTP/2.")),
            _mapper(_status("EQ", 431), _error("HEADERS_TOO_LARGE", _HEADERS)),
            _mapper(_status("EQ", 501), _error("BAD_REQUEST", "transfer-encoding: must be chunked"), status=400),
            # Of what is no HTTP at all, the details are Envoy's word for what it stumbled over.
            _mapper(_because('.startsWith("http1.")'), _error("BAD_REQUEST", _NO_HTTP)),
            _mapper(_status("EQ", 503), _error("API_RESTARTING", RESTARTING, defined=True)),
            _mapper(_status("EQ", 504), _error("DEADLINE_EXCEEDED", "The API did not answer in time.")),
            _mapper(_status("GE", 500), _error("GATEWAY_ERROR", "The API can't be reached.")),
        ],
        "body_format": {"json_format": _error("BAD_REQUEST", "%LOCAL_REPLY_BODY%")},
    }


HEALTH_PATH = "/healthz"


def _error(code: str, message: str, defined: bool = False) -> dict[str, Any]:
    return {"code": code, "defined": defined, "message": message, "status": "%RESPONSE_CODE%"}


def _mapper(matches: dict[str, Any], body: dict[str, Any] | str, status: int | None = None) -> dict[str, Any]:
    text = {"text_format_source": {"inline_string": body}}
    override = {} if status is None else {"status_code": status}
    body_format = text if isinstance(body, str) else {"json_format": body}
    return {"filter": matches, "body_format_override": body_format, **override}


def _because(test: str) -> dict[str, Any]:
    """By Envoy's own word for why it answers."""
    kind = "type.googleapis.com/envoy.extensions.access_loggers.filters.cel.v3.ExpressionFilter"
    typed = {"@type": kind, "expression": f"response.code_details{test}"}
    return {"extension_filter": {"name": "envoy.access_loggers.extension_filters.cel", "typed_config": typed}}


def _status(operator: str, code: int) -> dict[str, Any]:
    value = {"default_value": code, "runtime_key": "anycloud.unused"}
    return {"status_code_filter": {"comparison": {"op": operator, "value": value}}}


def _header(name: str, match: dict[str, Any], invert: bool = False) -> dict[str, Any]:
    return {"header_filter": {"header": {"name": name, "string_match": match, "invert_match": invert}}}


def _native() -> list[dict[str, Any]]:
    """Native gRPC callers. A transcoded call has that content type too by now, and the mark."""
    mark = {"name": "x-envoy-original-path", "present_match": True, "invert_match": True}
    return [
        _header("content-type", {"safe_regex": {"regex": r"application/grpc([+;].*)?"}}),
        {"header_filter": {"header": mark}},
    ]


def _all(*filters: dict[str, Any]) -> dict[str, Any]:
    return {"and_filter": {"filters": list(filters)}}
