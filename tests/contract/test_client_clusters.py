"""The published client on clusters, at the installer and at the API on the cluster."""

from __future__ import annotations

import pytest

from tests.contract.sdk import Judge
from tests.contract.world import PLACE, SIGN_IN, Api, World

SIGNED_IN = {"_headers": {"AnyCloud-GitHub-Token": SIGN_IN}}
WANTED = {"name": "another", "credentialName": "aws", **PLACE}


def test_the_installer_tells_where_the_cluster_runs_and_what_is_installed(world: World, judge: Judge) -> None:
    [listed] = judge.operation(world.local, "list_clusters").value("ListClustersResponse", 200)["clusters"]
    by_id = judge.operation(world.local, "get_cluster", id=world.cluster["id"]).value("ClusterResponse", 200)
    by_name = judge.operation(world.local, "get_cluster", id="contract").value("ClusterResponse", 200)
    assert listed["id"] == by_id["cluster"]["id"] == by_name["cluster"]["id"]
    assert {key: listed[key] for key in ("cloudProvider", "region", "zone", "vmType", "state")} == {
        "cloudProvider": "AWS",
        "region": "us-east-1",
        "zone": None,
        "vmType": "t3.large",
        "state": "running",
    }
    assert listed["release"] == {key: listed[key] for key in ("apiImage", "apiVersion", "chartVersion")}


@pytest.mark.req("CL-088", "CL-094", "CL-125")
def test_the_api_on_the_cluster_knows_itself_without_creation_facts(world: World, judge: Judge) -> None:
    [own] = judge.operation(world.hosted, "list_clusters").value("ListClustersResponse", 200)["clusters"]
    assert own["id"] == world.cluster["id"]
    assert own["managementApiUrl"] == world.hosted.url
    assert all(own[key] is None for key in ("cloudProvider", "region", "zone", "vmType"))
    assert own["activeNodePoolCount"] == 1


@pytest.mark.parametrize("operation", ["get_cluster", "destroy_cluster", "forget_cluster"])
def test_a_cluster_that_there_is_not(world: World, judge: Judge, operation: str) -> None:
    for api in (world.local, world.hosted):
        error = judge.operation(api, operation, id="nope/../x").refused(404, "CLUSTER_NOT_FOUND")
        assert "nope/../x" in error["message"]


@pytest.mark.parametrize("changed", [{}, {"name": "contract", "region": "eu-west-1"}, {"name": "CONTRACT"}])
def test_an_installation_has_one_cluster(world: World, judge: Judge, changed: dict[str, str]) -> None:
    body = {**WANTED, **changed}
    judge.operation(world.local, "create_cluster", create_cluster_input=body, **SIGNED_IN).refused(
        409, "CLUSTER_EXISTS"
    )


@pytest.mark.req("CL-012")
def test_a_hosted_api_makes_no_clusters(hosted: Api, judge: Judge) -> None:
    judge.operation(hosted, "create_cluster", create_cluster_input=WANTED).refused(503, "CLUSTER_UNAVAILABLE")


def test_a_hosted_api_does_not_take_its_own_cluster_apart(world: World, judge: Judge) -> None:
    error = judge.operation(world.hosted, "destroy_cluster", id="contract").refused(400, "CLUSTER_INVALID")
    assert "anycloud cluster delete contract" in error["message"]
    judge.operation(world.hosted, "forget_cluster", id="contract").refused(409, "CLUSTER_REACHABLE")


def test_a_cluster_with_node_pools_is_not_deleted(world: World, judge: Judge) -> None:
    error = judge.operation(world.local, "destroy_cluster", id="contract", **SIGNED_IN).refused(
        409, "CLUSTER_REFERENCED"
    )
    assert "anycloud node-pool delete pool" in error["message"]
    assert world.local.ask("GET", "/clusters/contract")["cluster"]["state"] == "running"


def test_a_cluster_is_deleted_with_a_sign_in_only(world: World, judge: Judge) -> None:
    judge.operation(world.local, "destroy_cluster", id="contract").refused(403, "GITHUB_SIGN_IN_REQUIRED")


def test_a_cluster_that_answers_is_not_forgotten(world: World, judge: Judge) -> None:
    judge.operation(world.local, "forget_cluster", id="contract", **SIGNED_IN).refused(409, "CLUSTER_REACHABLE")
