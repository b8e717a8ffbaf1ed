"""Limits on spending, as gRPC. What they would limit doesn't exist: no workload has a VM of its own."""

from __future__ import annotations

from typing import Any

import grpc
from anycloud_common.errors import NotAvailable
from anycloudapi.deployment.v1 import spend_pb2 as pb
from anycloudapi.deployment.v1.spend_pb2_grpc import SpendServicer
from google.protobuf.empty_pb2 import Empty

Context = grpc.aio.ServicerContext[Any, Any]

_WHY = "in this API: a node pool's size, not the workloads on it, decides what is spent."


class SpendService(SpendServicer):
    async def ListBudgets(self, request: pb.ListBudgetsRequest, context: Context) -> pb.ListBudgetsResponse:
        return pb.ListBudgetsResponse()

    async def SetBudget(self, request: pb.SetBudgetRequest, context: Context) -> Empty:
        raise NotAvailable(f"Budgets aren't available {_WHY}")

    async def UnsetBudget(self, request: pb.UnsetBudgetRequest, context: Context) -> Empty:
        return Empty()

    async def ListThrottles(self, request: pb.ListThrottlesRequest, context: Context) -> pb.ListThrottlesResponse:
        nothing = pb.ListThrottlesResponse.BurnRate(account=pb.ListThrottlesResponse.Account(current_usd=0))
        return pb.ListThrottlesResponse(burn_rate=nothing)

    async def SetThrottle(self, request: pb.SetThrottleRequest, context: Context) -> Empty:
        raise NotAvailable(f"Throttles aren't available {_WHY}")

    async def UnsetThrottle(self, request: pb.UnsetThrottleRequest, context: Context) -> Empty:
        return Empty()
