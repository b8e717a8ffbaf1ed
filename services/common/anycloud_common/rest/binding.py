"""One method as HTTP: Envoy's wrapper bytes -> typed request, typed response -> bytes of google.api.HttpBody."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, NamedTuple

import orjson
from google.api import httpbody_pb2
from google.protobuf import message_factory
from google.protobuf.message import DecodeError, Message

from anycloud_common.rest import pages, rules, text, wrapper
from anycloud_common.rest.codec import Codec
from anycloud_common.rest.invalid import Invalid
from anycloud_common.rest.parse import parse
from anycloud_common.rest.route import Path, Route

JSON = "application/json"
NDJSON = "application/x-ndjson"
Arguments = dict[str, Any]


def http_body(data: bytes, content_type: str = JSON, status: int = 200) -> bytes:
    """A status other than 200 travels at the end of the content type, and the gateway takes it out: initial metadata
    would cost another operation a call, and the handler may have sent it already."""
    if status != 200:
        content_type = f"{content_type}; status={status}"
    serialized: bytes = httpbody_pb2.HttpBody(content_type=content_type, data=data).SerializeToString()
    return serialized


NO_CONTENT = http_body(b"", status=204)


class _Param(NamedTuple):
    path: Path
    wire: str
    repeated: bool
    always: bool
    """A path variable: Envoy sends it with every request."""
    required: bool
    read: text.Read


class Binding:
    """Compiles itself at first use, so that a service which never serves a route never pays for it."""

    def __init__(self, route: Route, codec: Codec) -> None:
        self.route = route
        self._codec = codec

    def decode(self, raw: bytes) -> Message:
        """Bytes of Envoy's wrapper message -> request. Raises Invalid for a request without the declared shape."""
        try:
            wrapped: Any = self._wrapper.FromString(raw)
        except DecodeError:  # Envoy hands on whatever bytes a percent-encoding stands for
            raise Invalid("path and query must be UTF-8 text", "url") from None
        arguments = self._read_body(wrapped.http_body) if self.route.takes_body else {}
        for param in self._params:
            self._read_param(param, wrapped, arguments)
        return self._request(**arguments)

    def variables(self, raw: bytes) -> dict[str, str]:
        """Path variables of a request that can't be decoded, by the names of their fields: those that can be read."""
        try:
            wrapped: Any = self._wrapper.FromString(raw)
        except DecodeError:
            return {}
        names = [param.path[0] for param in self._params if param.always and len(param.path) == 1]
        return {name: given[0] for name in names if len(given := getattr(wrapped, name)) == 1}

    def encode(self, message: Message, url: str = "") -> bytes:
        """Response, or one message of a stream (a line of NDJSON) -> bytes of HttpBody. `url` is the request's path and
        query, for pages of lists. Raises BadResponse."""
        if self.route.paged:
            return self._write(message, pages.beside(JSON, pages.headers(message, url)))
        return self._write(message)

    def compile(self) -> None:
        """What the first use of the route would do; shows a mistake in its protos as ValueError."""
        _ = self._wrapper, self._request, self._params, self._write, self.route.takes_body and self._read_body

    @cached_property
    def _wrapper(self) -> type[Message]:
        return wrapper.message_class(self.route)

    @cached_property
    def _request(self) -> type[Message]:
        return message_factory.GetMessageClass(self.route.method.input_type)

    # --- parameters

    @cached_property
    def _params(self) -> list[_Param]:
        return [
            _Param(
                p.path, p.wire, bool(p.field.is_repeated), p.in_path, rules.is_required(p.field), text.reader(p.field)
            )
            for p in self.route.params
        ]

    @staticmethod
    def _read_param(param: _Param, wrapped: Any, arguments: Arguments) -> None:
        *above, name = param.path
        for step in above:
            if not wrapped.HasField(step):
                return
            wrapped, arguments = getattr(wrapped, step), arguments.setdefault(step, {})
        given = getattr(wrapped, name)
        try:
            if param.repeated:
                if given:
                    arguments[name] = [param.read(value) for value in given]
            elif len(given) == 1:
                arguments[name] = param.read(given[0])
            elif given:
                raise Invalid("is given more than once")
            elif param.always:
                raise RuntimeError(f"no path variable {param.wire}: the gateway has another build's rest.pb")
            elif param.required:
                raise Invalid("is required")
        except Invalid as e:
            raise e.at(param.wire) from None

    # --- request body

    @cached_property
    def _read_body(self) -> Callable[[httpbody_pb2.HttpBody], Arguments]:
        name = self.route.body
        if not name:
            return _no_body
        if name == "*":
            decode = self._codec.decoder(self.route.method.input_type, self._not_in_body(1))
            return lambda body: decode(_parsed(body) if body.data else {})
        field = self.route.method.input_type.fields_by_name[name]
        required = rules.is_required(field)
        arguments = self._patched(name) if self.route.has_update_mask else self._filled(name)

        def read(body: httpbody_pb2.HttpBody) -> Arguments:
            if body.data:
                return arguments(_parsed(body))
            if required:
                raise Invalid("a JSON object is required")
            return {}

        return read

    def _filled(self, name: str) -> Callable[[Any], Arguments]:
        decode = self._codec.decoder(self._body_type(name), self._not_in_body(2))
        return lambda value: {name: decode(value)}

    def _patched(self, name: str) -> Callable[[Any], Arguments]:
        patch = self._codec.patcher(self._body_type(name), self._not_in_body(2))

        def read(value: Any) -> Arguments:
            arguments, paths = patch(value)
            return {name: arguments, "update_mask": {"paths": paths}}

        return read

    def _body_type(self, name: str) -> Any:
        return rules.message_type(self.route.method.input_type.fields_by_name[name])

    def _not_in_body(self, depth: int) -> frozenset[str]:
        """Fields of the body's message that path variables fill."""
        return frozenset(p.path[-1] for p in self.route.params if p.in_path and len(p.path) == depth)

    # --- response

    @cached_property
    def _write(self) -> Callable[..., bytes]:
        route, output = self.route, self.route.method.output_type
        if route.paged:
            pages.check(route)
        if route.streams:
            line = self._codec.encoder(output)
            return lambda message: http_body(orjson.dumps(line(message)) + b"\n", NDJSON)
        if route.success == 204:
            return lambda message: NO_CONTENT
        if route.response_body:
            return self._write_field(route.response_body)
        value = self._codec.encoder(output)
        status, key = route.success, route.wrap
        if key:
            return lambda message: http_body(orjson.dumps({key: value(message)}), status=status)
        return lambda message: http_body(orjson.dumps(value(message)), status=status)

    def _write_field(self, name: str) -> Callable[..., bytes]:
        """One field is the whole answer: a list, or an object that may be missing (204)."""
        field, key = self.route.method.output_type.fields_by_name[name], self.route.wrap
        if rules.is_map(field) or (key and not field.is_repeated):
            raise ValueError(f"{field.full_name}: response_body is a list of messages, or a message without wrap")
        value, status = self._codec.encoder(rules.message_type(field)), self.route.success
        if field.is_repeated:

            def write_list(message: Any, content_type: str = JSON) -> bytes:
                items = [value(m) for m in getattr(message, name)]
                return http_body(orjson.dumps({key: items} if key else items), content_type, status)

            return write_list
        may_be_missing = self.route.no_content_when_unset

        def write(message: Any) -> bytes:
            if may_be_missing and not message.HasField(name):
                return NO_CONTENT
            return http_body(orjson.dumps(value(getattr(message, name))), status=status)

        return write


def _parsed(body: httpbody_pb2.HttpBody) -> Any:
    kind = body.content_type
    if kind and kind != JSON and kind.partition(";")[0].strip().lower() != JSON:
        raise Invalid(f"content-type must be {JSON}")
    return parse(body.data)


def _no_body(body: httpbody_pb2.HttpBody) -> Arguments:
    if body.data and _parsed(body) != {}:
        raise Invalid("this operation takes no body")
    return {}


def load(routes: Iterable[Route], codec: Codec | None = None) -> dict[str, Binding]:
    """gRPC path (`/package.Service/Method`) -> binding."""
    shared = codec or Codec()
    return {route.grpc_path: Binding(route, shared) for route in routes}
