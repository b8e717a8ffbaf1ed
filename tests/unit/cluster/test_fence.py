"""`DELETE` on a hosted API: an installer's question, its withdrawal, and the race with a new node pool."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import pytest
from anycloud_cluster.reconcile.first_start import FirstStartError, record_own_cluster
from anycloud_cluster.rpc.clusters import ClustersServicer
from anycloud_cluster.rpc.fence import Fences
from anycloud_cluster.rpc.policy import Policy
from anycloud_cluster.store import clusters
from anycloud_cluster.store.tables import PREFIX
from anycloud_common import holds
from anycloud_common.errors import ApiError
from anycloud_common.kube import KubeError
from anycloud_common.release_values import ApiValues, CheckpointValues, ClusterValues, OwnerValues, ReleaseValues
from anycloud_common.store import Store
from anycloudapi.cluster.v1 import clusters_pb2
from google.protobuf.json_format import MessageToDict

from tests.unit.cluster import fakes
from tests.unit.cluster.calling import enter
from tests.unit.cluster.fakes import IMAGE, World

VALUES = ReleaseValues(
    ClusterValues("cl-own", "prod", "uid-of-kube-system", "https://203.0.113.9:6443", "PEM", "203.0.113.9"),
    ApiValues(IMAGE, "0.1.70", "0.1.70", 1, "https://cl-own.anycloud.sh"),
    OwnerValues("421", "demo"),
    CheckpointValues("AWS", "cl-own", "us-east-1", True, {"secretAccessKey": "k"}),
)


class Hosted:
    def __init__(self, store: Store) -> None:
        self.store = store
        self._servicer = ClustersServicer(store, Fences(store), None)

    async def delete(self, headers: Mapping[str, str], cluster: str = "cl-own") -> clusters_pb2.Cluster:
        enter(headers=headers)
        return await self._servicer.DestroyCluster(clusters_pb2.DestroyClusterRequest(id=cluster), None)

    async def fence(self, delete_id: str = "del-1") -> clusters_pb2.Cluster:
        return await self.delete({"anycloud-installer-delete": delete_id})

    async def withdraw(self, delete_id: str = "del-1") -> clusters_pb2.Cluster:
        return await self.delete({"anycloud-installer-withdraw": delete_id})

    async def pool(self, pool_id: str = "np-1") -> holds.Refusal | None:
        """A node pool that is to be made."""
        parent = holds.Parent("cluster", "cl-own")
        admission = holds.Admission(f"adm-{pool_id}", holds.Owner("node-pool", pool_id), (parent,))
        return await self.store.write(lambda tx: holds.acquire(tx, PREFIX, Policy(), "nodepool", admission))

    async def pool_gone(self, pool_id: str = "np-1") -> None:
        await self.store.write(lambda tx: holds.release(tx, PREFIX, [f"adm-{pool_id}"]))

    async def accepting(self) -> bool:
        found = await self.store.read(lambda conn: clusters.by_id(conn, "cl-own"))
        return found is not None and found.accepting


@pytest.fixture
async def hosted(store: Store, world: World) -> Hosted:
    await record_own_cluster(store, VALUES, fakes.Kubernetes(world))
    return Hosted(store)


async def refused(code: str, call: Any) -> str:
    with pytest.raises(ApiError) as caught:
        await call
    assert caught.value.code == code
    return caught.value.message


async def test_a_fence_takes_no_more_pools_and_repeats_answer_alike(hosted: Hosted) -> None:
    first = await hosted.fence()
    assert MessageToDict(await hosted.fence()) | {"updatedAt": ""} == MessageToDict(first) | {"updatedAt": ""}
    refusal = await hosted.pool()
    assert refusal is not None
    assert refusal.code == "CLUSTER_NOT_ACCEPTING"


async def test_a_fence_is_refused_while_a_pool_is_there(hosted: Hosted) -> None:
    assert await hosted.pool() is None
    message = await refused("CLUSTER_REFERENCED", hosted.fence())
    assert "1 node pool of cluster prod" in message
    assert await hosted.accepting()
    await hosted.pool_gone()
    await hosted.fence()


async def test_of_a_fence_and_a_new_pool_exactly_one_wins(hosted: Hosted) -> None:
    for number in itertools.count(1):
        if number > 4:
            break
        pool, fence = await _together(hosted, number)
        assert (pool is None) != (fence is None)
        await hosted.pool_gone(f"np-{number}")
        await hosted.withdraw(f"del-{number}")


async def _together(hosted: Hosted, number: int) -> tuple[Any, Any]:
    import asyncio

    async def fencing() -> ApiError | None:
        try:
            await hosted.fence(f"del-{number}")
        except ApiError as error:
            return error
        return None

    calls = [hosted.pool(f"np-{number}"), fencing()]
    if number % 2:
        calls.reverse()
    answers = await asyncio.gather(*calls)
    pool, fence = reversed(answers) if number % 2 else answers
    return pool, fence


async def test_a_withdrawal_takes_pools_again_and_refuses_the_late_question(hosted: Hosted) -> None:
    await hosted.fence()
    await hosted.withdraw()
    assert await hosted.accepting()
    await refused("CLUSTER_BUSY", hosted.fence())
    assert await hosted.accepting()


async def test_a_withdrawal_that_comes_before_its_question_holds(hosted: Hosted) -> None:
    await hosted.withdraw("del-7")
    await refused("CLUSTER_BUSY", hosted.fence("del-7"))
    await hosted.fence("del-8")


async def test_a_late_withdrawal_doesnt_lift_the_fence_of_another_question(hosted: Hosted) -> None:
    await hosted.fence("del-1")
    await hosted.fence("del-2")
    await hosted.withdraw("del-1")
    assert not await hosted.accepting()
    await hosted.withdraw("del-2")
    assert await hosted.accepting()


async def test_without_the_installers_header_the_installer_is_named(hosted: Hosted) -> None:
    message = await refused("CLUSTER_INVALID", hosted.delete({}))
    assert "anycloud api use local" in message
    assert await hosted.accepting()


@pytest.mark.req("CL-012")
async def test_a_hosted_api_makes_and_forgets_no_clusters(hosted: Hosted) -> None:
    servicer = hosted._servicer
    enter()
    message = await refused("CLUSTER_UNAVAILABLE", servicer.CreateCluster(clusters_pb2.CreateClusterRequest(), None))
    assert "anycloud api use local" in message
    await refused("CLUSTER_REACHABLE", servicer.ForgetCluster(clusters_pb2.ForgetClusterRequest(id="prod"), None))


@pytest.mark.req("CL-085", "CL-088", "CL-094", "CL-125", "AU-016", "CL-084")
async def test_its_own_cluster_is_on_record_without_creation_facts_and_without_a_credential(hosted: Hosted) -> None:
    enter()
    listed = (await hosted._servicer.ListClusters(clusters_pb2.ListClustersRequest(), None)).clusters
    [own] = listed
    assert (own.id, own.name, own.state) == ("cl-own", "prod", clusters_pb2.Cluster.STATE_RUNNING)
    assert (own.address, own.api_version, own.management_api_url) == (
        "203.0.113.9",
        "0.1.70",
        "https://cl-own.anycloud.sh",
    )
    shown = MessageToDict(own)
    assert not shown.keys() & {"cloudProvider", "region", "zone", "vmType", "k3sVersion"}
    found = await hosted.store.read(lambda conn: clusters.by_id(conn, "cl-own"))
    assert found is not None
    assert found.sealed_connection is found.sealed_keys is found.sealed_github_token is None


@pytest.mark.req("CL-128")
async def test_pools_are_counted_from_their_holds(hosted: Hosted) -> None:
    await hosted.pool("np-1")
    await hosted.pool("np-2")
    enter()
    shown = await hosted._servicer.GetCluster(clusters_pb2.GetClusterRequest(id="prod"), None)
    assert shown.active_node_pool_count == 2


@pytest.mark.req("CL-086")
async def test_another_cluster_than_the_one_of_the_values_refuses_the_start(store: Store, world: World) -> None:
    world.uid = "uid-of-a-stranger"
    with pytest.raises(FirstStartError, match="uid-of-a-stranger"):
        await record_own_cluster(store, VALUES, fakes.Kubernetes(world))
    assert await store.read(clusters.everything) == []


async def test_a_cluster_that_cant_be_asked_refuses_the_start(store: Store, world: World) -> None:
    world.fault("kube.uid", KubeError("unreachable", "timeout"))
    with pytest.raises(FirstStartError, match="can't be read: timeout"):
        await record_own_cluster(store, VALUES, fakes.Kubernetes(world))


@pytest.mark.req("CL-087", "BK-057")
async def test_a_restored_record_takes_over_the_new_cluster_and_takes_pools_again(
    hosted: Hosted, store: Store, world: World
) -> None:
    from dataclasses import replace

    await hosted.fence()
    moved = replace(VALUES.cluster, identity="uid-2", address="203.0.113.10", endpoint="https://203.0.113.10:6443")
    world.uid = "uid-2"
    await record_own_cluster(store, replace(VALUES, cluster=moved), fakes.Kubernetes(world))
    found = await store.read(lambda conn: clusters.by_id(conn, "cl-own"))
    assert found is not None
    assert (found.kubernetes_identity, found.address, found.connection_revision) == ("uid-2", "203.0.113.10", 2)
    assert found.accepting


async def test_a_second_start_changes_nothing(hosted: Hosted, store: Store, world: World) -> None:
    await hosted.fence()
    before = await store.read(clusters.everything)
    await record_own_cluster(store, VALUES, fakes.Kubernetes(world))
    assert await store.read(clusters.everything) == before
