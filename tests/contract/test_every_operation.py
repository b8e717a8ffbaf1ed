"""What holds for each of the contract's operations."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from anycloud_gateway import routes
from anycloud_gateway.config import REST_PB

from tests.contract.operations import OPERATIONS, OURS, Operation
from tests.contract.sdk import Judge
from tests.contract.world import Api, World

# These two are there for clients of a neighbouring version too: to see what is served, and to have it changed.
_NEIGHBOURLY = ("get_system_release_status", "request_system_release")


def pattern(path: str) -> str:
    return re.sub(r"\{\w+\}", "{}", path)


def test_the_gateway_serves_the_contracts_operations_and_nothing_that_is_not_tested() -> None:
    served = Counter((method.verb.upper(), pattern(method.path)) for method in routes.methods(REST_PB))
    assert served == Counter((one.verb, pattern("/v1" + one.path)) for one in [*OPERATIONS, *OURS])


def test_the_published_client_has_these_operations_and_no_others(judge: Judge) -> None:
    assert sorted(one.name for one in OPERATIONS) == judge.operations()


@pytest.mark.parametrize("version", ["0.1.69", "0.1.71", "1.0.0", "", "nonsense"])
def test_another_version_of_the_client_is_told_so(hosted: Api, judge: Judge, version: str) -> None:
    error = judge.operation(hosted, "list_clusters", any_cloud_client_version=version).refused(
        400, "CLIENT_VERSION_MISMATCH"
    )
    assert "0.1.70" in error["message"]


@pytest.mark.parametrize("operation", [one for one in OPERATIONS if one.caller != "workload"], ids=lambda one: one.name)
def test_every_operation_of_a_user_wants_the_very_version(world: World, judge: Judge, operation: Operation) -> None:
    version = "1.1.70" if operation.name in _NEIGHBOURLY else "0.1.69"
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
