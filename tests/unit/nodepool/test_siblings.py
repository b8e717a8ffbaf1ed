"""What deployment asks, and what the cluster service tells: holds, facts, feeds, and the meaning of its answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc
import pytest
from anycloud_common.clock import ManualClock
from anycloud_common.holds import Owner
from anycloud_common.kube import Kube, KubeError, names
from anycloud_nodepool.app import _refs
from anycloud_nodepool.domain import naming
from anycloud_nodepool.domain.model import ResourceState
from anycloud_nodepool.domain.ports import ClusterUnavailable, LedgerRefused, NetworkOrder
from anycloud_nodepool.gateways.cluster import ClusterService, LedgerService
from anycloud_nodepool.live.world import World
from anycloud_nodepool.reconcile.marks import Marks
from anycloud_nodepool.rpc.facts import NodePoolFactsServicer
from anycloudapi.cluster.internal.v1 import cluster_pb2, cluster_pb2_grpc
from anycloudapi.nodepool.internal.v1 import node_pool_pb2
from sqlalchemy import select

from tests.unit.nodepool.rig import Rig


async def fact(rig: Rig, id_or_name: str) -> node_pool_pb2.NodePoolFact:
    servicer = NodePoolFactsServicer(rig.store, "uid-1")
    return await servicer.GetNodePool(node_pool_pb2.GetNodePoolFactRequest(id_or_name=id_or_name), None)


async def test_facts_speak_in_plain_words_and_give_the_namespace_once_it_is_made(rig: Rig) -> None:
    made = await rig.create()
    assert (await fact(rig, "cpu")).state == "creating"
    await rig.run(made.id)
    assert (await fact(rig, "cpu")).namespace == ""
    await rig.hold(made.id)
    rig.world.refuse("create NetworkPolicy", KubeError("unreachable", "no route"))
    await rig.run(made.id)
    assert rig.world.named("Namespace")
    assert (await fact(rig, "cpu")).namespace == ""  # a Pod in it wouldn't be under its policy
    rig.world.allow()
    await rig.run(made.id)
    found = await fact(rig, made.id)
    assert (found.state, found.ready_nodes, found.vm_type) == ("running", 1, "m5.large")
    assert found.namespace == names.pool_namespace("cl-1", made.id)
    assert found.namespace_uid
    assert found.kubernetes_identity == "uid-1"


async def test_an_attempt_is_closed_only_once_its_vms_end_is_confirmed(rig: Rig) -> None:
    pool_id = await rig.running(count=2)
    one, two = [attempt.id for attempt in await rig.attempts(pool_id)]
    rig.world.ending = False
    rig.world.turn(one, ResourceState.LOST)
    await rig.run(pool_id)
    servicer = NodePoolFactsServicer(rig.store, "")
    request = node_pool_pb2.ListClosedAttemptsRequest(attempt_ids=[one, two, "at-9-none"])
    assert (await servicer.ListClosedAttempts(request, None)).attempt_ids == []
    rig.world.turn(one, ResourceState.RELEASED)
    await rig.run(pool_id)
    assert (await servicer.ListClosedAttempts(request, None)).attempt_ids == [one]


@pytest.mark.req("DP-028", "OPEN-034")
@pytest.mark.parametrize("state", ["creating", "failed", "deleting"])
async def test_a_pool_that_does_not_run_is_refused_by_its_state(rig: Rig, state: str) -> None:
    rig.world.ending = False
    pool_id = (await rig.create()).id if state == "creating" else await rig.running()
    if state == "failed":
        rig.world.add_node("stray", {names.LABEL_NODE_POOL: pool_id})
        await rig.run(pool_id)
    if state == "deleting":
        await rig.delete()
    refusal = await rig.hold(pool_id)
    assert refusal is not None
    assert f"Node pool 'cpu' is {state}" in refusal


async def test_an_unknown_or_deleted_pool_is_refused(rig: Rig) -> None:
    pool_id = await rig.running()
    await rig.delete()
    await rig.run(pool_id)
    for asked in (pool_id, "np-none"):
        assert "There is no node-pool" in (await rig.hold(asked) or "")


@pytest.mark.req("DP-032")
async def test_the_devices_of_ready_nodes_are_given_out_once(rig: Rig) -> None:
    rig.world.gpus = 4
    pool_id = await rig.running("gpu", 2, vm_types=["g4dn.12xlarge"])
    assert await rig.hold(pool_id, "a", 5, Owner("deployment", "dep-1")) is None
    assert "3 of 8 devices free" in (await rig.hold(pool_id, "b", 4, Owner("job", "job-1")) or "")
    assert await rig.hold(pool_id, "c", 3, Owner("job", "job-1")) is None
    rig.world.set_node(next(iter(rig.world.node_facts)), ready=False)
    await rig.run(pool_id)
    assert "of 4 devices free" in (await rig.hold(pool_id, "d", 1, Owner("job", "job-2")) or "")


async def test_the_feed_tells_of_state_readiness_and_namespace_and_not_of_every_step(rig: Rig) -> None:
    async def changes() -> int:
        from anycloud_nodepool.store.tables import CHANGE

        mine = select(CHANGE.c.seq).where(CHANGE.c.kind == "node-pool")
        return await rig.store.read(lambda conn: len(conn.execute(mine).all()))

    rig.world.ready = False
    pool_id = (await rig.create()).id
    await rig.run(pool_id)
    assert await changes() == 1
    rig.world.set_node(next(iter(rig.world.node_facts)), ready=True)
    await rig.run(pool_id)
    assert await changes() == 2
    await rig.hold(pool_id)
    before = await changes()
    await rig.run(pool_id)
    assert await changes() > before
    assert await rig.store.read(lambda conn: list(_refs(conn, {"node-pool"}))) == [("node-pool", pool_id)]


async def test_changes_of_the_ledger_mark_the_pools_that_they_belong_to(rig: Rig) -> None:
    one, two = await rig.running("one"), await rig.running("two")
    marks = Marks(rig.resources)
    [attempt] = await rig.attempts(one)

    async def marked(kind: str, ids: list[str] | None) -> list[str]:
        return sorted(await rig.store.read(lambda conn: marks.mark(conn, kind, ids)))

    assert await marked("resource", [attempt.id, "cl-1-machine"]) == [one]
    assert await marked("resource", [naming.network_token(two, "1a2b3c4d")]) == [two]
    assert await marked("credential", ["cred-aws"]) == sorted([one, two])
    assert await marked("credential", ["cred-gcp"]) == []
    assert await marked("cluster", ["cl-1"]) == sorted([one, two])
    assert await marked("resource", None) == sorted([one, two])


class Answers(cluster_pb2_grpc.LedgerServicer, cluster_pb2_grpc.ClusterFactsServicer):
    """Every call fails with `code`, or answers `resource`."""

    code: grpc.StatusCode | None = None
    resource = cluster_pb2.Resource(token="t", state=cluster_pb2.Resource.STATE_PENDING)

    async def _answer(self, context: Any, answer: Any) -> Any:
        if self.code is not None:
            await context.abort(self.code, "as told")
        return answer

    async def EnsureResource(self, request: Any, context: Any) -> Any:
        return await self._answer(context, self.resource)

    async def ReleaseResource(self, request: Any, context: Any) -> Any:
        return await self._answer(context, self.resource)

    async def GetResource(self, request: Any, context: Any) -> Any:
        return await self._answer(context, self.resource)

    async def ListResources(self, request: Any, context: Any) -> Any:
        return await self._answer(context, cluster_pb2.ListResourcesResponse(resources=[self.resource]))

    async def GetCluster(self, request: Any, context: Any) -> Any:
        return await self._answer(context, cluster_pb2.ClusterFact(id="cl-1"))

    async def GetCredential(self, request: Any, context: Any) -> Any:
        return await self._answer(context, cluster_pb2.CredentialFact(id="c"))


@pytest.fixture
async def answers() -> Any:
    server, told = grpc.aio.server(), Answers()
    cluster_pb2_grpc.add_LedgerServicer_to_server(told, server)
    cluster_pb2_grpc.add_ClusterFactsServicer_to_server(told, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield told, channel
    await server.stop(None)


ORDER = NetworkOrder("t", "np-1", "c", "us-east-1", None, "n", 1)


@pytest.mark.parametrize(
    ("code", "raised"),
    [
        (grpc.StatusCode.UNAVAILABLE, ClusterUnavailable),
        (grpc.StatusCode.DEADLINE_EXCEEDED, ClusterUnavailable),
        (grpc.StatusCode.INTERNAL, ClusterUnavailable),
        (grpc.StatusCode.FAILED_PRECONDITION, LedgerRefused),
        (grpc.StatusCode.INVALID_ARGUMENT, LedgerRefused),
        (grpc.StatusCode.NOT_FOUND, LedgerRefused),
    ],
)
async def test_an_order_is_refused_for_good_only_by_an_answer_that_says_so(
    answers: Any, code: grpc.StatusCode, raised: type[Exception]
) -> None:
    told, channel = answers
    told.code = code
    with pytest.raises(raised):
        await LedgerService(channel).network(ORDER)


async def test_nothing_is_found_only_by_an_answer_that_says_so(answers: Any) -> None:
    told, channel = answers
    clusters = ClusterService(channel)
    told.code = grpc.StatusCode.NOT_FOUND
    assert await clusters.find("x") is None
    assert await clusters.credential("x") is None
    told.code = grpc.StatusCode.UNAVAILABLE
    calls: list[Callable[[], Any]] = [
        lambda: clusters.find("x"),
        lambda: clusters.credential("x"),
        lambda: LedgerService(channel).release("t"),
        lambda: LedgerService(channel).resources("np-1"),
    ]
    for call in calls:
        with pytest.raises(ClusterUnavailable):
            await call()


def node(name: str, labels: dict[str, str] | None = None, *, ready: bool = True, beat: str = "1") -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": str(ready), "lastHeartbeatTime": beat}]
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": beat, "labels": labels or {}},
        "status": {"conditions": conditions, "allocatable": {"nvidia.com/gpu": "2"}},
    }


async def test_a_watched_node_marks_its_pools_when_it_changes_and_not_at_each_heartbeat() -> None:
    marked: list[str] = []

    async def never() -> None:
        raise AssertionError

    kube = Kube.from_token("http://127.0.0.1:1", "", "t")
    world = World(kube, ManualClock(), marked.append, never)
    mine = {names.LABEL_NODE_POOL: "np-labelledpool"}
    world._node_event("ADDED", None, node("a", mine))
    world._node_event("MODIFIED", node("a", mine), node("a", mine, beat="2"))
    assert marked == ["np-labelledpool"]
    world._node_event("MODIFIED", node("a", mine), node("a", mine, ready=False))
    assert marked == ["np-labelledpool"] * 2
    [found] = world.nodes("np-labelledpool")
    assert (found.ready, found.gpus) == (False, 2)
    world._node_event("DELETED", node("a", mine), None)
    assert world.nodes("np-labelledpool") == []
    world._node_event("ADDED", None, node("np-abcdefghijkl-3-1a2b3c4d"))
    assert [found.name for found in world.nodes("np-abcdefghijkl")] == ["np-abcdefghijkl-3-1a2b3c4d"]
    await kube.close()
