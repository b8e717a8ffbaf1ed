"""The published client while a cluster is made, fails, is taken apart, and gets lost: told in its order, in an
installation of its own."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.sdk import Judge
from tests.contract.world import ACCOUNT, CREDENTIAL, PLACE, SIGN_IN, World
from tests.support.installation import Installation, kill, until

SIGNED_IN = {"_headers": {"AnyCloud-GitHub-Token": SIGN_IN}}
WANTED = {"name": "brief", "credentialName": "aws", **PLACE}
POOL = {
    "name": "pool",
    "credentialName": "aws",
    "region": "us-east-1",
    "vmTypes": ["m5.large"],
    "minVmCount": 1,
    "maxVmCount": 1,
}


@pytest.fixture(scope="module", autouse=True)
def credential(spare: World) -> None:
    spare.local.ask("PUT", "/credentials/aws", CREDENTIAL)


def create(judge: Judge, spare: World, **changed: str) -> Any:
    return judge.operation(spare.local, "create_cluster", create_cluster_input={**WANTED, **changed}, **SIGNED_IN)


def shown(spare: World, cluster: str = "brief") -> dict[str, Any]:
    return dict(spare.local.ask("GET", f"/clusters/{cluster}")["cluster"])


def fault(installation: Installation, effect: str, **match: str) -> str:
    """Makes the world refuse something until the fault is removed; its id."""
    return str(installation.world("POST", "/faults", {"effect": effect, "match": match})["id"])


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"name": "1digit"}, "name"),
        ({"name": "under_score"}, "name"),
        ({"credentialName": "nobodys"}, "nobodys"),
        ({"region": "mars-north-1"}, "mars-north-1"),
        ({"zone": "eu-west-1a"}, "eu-west-1a"),
        ({"vmType": "z9.tiny"}, "z9.tiny"),
    ],
)
def test_an_unusable_cluster_is_refused_by_its_field(
    spare: World, judge: Judge, changed: dict[str, str], says: str
) -> None:
    assert says in create(judge, spare, **changed).refused(400, "CLUSTER_INVALID")["message"]
    assert judge.operation(spare.local, "list_clusters").value("ListClustersResponse", 200) == {"clusters": []}


def test_without_a_github_sign_in_no_cluster_is_made(spare: World, judge: Judge) -> None:
    judge.operation(spare.local, "create_cluster", create_cluster_input=WANTED).refused(403, "GITHUB_SIGN_IN_REQUIRED")


def test_a_cluster_that_failed_is_resumed_or_deleted(spare: World, judge: Judge) -> None:
    refusing = fault(spare.installation, "invalid", area="cloud", action="CreateMachine")
    made = create(judge, spare).value("ClusterResponse", 202)["cluster"]
    assert (made["state"], made["releasing"], made["release"]) == ("provisioning", False, None)
    judge.operation(spare.local, "destroy_cluster", id="brief", **SIGNED_IN).refused(409, "CLUSTER_BUSY")
    judge.operation(spare.local, "forget_cluster", id="brief", **SIGNED_IN).refused(409, "CLUSTER_BUSY")
    failed = until(lambda: (found := shown(spare))["state"] == "failed" and found, 30)
    assert "injected" in failed["lastError"]
    create(judge, spare, name="other").refused(409, "CLUSTER_EXISTS")
    create(judge, spare, vmType="t3.xlarge").refused(409, "CLUSTER_EXISTS")
    resumed = create(judge, spare).value("ClusterResponse", 202)["cluster"]
    assert resumed["id"] == made["id"]
    until(lambda: shown(spare)["state"] == "failed", 30)
    spare.installation.world("DELETE", f"/faults/{refusing}")


def test_a_deletion_that_fails_can_only_be_repeated(spare: World, judge: Judge) -> None:
    slow = {"effect": "slow", "match": {"area": "cloud", "action": "Delete*"}, "times": 1, "seconds": 3}
    spare.installation.world("POST", "/faults", slow)  # so that it is seen while it goes on
    refusing = fault(spare.installation, "auth", area="cloud", action="Delete*")
    gone = judge.operation(spare.local, "destroy_cluster", id="brief", **SIGNED_IN).value("ClusterResponse", 202)
    assert (gone["cluster"]["state"], gone["cluster"]["releasing"]) == ("terminated", True)
    create(judge, spare).refused(409, "CLUSTER_BUSY")
    until(lambda: shown(spare)["state"] == "failed", 30)
    create(judge, spare).refused(409, "CLUSTER_DESTROY_FAILED")
    spare.installation.world("DELETE", f"/faults/{refusing}")
    judge.operation(spare.local, "destroy_cluster", id="brief", **SIGNED_IN).value("ClusterResponse", 202)
    until(lambda: not shown(spare)["releasing"], 30)
    assert shown(spare)["state"] == "terminated"
    judge.operation(spare.local, "destroy_cluster", id="brief").value("ClusterResponse", 202)  # there is nothing left


def test_a_fenced_cluster_takes_no_node_pool(spare: World, judge: Judge) -> None:
    spare.make_cluster("lost")
    hosted = spare.hosted
    hosted.ask("PUT", "/credentials/aws", CREDENTIAL)
    fence = {"_headers": {"AnyCloud-Installer-Delete": "del-1"}}
    judge.operation(hosted, "destroy_cluster", id="lost", **fence).value("ClusterResponse", 202)
    judge.operation(hosted, "create_node_pool", create_node_pool_input=POOL).refused(409, "CLUSTER_NOT_ACCEPTING")
    withdraw = {"_headers": {"AnyCloud-Installer-Withdraw": "del-1"}}
    judge.operation(hosted, "destroy_cluster", id="lost", **withdraw).value("ClusterResponse", 202)
    judge.operation(hosted, "destroy_cluster", id="lost", **fence).refused(409, "CLUSTER_BUSY")


def test_a_cluster_whose_api_is_silent_is_neither_deleted_nor_forgotten_while_its_machine_is_there(
    spare: World, judge: Judge
) -> None:
    fault(spare.installation, "crash-loop", reference="*api*")
    supervisor = spare.installation.process("hosted/supervisor")
    assert supervisor
    kill(supervisor)
    until(lambda: spare.installation.process("hosted/envoy") is None, 20)
    error = judge.operation(spare.local, "destroy_cluster", id="lost", **SIGNED_IN).refused(409, "CLUSTER_UNREACHABLE")
    assert "anycloud cluster forget lost" in error["message"]
    judge.operation(spare.local, "forget_cluster", id="lost", **SIGNED_IN).refused(409, "CLUSTER_VM_PRESENT")


def test_a_cluster_that_is_lost_is_forgotten_with_what_it_left(spare: World, judge: Judge) -> None:
    keys = {"x-sandbox-key": f"{ACCOUNT}.key", "x-sandbox-secret": "sandbox"}
    for machine in spare.installation.bought("machines", ACCOUNT):
        spare.installation.world("POST", "/cloud/AWS/DeleteMachine", {"id": machine["id"]}, keys)
    ended = {"terminated"}
    until(lambda: {one["state"] for one in spare.installation.bought("machines", ACCOUNT)} == ended, 20)
    forgotten = judge.operation(spare.local, "forget_cluster", id="lost", **SIGNED_IN).value(
        "ForgetClusterResponse", 200
    )
    assert (forgotten["id"], forgotten["name"]) == (spare.cluster["id"], "lost")
    assert forgotten["leftovers"]
    judge.operation(spare.local, "get_cluster", id="lost").refused(404, "CLUSTER_NOT_FOUND")
    judge.operation(spare.local, "forget_cluster", id="lost", **SIGNED_IN).refused(404, "CLUSTER_NOT_FOUND")
