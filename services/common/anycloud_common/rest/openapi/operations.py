"""One route as an OpenAPI operation."""

from __future__ import annotations

from typing import Any, Final

from anycloudapi.rest.v1 import options_pb2 as rest
from google.protobuf.descriptor import Descriptor

from anycloud_common.rest import rules
from anycloud_common.rest.binding import JSON, NDJSON
from anycloud_common.rest.openapi.messages import Messages
from anycloud_common.rest.openapi.problems import Problems
from anycloud_common.rest.openapi.values import Direction, Schema, closed
from anycloud_common.rest.route import VARIABLE, Param, Route

USER, WORKLOAD, SIGN_IN = "userBearer", "workloadBearer", "signInBearer"
SCHEMES: Final = {
    rest.ACCESS_UNSPECIFIED: USER,
    rest.ACCESS_WORKLOAD: WORKLOAD,
    rest.ACCESS_SIGN_IN: SIGN_IN,
}
VERSION_HEADER = "ClientVersion"
REQUEST_HEADERS: Final = {
    rest.REQUEST_HEADER_IDEMPOTENCY_KEY: "IdempotencyKey",
    rest.REQUEST_HEADER_GITHUB_TOKEN: "GitHubToken",
}
"""Name of the parameter among the components."""
TOTAL_HEADER, LINK_HEADER = "TotalCount", "NextPage"
_STATUS: Final = {200: "Done.", 202: "Accepted; what it asks for may take longer.", 204: "Done; there is no body."}


class Operations:
    def __init__(self, messages: Messages, problems: Problems, comments: dict[str, str]) -> None:
        self._messages = messages
        self._problems = problems
        self._comments = comments

    def operation(self, route: Route) -> dict[str, Any]:
        service, name = route.method.containing_service, route.method.name
        told = self._comments.get(route.method.full_name)
        parameters = [*(self._parameter(p) for p in route.params), *self._headers(route)]
        body = self._body(route)
        return {
            "operationId": name[0].lower() + name[1:],
            "tags": [service.name],
            **({"description": told} if told else {}),
            "security": [{SCHEMES[route.access]: []}],
            **({"parameters": parameters} if parameters else {}),
            **({"requestBody": body} if body else {}),
            "responses": {**self._successes(route), **self._problems.responses(route)},
        }

    # --- request

    @staticmethod
    def _headers(route: Route) -> list[dict[str, Any]]:
        names = [] if route.access == rest.ACCESS_WORKLOAD else [VERSION_HEADER]
        names += [REQUEST_HEADERS[header] for header in rules.method_rule(route.method).headers]
        return [{"$ref": f"#/components/parameters/{name}"} for name in names]

    def _parameter(self, param: Param) -> dict[str, Any]:
        schema = self._messages.field(param.field, Direction.REQUEST)
        if param.in_path and schema.get("type") == "string" and "pattern" not in schema:
            schema = {"minLength": 1, **schema}
        told = self._comments.get(param.field.full_name)
        return {
            "name": param.wire,
            "in": "path" if param.in_path else "query",
            "required": param.in_path or rules.is_required(param.field),
            **({"description": told} if told else {}),
            "schema": schema,
        }

    def _body(self, route: Route) -> dict[str, Any] | None:
        if not route.body:
            return None
        request = route.method.input_type
        if route.body == "*":
            schema = self._messages.message(request, Direction.REQUEST, _filled_by_path(route, 1))
            required = rules.union_of(request) is not None or any(rules.is_required(f) for f in request.fields)
        else:
            field = request.fields_by_name[route.body]
            direction = Direction.PATCH if route.has_update_mask else Direction.REQUEST
            schema = self._messages.message(rules.message_type(field), direction, _filled_by_path(route, 2))
            required = rules.is_required(field)
        return {"required": required, "content": {JSON: {"schema": schema}}}

    # --- response

    def _successes(self, route: Route) -> dict[str, Any]:
        if route.success == 204:
            return {"204": {"description": _STATUS[204]}}
        answer: dict[str, Any] = {"description": _STATUS[route.success]}
        if route.paged:
            answer["headers"] = {
                "AnyCloud-Total-Count": {"$ref": f"#/components/headers/{TOTAL_HEADER}"},
                "Link": {"$ref": f"#/components/headers/{LINK_HEADER}"},
            }
        if route.streams:
            answer["content"] = {NDJSON: {"schema": self._stream(route)}}
        else:
            answer["content"] = {JSON: {"schema": self._answer(route)}}
        successes = {str(route.success): answer}
        if route.no_content_when_unset:
            successes["204"] = {"description": "There is nothing."}
        return successes

    def _answer(self, route: Route) -> Schema:
        output: Descriptor = route.method.output_type
        if route.response_body:
            schema = self._messages.field(output.fields_by_name[route.response_body], Direction.RESPONSE)
        else:
            schema = self._messages.message(output, Direction.RESPONSE)
        if not route.wrap:
            return schema
        # A name of its own, or generated clients would call it InlineObject.
        name = f"{route.method.name}Answer"
        return self._messages.put(name, closed({route.wrap: schema}, [route.wrap]), route.grpc_path)

    def _stream(self, route: Route) -> Schema:
        """The body is text of many lines; `contentSchema` is that of one line."""
        line = self._messages.message(route.method.output_type, Direction.RESPONSE)
        codes = sorted({c for c in (route.unavailable, *route.errors) if c})
        failure = closed({"error": self._problems.one_of(codes)}, ["error"])
        last = self._messages.put(f"{route.method.name}Failure", failure, route.grpc_path)
        return {
            "type": "string",
            "description": "One JSON object a line. A failure after the first line is the last line.",
            "contentMediaType": NDJSON,
            "contentSchema": {"oneOf": [line, last]},
        }


def path(route: Route) -> str:
    """Variables bear the names of their parameters."""
    wires = {".".join(p.path): p.wire for p in route.params if p.in_path}
    return VARIABLE.sub(lambda found: f"{{{wires[found[1]]}}}", route.path)


def _filled_by_path(route: Route, depth: int) -> frozenset[str]:
    """Fields of the body's message that path variables fill."""
    return frozenset(p.path[-1] for p in route.params if p.in_path and len(p.path) == depth)
