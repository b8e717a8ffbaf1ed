"""Node pools as JSON, key by key as published clients expect them."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from anycloud_common.errors import ApiError
from anycloud_common.rest import Codec, Invalid
from anycloudapi.nodepool.v1 import node_pools_pb2

from tests.support.operations import Operation
from tests.unit.nodepool.rig import Rig

KEYS = {
    "id",
    "name",
    "clusterId",
    "state",
    "releasing",
    "cloudProvider",
    "region",
    "zone",
    "vmTypes",
    "minVmCount",
    "maxVmCount",
    "capacity",
    "liveReferences",
    "lastError",
    "ingressEntryIp",
    "ingress",
    "createdAt",
    "updatedAt",
}


async def shown(rig: Rig, name: str = "cpu") -> dict[str, Any]:
    read: dict[str, Any] = orjson.loads(Codec().json(await rig.get(name)))
    return read


@pytest.mark.req("NP-060", "NP-061", "IN-025")
async def test_a_running_pool_has_every_published_key_and_no_other(rig: Rig) -> None:
    pool_id = await rig.running(count=2)
    pool = await shown(rig)
    assert pool.keys() == KEYS
    times = pool.pop("createdAt"), pool.pop("updatedAt")
    assert all(isinstance(time, int) for time in times)
    assert pool == {
        "id": pool_id,
        "name": "cpu",
        "clusterId": "cl-1",
        "state": "running",
        "releasing": False,
        "cloudProvider": "AWS",
        "region": "us-east-1",
        "zone": None,
        "vmTypes": ["m5.large"],
        "minVmCount": 2,
        "maxVmCount": 2,
        "capacity": {
            "readyVmCount": 2,
            "startingVmCount": 0,
            "drainingVmCount": 0,
            "locations": [{"region": "us-east-1", "zone": None, "vmType": "m5.large"}],
        },
        "liveReferences": 0,
        "lastError": None,
        "ingressEntryIp": None,
        "ingress": {"entryIp": None, "release": None},
    }


@pytest.mark.req("NP-060", "OPEN-034")
async def test_states_are_the_published_ones(rig: Rig) -> None:
    pool_id = (await rig.create()).id
    seen = [await shown(rig)]
    rig.world.problem_list = ["no"]
    await rig.run(pool_id)
    rig.world.problem_list = []
    seen.append(await shown(rig))
    rig.world.add_node("stray", {"anycloud.sh/node-pool": pool_id})
    await rig.run(pool_id)
    seen.append(await shown(rig))
    rig.world.ending = False
    await rig.delete()
    await rig.run(pool_id)
    seen.append(await shown(rig, pool_id))
    rig.world.ending = True
    await rig.run(pool_id)
    seen.append(await shown(rig, pool_id))
    states = [(pool["state"], pool["releasing"]) for pool in seen]
    assert states == [
        ("provisioning", False),
        ("running", False),
        ("failed", False),
        ("terminated", True),
        ("terminated", False),
    ]


async def test_pools_are_listed_in_pages_when_a_limit_is_given(rig: Rig) -> None:
    for name in ("one", "two", "three"):
        await rig.create(name)
        await rig.clock.advance(1)
    listed = Operation(node_pools_pb2.DESCRIPTOR.services_by_name["NodePools"], "ListNodePools")
    first = await rig.rpc.ListNodePools(listed.request(limit="2", cluster="main"), None)
    assert [pool["name"] for pool in listed.answer(first).body["nodePools"]] == ["three", "two"]
    assert listed.answer(first).body.keys() == {"nodePools"}
    last = await rig.rpc.ListNodePools(listed.request(limit="2", cluster="main", cursor=first.next_cursor), None)
    assert [pool.name for pool in last.node_pools] == ["one"]
    assert (first.total_count, last.total_count, last.HasField("next_cursor")) == (3, 3, False)
    with pytest.raises(Invalid, match="cursor"):
        await rig.rpc.ListNodePools(listed.request(cursor="x"), None)


@pytest.mark.req("NP-058")
async def test_pools_are_listed_newest_first_and_by_cluster_until_they_are_deleted(rig: Rig) -> None:
    gone = await rig.running("gone")
    await rig.delete("gone")
    await rig.run(gone)
    for name in ("one", "two"):
        await rig.create(name)
        await rig.clock.advance(1)
    for asked in (None, "main", "cl-1"):
        listed = await rig.rpc.ListNodePools(node_pools_pb2.ListNodePoolsRequest(cluster=asked), None)
        assert [pool.name for pool in listed.node_pools] == ["two", "one"]
    with pytest.raises(ApiError) as caught:
        await rig.rpc.ListNodePools(node_pools_pb2.ListNodePoolsRequest(cluster="other"), None)
    assert caught.value.code == "CLUSTER_NOT_FOUND"
