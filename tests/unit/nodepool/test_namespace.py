"""The pool's Namespace and its default egress policy."""

from __future__ import annotations

import copy
from ipaddress import ip_address, ip_network
from typing import Any

import pytest
from anycloud_common.kube import names
from anycloud_nodepool.domain import egress

from tests.unit.nodepool.rig import Rig


def keys(pool_id: str) -> tuple[tuple[str, str, str], tuple[str, str, str]]:
    """Of Namespace and policy."""
    namespace = names.pool_namespace("cl-1", pool_id)
    return ("Namespace", "", namespace), ("NetworkPolicy", namespace, egress.POLICY)


async def held_pool(rig: Rig) -> str:
    pool_id = await rig.running()
    assert await rig.hold(pool_id) is None
    await rig.run(pool_id)
    return pool_id


@pytest.mark.req("DP-050", "DP-051")
async def test_the_first_hold_makes_namespace_and_policy_and_none_is_there_before(rig: Rig) -> None:
    pool_id = await rig.running()
    namespace, policy = keys(pool_id)
    assert namespace not in rig.world.objects
    await rig.hold(pool_id)
    await rig.run(pool_id)
    pool = await rig.pool(pool_id)
    assert pool.namespace == namespace[2]
    assert pool.namespace_uid == rig.world.objects[namespace]["metadata"]["uid"]
    assert policy in rig.world.objects
    await rig.hold(pool_id, "adm-2")
    await rig.run(pool_id)
    assert rig.world.count("create Namespace") == 1


@pytest.mark.req("AU-009")
async def test_an_edited_or_deleted_policy_comes_back(rig: Rig) -> None:
    pool_id = await held_pool(rig)
    _, policy = keys(pool_id)
    wanted = rig.world.objects[policy]["spec"]
    for spoil in ("spec", "labels", "delete"):
        edited = copy.deepcopy(rig.world.objects[policy])
        if spoil == "spec":
            edited["spec"]["egress"].append({})
        elif spoil == "labels":
            edited["metadata"]["labels"] = {}
        rig.world.objects[policy] = edited
        if spoil == "delete":
            del rig.world.objects[policy]
        await rig.run(pool_id)
        assert rig.world.objects[policy]["spec"] == wanted
        assert not egress.differs(rig.world.objects[policy], egress.policy("cl-1", pool_id))
    assert not [call for call in rig.world.calls if call.startswith(("get NetworkPolicy", "delete NetworkPolicy"))]


@pytest.mark.req("DP-052")
async def test_a_foreign_namespace_is_left_alone_and_told_until_it_is_gone(rig: Rig) -> None:
    pool_id = await rig.running()
    namespace, policy = keys(pool_id)
    rig.world.objects[namespace] = theirs = {"metadata": {"name": namespace[2], "uid": "theirs"}}
    await rig.hold(pool_id)
    await rig.run(pool_id)
    pool = await rig.pool(pool_id)
    assert pool.namespace is None
    assert f"kubectl delete namespaces {namespace[2]}" in (pool.namespace_error or "")
    assert pool.last_error == pool.namespace_error
    assert pool.state == "running"
    assert rig.world.objects[namespace] == theirs
    assert policy not in rig.world.objects
    del rig.world.objects[namespace]
    await rig.run(pool_id)
    pool = await rig.pool(pool_id)
    assert (pool.namespace, pool.namespace_error, pool.last_error) == (namespace[2], None, None)


async def test_a_namespace_that_somebody_deleted_is_made_anew_with_another_uid(rig: Rig) -> None:
    pool_id = await held_pool(rig)
    namespace, policy = keys(pool_id)
    before = (await rig.pool(pool_id)).namespace_uid
    await rig.world.delete("Namespace", namespace[2], None, before or "")
    await rig.run(pool_id)
    assert (await rig.pool(pool_id)).namespace_uid not in (before, None)
    assert policy in rig.world.objects


async def test_a_strangers_policy_of_our_name_in_our_namespace_is_left_alone(rig: Rig) -> None:
    pool_id = await held_pool(rig)
    _, policy = keys(pool_id)
    theirs = {"metadata": {"name": egress.POLICY, "namespace": policy[1], "uid": "theirs"}, "spec": {}}
    rig.world.objects[policy] = theirs
    uid = (await rig.pool(pool_id)).namespace_uid
    await rig.run(pool_id)
    assert rig.world.objects[policy] == theirs
    pool = await rig.pool(pool_id)
    assert "does not belong to Anycloud" in (pool.namespace_error or "")
    assert pool.namespace_uid == uid
    await rig.step(pool_id)
    assert await rig.pool(pool_id) == pool
    del rig.world.objects[policy]
    await rig.run(pool_id)
    assert (await rig.pool(pool_id)).namespace_error is None
    await rig.let_go()
    await rig.delete()
    await rig.run(pool_id)
    assert rig.world.named("Namespace") == []


def allowed(address: str, port: int) -> bool:
    """Whether the policy lets a Pod out to an address outside its Namespace."""
    for rule in egress.policy("cl-1", "np-1")["spec"]["egress"]:
        ports = [entry["port"] for entry in rule.get("ports", [])]
        for peer in rule["to"]:
            if "ipBlock" in peer and _within(address, peer["ipBlock"]) and (not ports or port in ports):
                return True
    return False


def _within(address: str, block: dict[str, Any]) -> bool:
    inside = ip_address(address) in ip_network(block["cidr"])
    return inside and not any(ip_address(address) in ip_network(hole) for hole in block.get("except", []))


@pytest.mark.req("DP-057", "DP-058", "DP-059")
@pytest.mark.parametrize(
    ("address", "port", "expected"),
    [
        ("1.1.1.1", 443, True),
        ("8.8.8.8", 53, True),
        ("172.31.0.2", 53, True),  # resolver of an AWS network
        ("10.42.7.9", 80, False),  # another Pod of the cluster
        ("10.43.0.1", 443, False),
        ("169.254.169.254", 53, True),
        ("169.254.169.254", 80, False),
        ("168.63.129.16", 53, True),
        ("168.63.129.16", 80, False),
    ],
)
def test_the_policy_allows_the_internet_and_the_resolver_and_neither_other_pods_nor_metadata(
    address: str, port: int, expected: bool
) -> None:
    assert allowed(address, port) is expected


@pytest.mark.req("DP-057")
def test_pods_of_the_pool_reach_each_other() -> None:
    assert {"to": [{"podSelector": {}}]} in egress.policy("cl-1", "np-1")["spec"]["egress"]
