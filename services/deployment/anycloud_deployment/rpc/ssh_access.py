"""Access to workloads by SSH, as gRPC: a container of a Deployment has none."""

from __future__ import annotations

from functools import partial
from typing import Any

import grpc
from anycloud_common.errors import NotAvailable
from anycloud_common.store import Store
from anycloudapi.deployment.v1 import ssh_access_pb2 as pb
from anycloudapi.deployment.v1.ssh_access_pb2_grpc import SshAccessServicer

from anycloud_deployment.rpc import found
from anycloud_deployment.rpc.refusals import answered

Context = grpc.aio.ServicerContext[Any, Any]


class SshAccessService(SshAccessServicer):
    def __init__(self, store: Store) -> None:
        self._store = store

    async def GetSshAccess(self, request: pb.GetSshAccessRequest, context: Context) -> pb.GetSshAccessResponse:
        with answered():
            stored = await self._store.read(partial(found.workload, workload_id=request.id))
        job = stored.job
        raise NotAvailable(
            f"SSH access to Job {job.id} isn't available: it has no VM of its own, and runs in a container of "
            f"Deployment {job.deployment_id}."
        )
