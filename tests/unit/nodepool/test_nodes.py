"""Nodes that claim a pool: its own, left-behind ones, and strays."""

from __future__ import annotations

import pytest
from anycloud_common.kube import names
from anycloud_nodepool.domain import naming

from tests.unit.nodepool.rig import Rig


@pytest.mark.req("NP-055", "NP-056")
@pytest.mark.parametrize("claim", ["label", "name", "name of a VM with another's label"])
async def test_a_node_that_claims_the_pool_without_being_its_vm_fails_it_and_is_never_counted(
    rig: Rig, claim: str
) -> None:
    pool_id = await rig.running()
    [own] = rig.world.node_facts
    name = {"label": "stranger", "name": naming.node_name(pool_id, 99, "1a2b3c4d")}.get(claim, own)
    labels = {names.LABEL_NODE_POOL: pool_id, names.LABEL_ATTEMPT: "at-99-x"} if claim != "name" else {}
    rig.world.add_node(name, labels)
    await rig.run(pool_id)
    pool = await rig.pool(pool_id)
    assert pool.state == "failed"
    assert f"kubectl delete node {name}" in (pool.last_error or "")
    assert pool.counts.ready == (0 if name == own else 1)


@pytest.mark.req("OPEN-035")
async def test_a_failed_pool_runs_again_once_the_stray_is_gone(rig: Rig) -> None:
    pool_id = await rig.running()
    rig.world.add_node("stranger", {names.LABEL_NODE_POOL: pool_id})
    await rig.run(pool_id)
    del rig.world.node_facts["stranger"]
    await rig.run(pool_id)
    pool = await rig.pool(pool_id)
    assert (pool.state, pool.last_error) == ("running", None)


@pytest.mark.req("NP-057")
async def test_a_node_left_by_a_released_vm_is_removed_and_fails_nothing(rig: Rig) -> None:
    pool_id = await rig.running()
    [(name, node)] = rig.world.node_facts.items()
    rig.lose_all()
    await rig.run(pool_id)
    assert name not in rig.world.node_facts
    rig.world.add_node(name, node.labels)
    states = []
    for _ in range(2):
        await rig.step(pool_id)
        states.append((await rig.pool(pool_id)).state)
    assert states == ["running", "running"]
    assert name not in rig.world.node_facts


@pytest.mark.req("NP-003")
async def test_a_siblings_nodes_are_no_strays(rig: Rig) -> None:
    one = await rig.running("one", 2)
    two = await rig.running("two", 2)
    for pool_id in (one, two):
        await rig.run(pool_id)
        pool = await rig.pool(pool_id)
        assert (pool.state, pool.counts.ready) == ("running", 2)


@pytest.mark.parametrize(
    ("name", "pool"),
    [
        ("np-abcdefghijkl-17-1a2b3c4d", "np-abcdefghijkl"),
        ("np-abcdefghijkl", None),
        ("np-abcdefghijkl-x-1a2b3c4d", None),
        ("main", None),
        ("dep-abcdefghijkl-17-1a2b3c4d", None),
    ],
)
def test_issued_names_tell_their_pool(name: str, pool: str | None) -> None:
    assert naming.pool_of_node(name) == pool
