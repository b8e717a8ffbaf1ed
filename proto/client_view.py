"""The OpenAPI document as the generators of the SDKs need it.

sdk/openapi.yaml says exactly what the API does. A client should not break when the API learns more, and generators
stumble over parts of OpenAPI 3.1. So the view differs in these points:

* One `ApiError` for every error of every operation. Its code is text, so an error that is newer than the SDK is decoded
  too. (A union of constants is what generators fail at: they make text of constant booleans, and then nothing matches.)
* Answers are open objects: keys that the SDK doesn't know are passed over. So are the bodies of PATCH, since in Go null
  for a list can be said only by an additional property.
* Words that an answer may bring are not checked, as there may be more of them in the next release.
* The version header is no argument: `connect` sets it.
* Null is said as OpenAPI 3.0 says it, which all generators know.
* Text or a list of text is one type with a name.
* A stream of lines is bytes where the generator (Python's) takes no text of a type that it doesn't know.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

Json = Any
Schema = dict[str, Json]

_SCHEMAS: Final = "#/components/schemas/"
_VERSION_PARAMETER: Final = {"$ref": "#/components/parameters/ClientVersion"}
_API_ERROR: Final = {
    "type": "object",
    "description": "Why a call failed. Which codes an operation has, openapi.yaml says.",
    "properties": {
        "code": {"type": "string"},
        "defined": {"type": "boolean", "description": "The code is one that the operation declares."},
        "message": {"type": "string"},
        "status": {"type": "integer", "format": "int32", "description": "The HTTP status."},
        "data": {"description": "More about the code; its shape is that of the code's `data` in openapi.yaml."},
    },
    "required": ["code", "defined", "message", "status"],
}


def client_view(document: dict[str, Json], lines_are_bytes: bool = False) -> dict[str, Json]:
    """OpenAPI 3.1 as `anycloud_common.rest.openapi` makes it -> OpenAPI 3.0 for generators."""
    view: dict[str, Json] = _each_schema(document, _without_null)
    view["openapi"] = "3.0.3"
    view["info"] = {**view["info"], "description": "Times are epoch milliseconds."}
    schemas = {name: s for name, s in view["components"]["schemas"].items() if not _is_error(s)}
    view["components"]["schemas"] = {**schemas, "ApiError": _API_ERROR, "StringOrList": _STRING_OR_LIST}
    view["components"]["parameters"].pop("ClientVersion")
    for operation in _operations(view):
        _simplify(operation, {"format": "binary"} if lines_are_bytes else {})
    _open_answers(view)
    return view


def _operations(view: dict[str, Json]) -> list[dict[str, Json]]:
    return [operation for verbs in view["paths"].values() for operation in verbs.values()]


def _is_error(schema: Schema) -> bool:
    return {"code", "defined", "message", "status"} <= set(schema.get("properties", {})) or schema.get("required") == [
        "error"
    ]


def _simplify(operation: dict[str, Json], lines: Schema) -> None:
    """`lines`: what more is said about the text of a stream."""
    operation["parameters"] = [p for p in operation.get("parameters", []) if p != _VERSION_PARAMETER]
    success = {status: answer for status, answer in operation["responses"].items() if status.startswith("2")}
    for answer in success.values():
        for content in answer.get("content", {}).values():
            if content["schema"].pop("contentSchema", None):
                content["schema"].pop("contentMediaType")
                content["schema"].update(lines)
    failure = {"description": "Why it failed.", "content": {"application/json": {"schema": _ref("ApiError")}}}
    operation["responses"] = {**success, "default": failure}


# --- null, and text or a list of text

_STRING_OR_LIST: Final = {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}


def _ref(name: str) -> Schema:
    return {"$ref": f"{_SCHEMAS}{name}"}


def _each_schema(value: Json, change: Callable[[Schema], Schema]) -> Json:
    """Every object within, changed from the inside out."""
    if isinstance(value, dict):
        return change({key: _each_schema(inner, change) for key, inner in value.items()})
    if isinstance(value, list):
        return [_each_schema(inner, change) for inner in value]
    return value


def _without_null(schema: Schema) -> Schema:
    null = {"type": "null"}
    kind = schema.get("type")
    if isinstance(kind, list):
        (only,) = (k for k in kind if k != "null")
        return {**schema, "type": only, "nullable": True}
    for key in ("oneOf", "anyOf"):
        choices = schema.get(key)
        if not choices or (null not in choices and not _is_string_or_list(choices)):
            continue
        rest = [choice for choice in choices if choice != null]
        others = {k: v for k, v in schema.items() if k != key}
        named = [_ref("StringOrList")] if _is_string_or_list(rest) else rest
        nullable = {"nullable": True} if null in choices else {}
        return {**others, "allOf": named, **nullable} if len(named) == 1 else {**others, key: named, **nullable}
    return schema


def _is_string_or_list(choices: list[Schema]) -> bool:
    return [choice.get("type") for choice in choices if choice.get("type") != "null"] == ["string", "array"]


# --- answers


def _open_answers(view: dict[str, Json]) -> None:
    """Answers take keys and words that the SDK doesn't know, changes take keys."""
    schemas = view["components"]["schemas"]
    answers = _reachable(schemas, [operation["responses"] for operation in _operations(view)])
    changes = _reachable(
        schemas, [verbs["patch"]["requestBody"] for verbs in view["paths"].values() if "patch" in verbs]
    )
    for name in answers | changes:
        schema = schemas[name]
        if schema.get("additionalProperties") is False:
            del schema["additionalProperties"]
        if "enum" in schema and name in answers:
            words = ", ".join(f"`{word}`" for word in schema.pop("enum"))
            schema["description"] = f"One of {words}; later releases may have more."


def _reachable(schemas: dict[str, Schema], roots: list[Json]) -> set[str]:
    found: set[str] = set()
    waiting = list(roots)
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
        elif isinstance(value, str) and value.startswith(_SCHEMAS):
            name = value.removeprefix(_SCHEMAS)
            if name not in found:
                found.add(name)
                waiting.append(schemas[name])
    return found
