"""What holds for each of the contract's operations."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from anycloud_common.errors import DECLARED
from anycloud_gateway import routes
from anycloud_gateway.config import REST_PB

from tests.contract.operations import OPERATIONS, OURS, Operation
from tests.contract.sdk import Judge
from tests.contract.world import Api, World

# These two are there for clients of a neighbouring version too: to see what is served, and to have it changed.
_NEIGHBOURLY = ("get_system_release_status", "request_system_release")


NOT_OF_THE_CLIENT = (
    "test_authorization.py",
    "test_every_operation.py",
    "test_exchanges.py",
    "test_grpc.py",
    "test_held_calls.py",
    "test_hostile.py",
    "test_schemathesis.py",
)


def pattern(path: str) -> str:
    return re.sub(r"\{\w+\}", "{}", path)


def test_the_gateway_serves_the_contracts_operations_and_nothing_that_is_not_tested() -> None:
    served = Counter((method.verb.upper(), pattern(method.path)) for method in routes.methods(REST_PB))
    assert served == Counter((one.verb, pattern("/v1" + one.path)) for one in [*OPERATIONS, *OURS])


def test_the_published_client_has_these_operations_and_no_others(judge: Judge) -> None:
    assert sorted(one.name for one in OPERATIONS) == judge.operations()


def test_the_client_reads_every_error_that_can_be_produced() -> None:
    """By name among the tests of the client; of the others it is said why not."""
    never = {
        "BUCKET_ACCESS_DENIED": "buckets aren't served",
        "BUCKET_CREDENTIAL_NOT_READY": "buckets aren't served",
        "BUCKET_NOT_FOUND": "buckets aren't served",
        "BUCKET_THROTTLED": "buckets aren't served",
        "DELIVERY_FAILED": "no notifications are sent",
        "SERVICE_UPGRADE_CONFLICT": "there are no services",
        "SERVICE_UPGRADE_INVALID": "there are no services, and the client sends no body without the declared form",
        "SERVICE_UPGRADE_UNAVAILABLE": "there are no services",
        "SYSTEM_RELEASE_STALE": "the API isn't moved to another image yet",
    }
    tests = [file for file in Path(__file__).parent.glob("test_*.py") if file.name not in NOT_OF_THE_CLIENT]
    text = "".join(file.read_text(encoding="utf-8") for file in tests)
    here = {"CLIENT_VERSION_MISMATCH", "UNAUTHORIZED"}
    assert {code for code in DECLARED if f'"{code}"' not in text} - here == set(never)


@pytest.mark.parametrize("version", ["0.1.69", "0.1.71", "1.0.0", "", "nonsense"])
def test_another_version_of_the_client_is_told_so(hosted: Api, judge: Judge, version: str) -> None:
    error = judge.operation(hosted, "list_clusters", any_cloud_client_version=version).refused(
        400, "CLIENT_VERSION_MISMATCH"
    )
    assert "0.1.70" in error["message"]


@pytest.mark.parametrize("operation", [one for one in OPERATIONS if one.caller != "workload"], ids=lambda one: one.name)
def test_every_operation_of_a_user_wants_the_very_version(world: World, judge: Judge, operation: Operation) -> None:
    version = "1.1.70" if operation.name in _NEIGHBOURLY else "0.1.69"
    for _ in ("as Client calls it", "as AsyncClient does"):
        judge.operation(world.local, operation.name, **operation.arguments, any_cloud_client_version=version).refused(
            400, "CLIENT_VERSION_MISMATCH"
        )


@pytest.mark.parametrize(
    "operation",
    ["list_clusters", "list_node_pools", "list_deployments", "list_secrets", "get_system_release_status"],
)
def test_the_client_reads_that_its_token_is_unknown(hosted: Api, judge: Judge, operation: str) -> None:
    """One operation of each service: each of them delays whoever fails often. All the others are in
    test_authorization.py."""
    judge.operation(Api(hosted.url, "acapi_unknown"), operation).refused(401, "UNAUTHORIZED")
