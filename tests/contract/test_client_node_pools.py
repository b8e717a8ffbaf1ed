"""The published client on node pools."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.contract.sdk import Judge
from tests.contract.world import Api, World
from tests.support.installation import until

WANTED = {
    "name": "extra",
    "credentialName": "aws",
    "region": "us-east-1",
    "vmTypes": ["m5.large"],
    "minVmCount": 1,
    "maxVmCount": 1,
}


def test_node_pools_are_found_by_id_name_and_cluster(world: World, judge: Judge) -> None:
    everything = judge.operation(world.hosted, "list_node_pools").value("ListNodePoolsResponse", 200)["nodePools"]
    assert world.pool["id"] in [pool["id"] for pool in everything]
    for cluster in (world.cluster["id"], "contract"):
        of_cluster = judge.operation(world.hosted, "list_node_pools", cluster=cluster).value(
            "ListNodePoolsResponse", 200
        )
        assert of_cluster["nodePools"] == everything
    for pool in (world.pool["id"], "pool"):
        found = judge.operation(world.hosted, "get_node_pool", id=pool).value("NodePoolResponse", 200)["nodePool"]
        assert found["id"] == world.pool["id"]
        assert found["capacity"]["readyVmCount"] == 2
        assert found["ingress"] == {"entryIp": None, "release": None}


def test_a_node_pool_is_made_and_deleted(world: World, judge: Judge, unique: Callable[[str], str]) -> None:
    name = unique("short")
    made = judge.operation(world.hosted, "create_node_pool", create_node_pool_input={**WANTED, "name": name}).value(
        "NodePoolResponse", 202
    )["nodePool"]
    assert (made["state"], made["releasing"], made["zone"]) == ("provisioning", False, None)
    deleted = judge.operation(world.hosted, "delete_node_pool", id=made["id"]).value("NodePoolResponse", 202)
    assert (deleted["nodePool"]["state"], deleted["nodePool"]["releasing"]) == ("terminated", True)
    again = judge.operation(world.hosted, "delete_node_pool", id=made["id"]).value("NodePoolResponse", 202)
    assert again["nodePool"]["state"] == "terminated"
    until(lambda: not world.hosted.ask("GET", f"/node-pools/{made['id']}")["nodePool"]["releasing"], 60)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"name": "a b"}, "a b"),
        ({"minVmCount": 1, "maxVmCount": 2}, "--max-vms"),
        ({"minVmCount": 0, "maxVmCount": 0}, "--min-vms"),
        ({"region": "mars-north-1"}, "mars-north-1"),
        ({"zone": "eu-west-1a"}, "eu-west-1a"),
        ({"region": None}, "region"),
        ({"vmTypes": ["m5.large", "m5.xlarge"]}, "one VM type"),
    ],
)
def test_an_unusable_node_pool_is_refused_by_its_field(
    world: World, judge: Judge, changed: dict[str, Any], says: str
) -> None:
    body = {name: value for name, value in {**WANTED, **changed}.items() if value is not None}
    error = judge.operation(world.hosted, "create_node_pool", create_node_pool_input=body).refused(
        400, "NODE_POOL_INVALID"
    )
    assert says in error["message"]


def test_refusals_of_a_new_node_pool(world: World, judge: Judge) -> None:
    def refused(status: int, code: str, **changed: Any) -> dict[str, Any]:
        body = {**WANTED, **changed}
        return judge.operation(world.hosted, "create_node_pool", create_node_pool_input=body).refused(status, code)

    assert "nobodys" in refused(400, "NODE_POOL_CREDENTIAL_NOT_FOUND", credentialName="nobodys")["message"]
    assert "elsewhere" in refused(404, "CLUSTER_NOT_FOUND", cluster="elsewhere")["message"]
    refused(409, "NODE_POOL_ALREADY_EXISTS", name="pool")
    refused(409, "NODE_POOL_ALREADY_EXISTS", name="POOL")


def test_an_installer_has_no_node_pools(local: Api, world: World, judge: Judge) -> None:
    error = judge.operation(local, "create_node_pool", create_node_pool_input=WANTED).refused(
        400, "NODE_POOLS_UNAVAILABLE"
    )
    assert f"anycloud api use {world.hosted.url}" in error["message"]
    assert judge.operation(local, "list_node_pools").value("ListNodePoolsResponse", 200) == {"nodePools": []}


def test_a_fenced_cluster_takes_no_node_pool(world: World, judge: Judge, unique: Callable[[str], str]) -> None:
    """What an installer does first when it deletes a cluster, and takes back when somebody was faster."""
    delete_id = unique("del")
    refused = world.hosted.call("DELETE", "/clusters/contract", **{"anycloud-installer-delete": delete_id})
    assert refused.json()["code"] == "CLUSTER_REFERENCED"
    world.hosted.ask("DELETE", "/clusters/contract", **{"anycloud-installer-withdraw": delete_id})
    late = world.hosted.call("DELETE", "/clusters/contract", **{"anycloud-installer-delete": delete_id})
    assert (late.status_code, late.json()["code"]) == (409, "CLUSTER_BUSY")


@pytest.mark.parametrize("operation", ["get_node_pool", "delete_node_pool"])
def test_a_node_pool_that_there_is_not(hosted: Api, judge: Judge, operation: str) -> None:
    judge.operation(hosted, operation, id="nope").refused(404, "NODE_POOL_NOT_FOUND")


def test_node_pools_of_a_cluster_that_there_is_not(hosted: Api, judge: Judge) -> None:
    judge.operation(hosted, "list_node_pools", cluster="nope").refused(404, "CLUSTER_NOT_FOUND")


def test_a_node_pool_with_a_deployment_is_not_deleted(world: World, judge: Judge, parked: dict[str, Any]) -> None:
    error = judge.operation(world.hosted, "delete_node_pool", id="pool").refused(409, "NODE_POOL_REFERENCED")
    assert parked["id"] in error["message"]
