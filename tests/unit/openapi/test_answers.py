"""Whatever the codec makes of a handler's answer is what the document says."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from anycloud_common.errors import DECLARED, ApiError, Problem, common_codes, invalid_request, not_available
from anycloudapi.common.v1 import errors_pb2
from google.api import httpbody_pb2
from google.protobuf import message_factory
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.openapi.documents import OPERATIONS, PRODUCT, Operation, operation
from tests.unit.openapi.random_messages import message

FEW = settings(max_examples=6, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
of_the_product = pytest.mark.parametrize("found", [pytest.param(o, id=name) for name, o in PRODUCT.items()])
every_operation = pytest.mark.parametrize("found", [pytest.param(o, id=name) for name, o in OPERATIONS.items()])


def read(raw: bytes) -> tuple[int, bytes]:
    """Status and body as the gateway sends them."""
    body = httpbody_pb2.HttpBody.FromString(raw)
    status = body.content_type.rpartition("status=")[2] if "status=" in body.content_type else "200"
    return int(status), body.data


@every_operation
@FEW
@given(data=st.data())
def test_an_answer_of_the_codec_fits_the_document(found: Operation, data: st.DataObject) -> None:
    answer = data.draw(message(found.binding.route.method.output_type))
    status, body = read(found.binding.encode(answer))
    if status == 204:
        assert not body
        assert "content" not in found.said["responses"]["204"]
        return
    found.judge(found.answer(status)).validate(orjson.loads(body))


@every_operation
@FEW
@given(data=st.data())
def test_an_answer_with_one_key_less_or_more_does_not_fit(found: Operation, data: st.DataObject) -> None:
    answer = data.draw(message(found.binding.route.method.output_type))
    status, body = read(found.binding.encode(answer))
    value: Any = orjson.loads(body) if body else None
    schema = _resolved(found, found.answer(status)) if isinstance(value, dict) else {}
    judge = found.judge(schema)
    for key in schema.get("required", []):
        assert not judge.is_valid({name: inner for name, inner in value.items() if name != key})
    if schema.get("additionalProperties") is False:
        assert not judge.is_valid({**value, "another key": 1})


def _resolved(found: Operation, schema: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in schema:
        schema = found.document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def _problem(code: str, defined: bool) -> Problem:
    named = DECLARED[code].data
    kind = errors_pb2.DESCRIPTOR.pool.FindMessageTypeByName(named) if named else None
    return Problem.of(ApiError(code, "no", message_factory.GetMessageClass(kind)() if kind else None), defined)


@of_the_product
def test_declared_errors_fit_at_their_status_and_nowhere_else(found: Operation) -> None:
    route = found.binding.route
    declared = common_codes(route.access) | set(route.errors)
    by_status = {
        status: found.judge(found.answer(int(status)))
        for status in found.said["responses"]
        if status[0] > "2" and status != "default"
    }
    assert set(by_status) == {str(DECLARED[code].http) for code in declared}
    for code in DECLARED:
        fitting = {s for s, judge in by_status.items() if judge.is_valid(orjson.loads(_problem(code, True).to_json()))}
        assert fitting == ({str(DECLARED[code].http)} if code in declared else set())


@of_the_product
def test_an_undeclared_error_fits_at_every_status(found: Operation) -> None:
    problems = [invalid_request("no"), not_available("no"), _problem("CREDENTIAL_IN_USE", False)]
    for status, response in found.said["responses"].items():
        if status[0] == "2":
            continue
        judge = found.judge(response["content"]["application/json"]["schema"])
        assert all(judge.is_valid(orjson.loads(problem.to_json())) for problem in problems)
        assert not judge.is_valid({"code": 3, "message": "of grpc", "details": []})


def test_an_error_that_demands_data_does_not_fit_without_it() -> None:
    found = operation("Credentials/DeleteCredential")
    problem = orjson.loads(_problem("CREDENTIAL_IN_USE", True).to_json())
    judge = found.judge(found.answer(409))
    assert judge.is_valid(problem)
    del problem["data"]
    assert not judge.is_valid(problem)


def test_the_last_line_of_a_stream_may_be_a_failure() -> None:
    found = operation("Deployments/StreamLogs")
    failure = {"error": orjson.loads(_problem("DEPLOYMENT_UNAVAILABLE", True).to_json())}
    assert found.judge(found.answer(200)).is_valid(failure)
