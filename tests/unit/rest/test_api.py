"""The product's own protos, as the codec and the gateway take them."""

from __future__ import annotations

import importlib
import pkgutil

import anycloudapi
import pytest
from anycloud_common.rest import Binding, Codec, load, routes
from anycloud_common.rest.route import VARIABLE
from anycloudapi.common.v1 import errors_pb2
from anycloudapi.rest.v1 import options_pb2

MODULES = [m.name for m in pkgutil.walk_packages(anycloudapi.__path__, "anycloudapi.") if m.name.endswith("_pb2")]
SERVICES = [s for name in MODULES for s in importlib.import_module(name).DESCRIPTOR.services_by_name.values()]
BINDINGS = load(routes(SERVICES), Codec())
PUBLISHED = {
    (verb, f"/v1/{path}")
    for path, verbs in {
        "api-token": "post",
        "api-token/rotate": "post",
        "api-access/users": "get post",
        "api-access/users/{}": "delete",
        "clusters": "get post",
        "clusters/{}": "get delete",
        "clusters/{}/forget": "post",
        "node-pools": "get post",
        "node-pools/{}": "get delete",
        "deployments": "get post",
        "deployments/{}": "get patch delete",
        "deployments/{}/jobs/candidate": "get",
        "deployments/{}/jobs/{}/claim": "post",
        "deployments/{}/jobs/{}/cancellation": "get",
        "deployments/{}/jobs/{}/outcome": "post",
        "deployments/{}/jobs/{}/cleanup": "post",
        "workloads": "get post",
        "workloads/{}": "get delete",
        "workloads/{}/resubmissions": "post",
        "workloads/{}/claim-observation": "post",
        "workloads/{}/upgrades": "post",
        "workloads/{}/cost": "get",
        "workloads/{}/ssh-access": "get",
        "workload-costs": "get",
        "credentials": "get",
        "credentials/{}": "get put patch delete",
        "credentials/{}/buckets": "get",
        "credentials/{}/buckets/{}": "get put delete",
        "credentials/{}/buckets/{}/objects": "get delete",
        "secrets": "get",
        "secrets/{}": "put delete",
        "system-release": "get post",
        "database/schema": "get",
        "database/queries": "post",
        "notifications": "get",
        "notifications/{}": "put delete",
        "notifications/{}/test": "post",
        "quota/status": "get",
        "quota/canceled": "get",
        "spend/budgets": "get",
        "spend/budgets/{}/{}": "put delete",
        "spend/throttles": "get",
        "spend/throttles/{}": "put delete",
    }.items()
    for verb in verbs.split()
}
CODES = {value.name.removeprefix("ERROR_CODE_") for value in errors_pb2.ErrorCode.DESCRIPTOR.values}


@pytest.mark.parametrize("binding", [pytest.param(binding, id=path) for path, binding in BINDINGS.items()])
def test_every_route_of_the_api_can_be_served(binding: Binding) -> None:
    binding.compile()


def test_no_two_routes_share_verb_and_path() -> None:
    taken = [(b.route.verb, b.route.path) for b in BINDINGS.values()]
    assert len(set(taken)) == len(taken)


@pytest.mark.parametrize("binding", [pytest.param(binding, id=path) for path, binding in BINDINGS.items()])
def test_every_declared_error_exists(binding: Binding) -> None:
    route = binding.route
    assert {*route.errors, *filter(None, (route.invalid, route.unavailable))} <= CODES


@pytest.mark.req("BK-042")
def test_only_the_two_release_calls_tolerate_a_neighbouring_version() -> None:
    neighbours = options_pb2.VERSION_RULE_NEIGHBOUR
    tolerant = {b.route.grpc_path for b in BINDINGS.values() if b.route.client_version == neighbours}
    release = "/anycloudapi.release.v1.SystemRelease"
    assert tolerant == {f"{release}/GetSystemRelease", f"{release}/RequestSystemRelease"}


def test_all_operations_of_the_published_client_have_their_route() -> None:
    """By verb and path; what else there is, is ours."""
    offered = {(b.route.verb, VARIABLE.sub("{}", b.route.path)) for b in BINDINGS.values()}
    assert len(PUBLISHED) == 64
    assert offered - PUBLISHED == {("get", "/v1/deployments/{}/logs"), ("get", "/v1/workloads/{}/logs")}
    assert PUBLISHED - offered == set()
