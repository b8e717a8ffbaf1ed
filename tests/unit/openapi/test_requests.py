"""The document and the codec have the same idea of a good request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from anycloud_common.rest import Invalid, wrapper
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.openapi.documents import OPERATIONS, Operation
from tests.unit.openapi.random_json import allowed, broken

SETTINGS = settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
with_body = pytest.mark.parametrize(
    "found", [pytest.param(o, id=name) for name, o in OPERATIONS.items() if "requestBody" in o.said]
)
every_operation = pytest.mark.parametrize("found", [pytest.param(o, id=name) for name, o in OPERATIONS.items()])


def parameters(found: Operation) -> dict[str, dict[str, Any]]:
    return {p["name"]: p for p in found.said.get("parameters", []) if "name" in p}


def texts(value: Any) -> list[str]:
    if isinstance(value, list):
        return [text for item in value for text in texts(item)]
    if isinstance(value, float):
        return [f"{value:.6f}"]  # URLs have short exponents only
    return [value if isinstance(value, str) else orjson.dumps(value).decode()]


@st.composite
def given_parameters(draw: st.DrawFn, found: Operation) -> dict[str, Any]:
    return {
        name: draw(allowed(said["schema"], found.document))
        for name, said in parameters(found).items()
        if said["required"] or draw(st.booleans())
    }


def refusal(found: Operation, values: dict[str, Any], body: Any = None) -> Invalid | None:
    """What the codec says about the request, as Envoy hands it on."""
    route = found.binding.route
    wrapped: Any = wrapper.message_class(route)()
    for param in route.params:
        target = wrapped
        for step in param.path[:-1]:
            target = getattr(target, step)
        getattr(target, param.path[-1]).extend(texts(values[param.wire]) if param.wire in values else [])
    if "requestBody" in found.said:
        wrapped.http_body.data = orjson.dumps(body)
        wrapped.http_body.content_type = "application/json"
    try:
        found.binding.decode(wrapped.SerializeToString())
    except Invalid as e:
        return e
    return None


@with_body
@SETTINGS
@given(data=st.data())
def test_what_the_document_allows_is_taken(found: Operation, data: st.DataObject) -> None:
    body = data.draw(allowed(found.body, found.document))
    values = data.draw(given_parameters(found))
    assert found.judge(found.body).is_valid(body)
    assert refusal(found, values, body) is None


@with_body
@SETTINGS
@given(data=st.data())
def test_the_codec_refuses_a_body_if_and_only_if_the_document_does(found: Operation, data: st.DataObject) -> None:
    body = data.draw(broken(found.body, found.document))
    values = data.draw(given_parameters(found))
    assert (refusal(found, values, body) is None) == found.judge(found.body).is_valid(body)


@with_body
@SETTINGS
@given(data=st.data())
def test_null_is_taken_where_the_document_allows_it(found: Operation, data: st.DataObject) -> None:
    body = data.draw(allowed(found.body, found.document))
    values = data.draw(given_parameters(found))
    judge = found.judge(found.body)
    for nulled in with_one_null(body):
        assert (refusal(found, values, nulled) is None) == judge.is_valid(nulled)


def with_one_null(body: Any) -> Iterator[Any]:
    for key, value in body.items() if isinstance(body, dict) else ():
        yield {**body, key: None}
        yield from ({**body, key: inner} for inner in with_one_null(value))


@every_operation
@SETTINGS
@given(data=st.data())
def test_parameters_that_the_document_allows_are_taken(found: Operation, data: st.DataObject) -> None:
    body = data.draw(allowed(found.body, found.document)) if "requestBody" in found.said else None
    assert refusal(found, data.draw(given_parameters(found)), body) is None


@every_operation
@SETTINGS
@given(data=st.data())
def test_a_parameter_out_of_its_bounds_is_refused(found: Operation, data: st.DataObject) -> None:
    body = data.draw(allowed(found.body, found.document)) if "requestBody" in found.said else None
    values = data.draw(given_parameters(found))
    for name, said in parameters(found).items():
        for wrong in _out_of_bounds(found, said["schema"]):
            assert refusal(found, {**values, name: wrong}, body) is not None
        if said["required"] and said["in"] == "query":
            assert refusal(found, {k: v for k, v in values.items() if k != name}, body) is not None


def _out_of_bounds(found: Operation, schema: dict[str, Any]) -> list[Any]:
    """Values that the schema refuses; an empty path variable never arrives."""
    candidates: list[Any] = ["?", 2**53, -1, 0, "x" * 5000, 1.5]
    judge = found.judge(schema)
    return [value for value in candidates if not judge.is_valid(value) and _stays(schema, value)]


def _stays(schema: dict[str, Any], value: Any) -> bool:
    """The value is as wrong when it is written in a URL as in JSON: a number is text there."""
    return not (schema.get("type") == "string" and not isinstance(value, str)) and schema.get("type") != "array"
