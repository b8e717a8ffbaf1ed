"""What workloads cost, as gRPC. Jobs run on the VMs of a node pool, in a Deployment's container or in one of their own:
none has a VM to itself, so none has a price."""

from __future__ import annotations

from functools import partial
from typing import Any

import grpc
from anycloud_common.clock import Clock
from anycloud_common.store import Store
from anycloudapi.deployment.v1 import costs_pb2 as pb
from anycloudapi.deployment.v1.costs_pb2_grpc import CostsServicer

from anycloud_deployment.rpc import found
from anycloud_deployment.rpc.refusals import answered

Context = grpc.aio.ServicerContext[Any, Any]


class CostsService(CostsServicer):
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def GetWorkloadCost(self, request: pb.GetWorkloadCostRequest, context: Context) -> pb.GetWorkloadCostResponse:
        with answered():
            await self._store.look(partial(found.workload, workload_id=request.id))
        return pb.GetWorkloadCostResponse()

    async def GetCostReport(self, request: pb.GetCostReportRequest, context: Context) -> pb.CostReport:
        return pb.CostReport(period_ms=max(self._clock.now_ms() - request.since_ms, 0))
