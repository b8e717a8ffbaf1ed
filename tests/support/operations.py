"""One operation at a time as HTTP: the typed request of parameters and a body, and what an answer looks like."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import orjson
from anycloud_common.rest import Binding, Codec, wrapper
from anycloud_common.rest.route import route
from google.api import httpbody_pb2

_CODEC = Codec()


class Answer(NamedTuple):
    status: int
    body: Any
    """Parsed; None when there is none."""


class Operation:
    """`service` is a generated module's service descriptor."""

    def __init__(self, service: Any, method: str) -> None:
        found = route(service.methods_by_name[method])
        assert found is not None, f"{method} has no route"
        self._binding = Binding(found, _CODEC)

    def request(self, body: Any = None, **params: str) -> Any:
        """Raises Invalid for what isn't of the declared shape. `params` are those of path and query, by field name."""
        route = self._binding.route
        wrapped: Any = wrapper.message_class(route)(**{name: [value] for name, value in params.items()})
        if route.takes_body:
            wrapped.http_body.data = b"" if body is None else orjson.dumps(body)
        return self._binding.decode(wrapped.SerializeToString())

    def answer(self, message: Any) -> Answer:
        made = httpbody_pb2.HttpBody.FromString(self._binding.encode(message))
        status = re.search(r"; status=(\d+)$", made.content_type)
        return Answer(int(status[1]) if status else 200, orjson.loads(made.data) if made.data else None)
