"""Prometheus metrics of a service. Others register theirs on the default registry with `prometheus_client` itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Final

from prometheus_client import Counter, Gauge, Histogram, start_http_server

REQUESTS: Final = Counter(
    "anycloud_requests", "Calls answered, by code of the error (OK for a success)", ["method", "form", "code"]
)
LATENCY: Final = Histogram(
    "anycloud_request_seconds",
    "Time from a call's arrival to its answer; long-polls include their wait",
    ["method"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)
IN_FLIGHT: Final = Gauge("anycloud_requests_in_flight", "Calls being handled", ["method"])
TOKEN_REFUSALS: Final = Counter("anycloud_token_refusals", "Calls refused for their bearer token")


class Meter:
    """One method's metrics. Looking them up by their labels would cost each call more than counting does."""

    def __init__(self, method: str) -> None:
        self._method = method
        self._requests: dict[tuple[str, str], Counter] = {}

    @cached_property
    def in_flight(self) -> Gauge:
        return IN_FLIGHT.labels(self._method)

    @cached_property
    def latency(self) -> Histogram:
        return LATENCY.labels(self._method)

    def requests(self, form: str, code: str) -> Counter:
        """`form` is "grpc" or "rest"."""
        known = self._requests.get((form, code))
        if known is None:
            known = self._requests[form, code] = REQUESTS.labels(self._method, form, code)
        return known


def serve(port: int) -> Callable[[], None]:
    """Answers scrapes on 127.0.0.1 until the returned function is called; port 0 means no listener."""
    if not port:
        return lambda: None
    server, thread = start_http_server(port, addr="127.0.0.1")

    def close() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return close
