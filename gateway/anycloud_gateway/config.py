"""Envoy's bootstrap: one public listener for HTTP/JSON and native gRPC, and the services' Unix sockets behind it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from anycloud_gateway import replies, routes

HERE = Path(__file__).parent
REST_PB = HERE / "rest.pb"  # made by proto/generate.py; must be of the same build as the services
FILTER = HERE / "filter.lua"

MAX_BODY = 8 << 20
MAX_ANSWER = 64 << 20
MAX_HEADERS_KIB = 24
HEADERS_WITHIN = 10  # seconds
MAX_CALLS = 10_000  # Envoy's own limit of 1,024 is less than the long-polls of a large cluster

# What only we may say: the transcoder's mark, and who calls inside the installation.
STRIPPED = (
    "x-envoy-original-path",
    "x-envoy-original-method",
    "anycloud-caller",
    "anycloud-principal",
    "anycloud-request-id",
    "anycloud-build",
)

# What the services' gRPC would take offence at, and answer with an error of its own: names with other characters than
# it allows, binary values (no method of ours takes any), and what it says itself in answers or among its own parts.
OFFENSIVE = r".*[^a-z0-9_.:-].*|.*-bin|lb-.*|endpoint-load-.*|grpc-(internal-.*|message|previous-.*|retry-.*|status)"

_TYPE = "type.googleapis.com/envoy."


def envoy_config(
    *,
    listen_host: str,
    listen_port: int,
    runtime_dir: Path,
    admin: Path | int,
    access_log: Path,
    descriptors: Path = REST_PB,
) -> dict[str, Any]:
    """The bootstrap, to be written as JSON.

    `runtime_dir` holds the services' sockets, one for each domain of `descriptors`. `admin` is a Unix socket's path or
    a port of 127.0.0.1. Raises ValueError when `descriptors` has a method outside the public packages.
    """
    methods = routes.methods(descriptors)
    domains = sorted({method.domain for method in methods})
    manager = _connection_manager(methods, domains, access_log, descriptors)
    return {
        "admin": {"address": _admin(admin)},
        "application_log_config": {"log_format": {"json_format": _APPLICATION_LOG}},
        "overload_manager": _overload_manager(),
        "static_resources": {
            "listeners": [_listener(listen_host, listen_port, manager)],
            "clusters": [_cluster(domain, runtime_dir / f"{domain}.sock") for domain in domains],
        },
    }


_APPLICATION_LOG = {"time": "%Y-%m-%dT%T.%e%z", "level": "%l", "service": "envoy", "logger": "%n", "event": "%j"}

_ACCESS_LOG = {
    "time": "%START_TIME%",
    "method": "%REQ(x-envoy-original-method?:method)%",
    "path": "%REQ(x-envoy-original-path?:path)%",
    "grpc_path": "%REQ(:path)%",
    "status": "%RESPONSE_CODE%",
    "grpc_status": "%GRPC_STATUS%",
    "flags": "%RESPONSE_FLAGS%",
    "details": "%RESPONSE_CODE_DETAILS%",
    "duration_ms": "%DURATION%",
    "bytes_received": "%BYTES_RECEIVED%",
    "bytes_sent": "%BYTES_SENT%",
    "upstream": "%UPSTREAM_CLUSTER%",
    "client": "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%",
    "user_agent": "%REQ(user-agent)%",
    "request_id": "%REQ(x-request-id)%",
}


def _admin(admin: Path | int) -> dict[str, Any]:
    if isinstance(admin, int):
        return {"socket_address": {"address": "127.0.0.1", "port_value": admin}}
    return {"pipe": {"path": str(admin), "mode": 0o600}}


def _overload_manager() -> dict[str, Any]:
    kind = "extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig"
    limit = _extension(
        "envoy.resource_monitors.global_downstream_max_connections",
        kind,
        max_active_downstream_connections=2 * MAX_CALLS,
    )
    return {"resource_monitors": [limit]}


def _listener(host: str, port: int, manager: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": "public",
        "address": {"socket_address": {"address": host, "port_value": port}},
        "enable_reuse_port": False,  # a second Envoy on this port is an error, not a partner
        "filter_chains": [{"filters": [manager]}],
    }


def _connection_manager(
    methods: list[routes.Method], domains: list[str], access_log: Path, descriptors: Path
) -> dict[str, Any]:
    return _extension(
        "envoy.filters.network.http_connection_manager",
        "extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        stat_prefix="public",
        server_name="anycloud",
        use_remote_address=True,  # the last x-forwarded-for is ours, and callers can't choose their request id
        generate_request_id=True,
        always_set_request_id_in_response=True,
        normalize_path=True,
        path_with_escaped_slashes_action="KEEP_UNCHANGED",  # names may hold a %2F
        max_request_headers_kb=MAX_HEADERS_KIB,
        request_headers_timeout=f"{HEADERS_WITHIN}s",
        stream_idle_timeout="300s",
        http2_protocol_options={"connection_keepalive": {"interval": "60s", "timeout": "20s"}},
        early_header_mutation_extensions=[_strip()],
        local_reply_config=replies.local_reply_config(),
        access_log=[_access_log(access_log)],
        route_config={"virtual_hosts": [{"name": "api", "domains": ["*"], "routes": routes.routes(methods)}]},
        http_filters=_filters({method.service for method in methods}, domains, descriptors),
    )


def _strip() -> dict[str, Any]:
    return _extension(
        "strip",
        "extensions.http.early_header_mutation.header_mutation.v3.HeaderMutation",
        mutations=[
            *({"remove": name} for name in STRIPPED),
            {"remove_on_match": {"key_matcher": {"safe_regex": {"regex": OFFENSIVE}}}},
        ],
    )


def _access_log(path: Path) -> dict[str, Any]:
    return _extension(
        "envoy.access_loggers.file",
        "extensions.access_loggers.file.v3.FileAccessLog",
        path=str(path),
        log_format={"json_format": _ACCESS_LOG},
    )


def _filters(services: Iterable[str], domains: list[str], descriptors: Path) -> list[dict[str, Any]]:
    """In the order of the way in. The Lua filter is first, to be last on the way back."""
    return [
        _http_filter("lua", "lua.v3.Lua", default_source_code={"filename": str(FILTER)}),
        _http_filter(
            "health_check",
            "health_check.v3.HealthCheck",
            pass_through_mode=False,
            headers=[{"name": ":path", "string_match": {"exact": replies.HEALTH_PATH}}],
            cluster_min_healthy_percentages={domain: {"value": 100} for domain in domains},
        ),
        _http_filter("body_size_limit", "body_size_limit.v3.BodySizeLimit", max_request_bytes=MAX_BODY),
        _http_filter(
            "grpc_json_transcoder",
            "grpc_json_transcoder.v3.GrpcJsonTranscoder",
            proto_descriptor=str(descriptors),
            services=sorted(services),
            query_param_unescape_plus=True,
            max_request_body_size=MAX_BODY,
            max_response_body_size=MAX_ANSWER,
            request_validation_options={"reject_unknown_method": True, "reject_unknown_query_parameters": True},
        ),
        _http_filter("router", "router.v3.Router", suppress_envoy_headers=True),
    ]


def _cluster(domain: str, socket: Path) -> dict[str, Any]:
    """A service. One process each, so an unhealthy one must not be asked "in panic", and nothing is tried twice."""
    endpoint = {"endpoint": {"address": {"pipe": {"path": str(socket)}}}}
    options = _TYPE + "extensions.upstreams.http.v3.HttpProtocolOptions"
    limits = {
        "max_connections": MAX_CALLS,
        "max_pending_requests": MAX_CALLS,
        "max_requests": MAX_CALLS,
        "max_retries": 0,
    }
    return {
        "name": domain,
        "type": "STATIC",
        "connect_timeout": "1s",
        "load_assignment": {"cluster_name": domain, "endpoints": [{"lb_endpoints": [endpoint]}]},
        # Envoy's default waits a second with what a health check found.
        "common_lb_config": {"healthy_panic_threshold": {"value": 0}, "update_merge_window": "0s"},
        "circuit_breakers": {"thresholds": [limits]},
        "health_checks": [_health_check()],
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": options,
                "explicit_http_config": {"http2_protocol_options": {}},
            }
        },
    }


def _health_check() -> dict[str, Any]:
    """A busy service answers late: only three silences of 5 s in a row make it unhealthy."""
    return {
        "grpc_health_check": {},
        "timeout": "5s",
        "interval": "2s",
        "unhealthy_interval": "0.25s",
        "no_traffic_interval": "0.25s",
        "no_traffic_healthy_interval": "2s",
        "unhealthy_threshold": 3,
        "healthy_threshold": 1,
    }


def _http_filter(name: str, kind: str, **settings: Any) -> dict[str, Any]:
    return _extension(f"envoy.filters.http.{name}", f"extensions.filters.http.{kind}", **settings)


def _extension(name: str, kind: str, **settings: Any) -> dict[str, Any]:
    return {"name": name, "typed_config": {"@type": _TYPE + kind, **settings}}
