"""What the generators are given instead of openapi.yaml."""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any

import openapi_spec_validator
import pytest

from tests.sdk.test_operations import DOCUMENT
from tests.support.installation import ROOT

Json = dict[str, Any]


@pytest.fixture(scope="module")
def view() -> Json:
    sys.path.insert(0, str(ROOT / "proto"))
    try:
        made: Json = importlib.import_module("client_view").client_view(DOCUMENT)
    finally:
        sys.path.remove(str(ROOT / "proto"))
    return made


def operations(document: Json) -> dict[str, Json]:
    return {o["operationId"]: o for verbs in document["paths"].values() for o in verbs.values()}


def test_it_is_openapi_30(view: Json) -> None:
    openapi_spec_validator.validate(view)
    assert view["openapi"].startswith("3.0.")


def test_it_has_nothing_that_generators_stumble_over(view: Json) -> None:
    text = json.dumps(view)
    for stone in ('"const"', '"null"', "contentSchema", "ClientVersion"):
        assert stone not in text


def test_it_has_every_operation_with_its_parameters_and_successes(view: Json) -> None:
    seen = operations(view)
    assert list(seen) == list(operations(DOCUMENT))
    for name, said in operations(DOCUMENT).items():
        wanted = [p for p in said["parameters"] if "ClientVersion" not in p.get("$ref", "")]
        assert len(seen[name]["parameters"]) == len(wanted)
        successes = {status for status in said["responses"] if status.startswith("2")}
        assert set(seen[name]["responses"]) == successes | {"default"}


def test_requests_stay_exact_and_answers_are_open(view: Json) -> None:
    schemas = view["components"]["schemas"]
    assert schemas["DeploymentSpec"]["additionalProperties"] is False
    assert schemas["OutcomeReportOutcome"]["enum"] == ["completed", "errored", "invalid", "retryable"]
    assert "additionalProperties" not in schemas["Deployment"]
    assert "enum" not in schemas["WorkloadState"]


def test_no_error_is_left_but_one_and_the_shapes_of_data(view: Json) -> None:
    names = set(view["components"]["schemas"])
    assert [name for name in names if name.endswith("Error")] == ["ApiError"]
    assert {"CredentialErrorData", "CredentialInUseData", "SecretInUseData"} <= names


def test_the_document_is_left_as_it_is(view: Json) -> None:
    assert DOCUMENT["openapi"] == "3.1.0"
    assert "UndeclaredError" in DOCUMENT["components"]["schemas"]
    assert "contentSchema" in json.dumps(DOCUMENT)
