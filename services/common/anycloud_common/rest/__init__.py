"""HTTP/JSON for typed gRPC methods, driven by the options in anycloudapi/rest/v1/options.proto. See docs/codec.md."""

from anycloud_common.rest.binding import NDJSON, Binding, http_body, load
from anycloud_common.rest.codec import Codec
from anycloud_common.rest.invalid import Invalid
from anycloud_common.rest.route import Param, Route, route, routes
from anycloud_common.rest.wellknown import BadResponse

__all__ = [
    "NDJSON",
    "BadResponse",
    "Binding",
    "Codec",
    "Invalid",
    "Param",
    "Route",
    "http_body",
    "load",
    "route",
    "routes",
]
