"""A cluster service for tests: its internal contract on its own socket, with the sandbox's cloud behind the ledger."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
from anycloud_common.server import ServerKit
from anycloudapi.cluster.internal.v1 import cluster_pb2, cluster_pb2_grpc
from anycloudapi.common.internal.v1 import feed_pb2, feed_pb2_grpc, holds_pb2, holds_pb2_grpc
from anycloudapi.common.v1 import types_pb2

from tests.support.sandbox import Management, Sandbox

State = cluster_pb2.Resource


class Feed(feed_pb2_grpc.FeedServiceServicer):
    def __init__(self) -> None:
        self.changes: list[tuple[str, str]] = []
        self._news = asyncio.Condition()

    async def tell(self, kind: str, id: str) -> None:
        async with self._news:
            self.changes.append((kind, id))
            self._news.notify_all()

    async def Watch(self, request: Any, context: Any) -> AsyncIterator[feed_pb2.WatchResponse]:
        seq: int = request.since_seq
        while True:
            async with self._news:
                while len(self.changes) <= seq:
                    await self._news.wait()
            fresh = enumerate(self.changes[seq:], seq + 1)
            yield feed_pb2.WatchResponse(changes=[feed_pb2.Change(seq=n, kind=k, id=i) for n, (k, i) in fresh])
            seq = len(self.changes)

    async def List(self, request: Any, context: Any) -> feed_pb2.ListResponse:
        return feed_pb2.ListResponse(seq=len(self.changes))


class LedgerStandIn(cluster_pb2_grpc.LedgerServicer):
    """Buys in the sandbox at once, and asks it every 50 ms how things stand."""

    def __init__(self, sandbox: Sandbox, feed: Feed) -> None:
        self.sandbox, self.feed = sandbox, feed
        self.rows: dict[str, cluster_pb2.Resource] = {}
        self._networks: dict[str, str] = {}

    async def EnsureResource(self, request: Any, context: Any) -> cluster_pb2.Resource:
        row = self.rows.get(request.token)
        if row is not None and row.state == State.STATE_RELEASED:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "released before")
        if row is None:
            kind = request.WhichOneof("spec")
            row = self.rows[request.token] = cluster_pb2.Resource(
                token=request.token, owner=request.owner, kind=kind, state=State.STATE_PENDING, attempt=1
            )
            make = self._network if kind == "network" else self._machine
            task = asyncio.create_task(make(request, row))
            task.add_done_callback(lambda done: done.result())
        return row

    async def ReleaseResource(self, request: Any, context: Any) -> cluster_pb2.Resource:
        row = self.rows.setdefault(request.token, cluster_pb2.Resource(token=request.token))
        if row.provider_id:
            action = "DeleteMachine" if row.kind == "machine" else "DeleteNetwork"
            await self._cloud(action, {"id": row.provider_id})
        if row.kind == "machine" and row.provider_id:
            await self._change(row, state=State.STATE_RELEASING)
        else:
            await self._change(row, state=State.STATE_RELEASED)
        return row

    async def GetResource(self, request: Any, context: Any) -> cluster_pb2.Resource:
        return self.rows[request.token]

    async def ListResources(self, request: Any, context: Any) -> cluster_pb2.ListResourcesResponse:
        mine = [row for row in self.rows.values() if row.owner.id == request.owner.id]
        return cluster_pb2.ListResourcesResponse(resources=mine)

    async def follow(self) -> None:
        while True:
            await asyncio.sleep(0.05)
            waiting = [row for row in self.rows.values() if row.kind == "machine" and row.provider_id]
            waiting = [row for row in waiting if row.state in (State.STATE_PENDING, State.STATE_RELEASING)]
            if not waiting:
                continue
            listed = await self._cloud("ListMachines", {"tags": {}})
            machines = {machine["id"]: machine for machine in listed["machines"]}
            for row in waiting:
                machine = machines[row.provider_id]
                if row.state == State.STATE_PENDING and machine["state"] == "running":
                    await self._change(row, state=State.STATE_RUNNING, address=machine["address"], created_at=1)
                if row.state == State.STATE_RELEASING and machine["state"] == "terminated":
                    await self._change(row, state=State.STATE_RELEASED)

    async def _network(self, request: Any, row: cluster_pb2.Resource) -> None:
        body = {"token": request.token, "name": request.network.name, "region": request.region, "rules": [], "tags": {}}
        made = await self._cloud("CreateNetwork", body)
        self._networks[request.token] = made["network"]["id"]
        await self._change(row, state=State.STATE_RUNNING, provider_id=made["network"]["id"])

    async def _machine(self, request: Any, row: cluster_pb2.Resource) -> None:
        spec = request.machine
        body = {"token": request.token, "name": spec.name, "region": request.region, "zone": request.zone or None}
        body |= {"vmType": spec.vm_type, "image": spec.image, "network": self._networks[spec.network_token]}
        body |= {"address": None, "userData": spec.user_data.decode(), "tags": {}}
        made = await self._cloud("CreateMachine", body)
        await self._change(row, provider_id=made["machine"]["id"])

    async def _change(self, row: cluster_pb2.Resource, **values: Any) -> None:
        for name, value in values.items():
            setattr(row, name, value)
        row.version += 1
        await self.feed.tell("resource", row.token)

    async def _cloud(self, action: str, body: dict[str, Any]) -> dict[str, Any]:
        return await asyncio.to_thread(self.sandbox.cloud, action, body)


class FactsStandIn(cluster_pb2_grpc.ClusterFactsServicer):
    def __init__(self, fact: cluster_pb2.ClusterFact) -> None:
        self.fact = fact

    async def GetCluster(self, request: Any, context: Any) -> cluster_pb2.ClusterFact:
        if request.id_or_name not in ("", self.fact.id, self.fact.name):
            await context.abort(grpc.StatusCode.NOT_FOUND, "no such cluster")
        return self.fact

    async def GetCredential(self, request: Any, context: Any) -> cluster_pb2.CredentialFact:
        if request.name != "aws":
            await context.abort(grpc.StatusCode.NOT_FOUND, "no such credential")
        return cluster_pb2.CredentialFact(id="cred-1", name="aws", provider=types_pb2.CLOUD_PROVIDER_AWS, account="1")


class HoldsStandIn(holds_pb2_grpc.HoldServiceServicer):
    def __init__(self) -> None:
        self.held: set[str] = set()

    async def AcquireHolds(self, request: Any, context: Any) -> holds_pb2.AcquireHoldsResponse:
        self.held.add(request.admission.id)
        return holds_pb2.AcquireHoldsResponse(granted=holds_pb2.Granted())

    async def ReleaseHolds(self, request: Any, context: Any) -> holds_pb2.ReleaseHoldsResponse:
        self.held -= set(request.admission_ids)
        return holds_pb2.ReleaseHoldsResponse()

    async def ReplaceHolds(self, request: Any, context: Any) -> holds_pb2.ReplaceHoldsResponse:
        self.held = {admission.id for admission in request.admissions}
        return holds_pb2.ReplaceHoldsResponse()


class StandIn:
    """Everything that nodepool asks of the cluster service. `build` is for `anycloud_common.server.serving`."""

    def __init__(self, sandbox: Sandbox, management: Management, identity: str) -> None:
        self.feed = Feed()
        self.ledger = LedgerStandIn(sandbox, self.feed)
        self.holds = HoldsStandIn()
        self.facts = FactsStandIn(
            cluster_pb2.ClusterFact(
                id="cl-1",
                name="main",
                state="running",
                accepting=True,
                kubernetes_identity=identity,
                endpoint=management.endpoint,
                ca=management.ca,
            )
        )

    async def build(self, kit: ServerKit) -> None:
        parts: list[tuple[Callable[[Any, Any], None], object]] = [
            (feed_pb2_grpc.add_FeedServiceServicer_to_server, self.feed),
            (cluster_pb2_grpc.add_LedgerServicer_to_server, self.ledger),
            (cluster_pb2_grpc.add_ClusterFactsServicer_to_server, self.facts),
            (holds_pb2_grpc.add_HoldServiceServicer_to_server, self.holds),
        ]
        for add, servicer in parts:
            kit.add(add, servicer)
        kit.spawn(self.ledger.follow, "ledger")
