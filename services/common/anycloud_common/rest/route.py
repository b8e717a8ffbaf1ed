"""The HTTP facts of each method: google.api.http beside our own MethodRule."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from anycloudapi.rest.v1 import options_pb2 as rest
from google.api import annotations_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor, MethodDescriptor, ServiceDescriptor

from anycloud_common.rest import rules

VARIABLE = re.compile(r"\{([\w.]+)(?:=[^}]*)?\}")
Path = tuple[str, ...]


@dataclass(frozen=True)
class Param:
    """A path variable or query parameter, bound to a leaf of the request message."""

    path: Path
    """Proto field names from the request down to the leaf."""
    wire: str
    """JSON names joined by dots: the name in the query."""
    field: FieldDescriptor
    in_path: bool


@dataclass(frozen=True)
class Route:
    """A method that has a google.api.http rule."""

    method: MethodDescriptor
    verb: str
    """Lower case: get, put, post, delete, patch."""
    path: str
    params: tuple[Param, ...]
    """Path variables first, then query parameters."""
    body: str
    """Request field that the JSON body fills, `*` for all that is not in the path, or empty."""
    response_body: str
    """Response field that is the whole JSON answer, or empty."""
    success: int
    wrap: str
    no_content_when_unset: bool
    paged: bool
    errors: tuple[str, ...]
    invalid: str
    """Error code of a request that lacks the declared shape, or empty (an undeclared 400)."""
    unavailable: str
    access: rest.Access.ValueType
    client_version: rest.VersionRule.ValueType

    @property
    def grpc_path(self) -> str:
        return f"/{self.method.containing_service.full_name}/{self.method.name}"

    @property
    def streams(self) -> bool:
        return bool(self.method.server_streaming)

    @property
    def takes_body(self) -> bool:
        """Envoy hands over the body of these verbs even where none is declared: one that comes can then be refused."""
        return self.verb != "get"

    @property
    def has_update_mask(self) -> bool:
        """PATCH of one field beside `update_mask`: the mask is made from the keys of the body."""
        mask = self.method.input_type.fields_by_name.get("update_mask")
        return (
            self.verb == "patch"
            and self.body not in {"", "*"}
            and mask is not None
            and rules.message_type(mask).full_name == "google.protobuf.FieldMask"
        )


def routes(services: Iterable[ServiceDescriptor]) -> list[Route]:
    """The routes of these services, in the order of declaration."""
    return [found for service in services for method in service.methods if (found := route(method)) is not None]


def route(method: MethodDescriptor) -> Route | None:
    """None for a method without a google.api.http rule. A rule that this codec can't serve raises ValueError."""
    options = method.GetOptions()
    if not options.HasExtension(annotations_pb2.http):
        return None
    http = options.Extensions[annotations_pb2.http]
    if http.additional_bindings:
        raise ValueError(f"{method.full_name}: one HTTP binding a method")
    verb = http.WhichOneof("pattern")
    template = getattr(http, verb)
    variables = tuple(_variable(method.input_type, name) for name in VARIABLE.findall(template))
    bound = {v.path for v in variables} | {(http.body,)}
    query = () if http.body == "*" else tuple(_query(method.input_type, bound))
    rule = rules.method_rule(method)
    return Route(
        method=method,
        verb=verb,
        path=template,
        params=variables + query,
        body=http.body,
        response_body=http.response_body,
        success=rule.success or 200,
        wrap=rule.wrap,
        no_content_when_unset=rule.no_content_when_unset,
        paged=rule.paged,
        errors=tuple(rule.errors),
        invalid=rule.invalid,
        unavailable=rule.unavailable,
        access=rule.access,
        client_version=rule.client_version,
    )


def _variable(message: Descriptor, dotted: str) -> Param:
    *above, name = path = tuple(dotted.split("."))
    wire = []
    for step in above:
        field = message.fields_by_name[step]
        wire.append(field.json_name)
        message = rules.message_type(field)
    leaf = message.fields_by_name[name]
    return Param(path, ".".join([*wire, leaf.json_name]), leaf, in_path=True)


def _query(message: Descriptor, bound: set[Path], above: Path = (), wire: Path = ()) -> Iterator[Param]:
    """Every leaf that neither path nor body binds. Messages in lists, maps, unions and bare ones have no query form."""
    for field in rules.plain_fields(message):
        path, names = (*above, field.name), (*wire, field.json_name)
        if path in bound:
            continue
        if field.message_type is None or field.message_type.full_name == f"{rules.GOOGLE}Timestamp":
            yield Param(path, ".".join(names), field, in_path=False)
        elif _has_query_form(field) and field.name not in above:
            yield from _query(field.message_type, bound, path, names)


def _has_query_form(field: FieldDescriptor) -> bool:
    kind = rules.message_type(field)
    return not (field.is_repeated or kind.full_name.startswith(rules.GOOGLE) or rules.message_rule(kind).bare)
