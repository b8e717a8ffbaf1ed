"""Services among the workloads, as gRPC. There are none: every workload is a Job."""

from __future__ import annotations

from functools import partial
from typing import Any

import grpc
from anycloud_common.errors import ApiError
from anycloud_common.store import Store
from anycloudapi.deployment.v1 import services_pb2 as pb
from anycloudapi.deployment.v1.services_pb2_grpc import ServicesServicer

from anycloud_deployment.store import workloads

Context = grpc.aio.ServicerContext[Any, Any]


class ServicesService(ServicesServicer):
    def __init__(self, store: Store) -> None:
        self._store = store

    async def UpgradeService(self, request: pb.UpgradeServiceRequest, context: Context) -> pb.UpgradeServiceResponse:
        if await self._store.look(partial(workloads.find, workload_id=request.id)) is not None:
            raise ApiError("SERVICE_NOT_FOUND", f"Workload {request.id} is a Job; only a service can be upgraded.")
        raise ApiError("SERVICE_NOT_FOUND", f"Service {request.id[:80]} doesn't exist.")
