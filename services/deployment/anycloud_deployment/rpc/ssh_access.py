"""Access to workloads by SSH, as gRPC: what runs on a node pool has none."""

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
from anycloud_deployment.store.job_reads import Submitted

Context = grpc.aio.ServicerContext[Any, Any]


class SshAccessService(SshAccessServicer):
    def __init__(self, store: Store) -> None:
        self._store = store

    async def GetSshAccess(self, request: pb.GetSshAccessRequest, context: Context) -> pb.GetSshAccessResponse:
        with answered():
            stored = await self._store.look(partial(found.workload, workload_id=request.id))
        if isinstance(stored, Submitted):
            home = f"in a container of Deployment {stored.job.deployment_id}"
        else:
            home = f"on node pool {stored.job.node_pool_name}"
        raise NotAvailable(
            f"SSH access to Job {stored.job.id} isn't available: it has no VM of its own, and runs {home}."
        )
