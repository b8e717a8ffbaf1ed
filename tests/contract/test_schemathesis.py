"""Requests that schemathesis makes of `sdk/openapi.yaml`, good ones and bad ones, against the live gateway: each answer
is one that the document has. ANYCLOUD_FUZZ_EXAMPLES makes it look longer."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from requests.adapters import HTTPAdapter
from schemathesis import GenerationMode
from schemathesis.checks import (
    content_type_conformance,
    negative_data_rejection,
    not_a_server_error,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.contract.world import SIGN_IN, VERSION, Api, World

EXAMPLES = int(os.environ.get("ANYCLOUD_FUZZ_EXAMPLES", "20"))
DOCUMENT = Path(__file__).resolve().parents[2] / "sdk" / "openapi.yaml"
SCHEMA = schemathesis.openapi.from_path(str(DOCUMENT))
SCHEMA.config.generation.update(with_security_parameters=False)
OPERATIONS: list[Any] = [found.ok() for found in SCHEMA.get_all_operations()]  # type: ignore[union-attr]
every_operation = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: str(one.label))
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
]
BOUNDED = settings(
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
# At a hosted API these are refused as not possible there, which is a 503; the installer is asked.
AT_THE_INSTALLER = ("POST /v1/clusters", "DELETE /v1/clusters/{id}", "POST /v1/clusters/{id}/forget")

Case = Any  # schemathesis.Case of some operation

_addresses = (f"127.{a}.{b}.{c}" for a, b, c in itertools.product(range(60, 80), range(250), range(1, 250)))


class FromItsOwnAddress(HTTPAdapter):
    """Whoever fails often is answered later, by address."""

    def init_poolmanager(self, *args: Any, **more: Any) -> None:
        super().init_poolmanager(*args, source_address=(next(_addresses), 0), **more)


@pytest.fixture
def session() -> Any:
    with requests.Session() as made:
        made.trust_env = False
        made.mount("http://", FromItsOwnAddress())
        yield made


@pytest.fixture(scope="module")
def job(world: World, parked: dict[str, Any]) -> Any:
    made = world.hosted.ask("POST", "/workloads", {"deployment": parked["id"]})["id"]
    yield made
    world.hosted.call("DELETE", f"/workloads/{made}")


@pytest.fixture(scope="module")
def passer_by(world: World) -> str:
    """Sign-in of somebody who isn't missed when all tokens have ended."""
    world.hosted.ask("POST", "/api-access/users", {"username": "fuzzer"}, **{"anycloud-github-token": SIGN_IN})
    return "ghs_sandbox_fuzzer"


@pytest.fixture
def caller(world: World, served: dict[str, Any], passer_by: str) -> Callable[[Any], Api]:
    """Whoever may call an operation."""

    def of(operation: Any) -> Api:
        if operation.label == "POST /v1/api-token":
            return Api(world.hosted.url, passer_by)
        if operation.label == "POST /v1/api-token/rotate":
            return Api(world.hosted.url, world.exchange(passer_by))
        if operation.label in AT_THE_INSTALLER:
            return world.local
        return world.worker(served) if "/jobs/" in operation.path else world.hosted

    return of


def cases(operation: Any) -> st.SearchStrategy[Case]:
    """As the document has it, and not."""
    return st.one_of([operation.as_strategy(mode) for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)])


def check(case: Case, api: Api, session: requests.Session, token: bool = True) -> int:
    """One call; its status."""
    if case.path.endswith("/logs"):
        (case.query or {}).pop("follow", None)  # would be held for as long as the container is there
    headers = {"authorization": f"Bearer {api.token}" if token else None, "anycloud-client-version": VERSION}
    answer = case.call(base_url=api.url, session=session, headers=headers, timeout=40)
    case.validate_response(answer, checks=CHECKS, headers=headers)
    return int(answer.status_code)


def named(case: Case, found: dict[str, str]) -> None:
    """Half of all calls are about what there is; else hardly one would get beyond "there is no such thing"."""
    for name in set(case.path_parameters or {}) & set(found):
        case.path_parameters[name] = found[name]


@every_operation
def test_every_answer_is_one_that_the_document_has(
    world: World,
    parked: dict[str, Any],
    served: dict[str, Any],
    job: str,
    caller: Callable[[Any], Api],
    session: requests.Session,
    operation: Any,
) -> None:
    home = "workloads" if "/workloads/" in operation.path else operation.path.split("/")[2]
    ids = {"workloads": job, "deployments": parked["id"], "clusters": world.cluster["id"], "node-pools": "pool"}
    found = {"deploymentId": served["id"], "credentialName": "aws"}
    if operation.method.upper() == "GET" and home in ids:
        found["id"] = ids[home]
    statuses = set()

    @settings(BOUNDED, max_examples=EXAMPLES)
    @given(case=cases(operation), real=st.booleans())
    def run(case: Case, real: bool) -> None:
        if real:
            named(case, found)
        statuses.add(check(case, caller(operation), session))

    run()
    assert statuses
    assert 401 not in statuses


@every_operation
def test_a_stranger_is_told_so_in_the_documents_words(world: World, session: requests.Session, operation: Any) -> None:
    statuses = set()

    @settings(BOUNDED, max_examples=3)
    @given(case=operation.as_strategy(GenerationMode.POSITIVE))
    def run(case: Case) -> None:
        statuses.add(check(case, world.hosted, session, token=False))

    run()
    assert statuses == {401}
