"""Error answers: for each status the declared codes, each a closed object of its own, and what is not declared."""

from __future__ import annotations

from typing import Any

from anycloudapi.common.v1 import errors_pb2

from anycloud_common import errors
from anycloud_common.rest.openapi.messages import Messages
from anycloud_common.rest.openapi.values import Direction, Schema, closed
from anycloud_common.rest.route import Route

UNDECLARED = "UndeclaredError"


class Problems:
    def __init__(self, messages: Messages) -> None:
        self._messages = messages

    def responses(self, route: Route) -> dict[str, Any]:
        """Status -> response. `default` is every status that declares nothing."""
        by_status: dict[int, list[str]] = {}
        for code in sorted(errors.common_codes(route.access) | set(route.errors)):
            if code not in errors.DECLARED:
                raise ValueError(f"{route.method.full_name} names an error that is not declared: {code}")
            by_status.setdefault(errors.DECLARED[code].http, []).append(code)
        declared = {str(status): self._response(codes) for status, codes in sorted(by_status.items())}
        return {**declared, "default": _answer("Any other error.", self.undeclared())}

    def _response(self, codes: list[str]) -> dict[str, Any]:
        return _answer(f"{', '.join(codes)}, or an undeclared error.", self.one_of(codes))

    def one_of(self, codes: list[str]) -> Schema:
        return {"oneOf": [*(self._declared(code) for code in codes), self.undeclared()]}

    def _declared(self, code: str) -> Schema:
        declared = errors.DECLARED[code]
        properties: dict[str, Schema] = {
            "code": {"type": "string", "enum": [code]},
            "defined": {"type": "boolean", "const": True},
            "message": {"type": "string"},
            "status": {"type": "integer", "enum": [declared.http]},
        }
        if declared.data:
            data = errors_pb2.DESCRIPTOR.pool.FindMessageTypeByName(declared.data)
            properties["data"] = self._messages.message(data, Direction.RESPONSE)
        name = "".join(word.capitalize() for word in code.split("_")) + "Error"
        return self._messages.put(name, closed(properties, list(properties)), code)

    def undeclared(self) -> Schema:
        properties: dict[str, Schema] = {
            "code": {"type": "string"},
            "defined": {"type": "boolean", "const": False},
            "message": {"type": "string"},
            "status": {"type": "integer"},
            "data": {},
        }
        return self._messages.put(UNDECLARED, closed(properties, ["code", "defined", "message", "status"]), UNDECLARED)


def _answer(description: str, schema: Schema) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}
