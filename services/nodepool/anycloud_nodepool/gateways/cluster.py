"""The cluster service, asked over its internal contract."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import grpc
from anycloudapi.cluster.internal.v1 import cluster_pb2, cluster_pb2_grpc
from anycloudapi.common.v1 import types_pb2

from anycloud_nodepool.domain.model import ClusterFact, CredentialFact, ResourceFact, ResourceState
from anycloud_nodepool.domain.ports import ClusterUnavailable, LedgerRefused, MachineOrder, NetworkOrder

_DEADLINE_S: Final = 10.0  # many are asked at once
_OWNER_KIND: Final = "node-pool"
_PROVIDERS: Final = {
    types_pb2.CLOUD_PROVIDER_AWS: "AWS",
    types_pb2.CLOUD_PROVIDER_GCP: "GCP",
    types_pb2.CLOUD_PROVIDER_AZURE: "Azure",
    types_pb2.CLOUD_PROVIDER_LAMBDA: "Lambda",
    types_pb2.CLOUD_PROVIDER_CLOUDFLARE: "Cloudflare",
}
_STATES: Final = {
    cluster_pb2.Resource.STATE_PENDING: ResourceState.PENDING,
    cluster_pb2.Resource.STATE_RUNNING: ResourceState.RUNNING,
    cluster_pb2.Resource.STATE_FAILED: ResourceState.FAILED,
    cluster_pb2.Resource.STATE_LOST: ResourceState.LOST,
    cluster_pb2.Resource.STATE_RELEASING: ResourceState.RELEASING,
    cluster_pb2.Resource.STATE_RELEASED: ResourceState.RELEASED,
}
# Answers that mean no, whenever they are asked for again.
_FINAL: Final = (
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
)


class LedgerService:
    """`Ledger`."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub: cluster_pb2_grpc.LedgerAsyncStub = cluster_pb2_grpc.LedgerStub(channel)

    async def machine(self, order: MachineOrder) -> ResourceFact:
        request = cluster_pb2.EnsureResourceRequest(
            token=order.token,
            owner=cluster_pb2.Owner(kind=_OWNER_KIND, id=order.pool_id),
            credential_id=order.credential_id,
            region=order.region,
            zone=order.zone or "",
            attempt=1,
            machine=cluster_pb2.MachineSpec(
                name=order.name,
                vm_type=order.vm_type,
                image=order.image,
                network_token=order.network_token,
                user_data=order.user_data,
                labels=dict(order.labels),
            ),
        )
        return await self._ensure(request)

    async def network(self, order: NetworkOrder) -> ResourceFact:
        request = cluster_pb2.EnsureResourceRequest(
            token=order.token,
            owner=cluster_pb2.Owner(kind=_OWNER_KIND, id=order.pool_id),
            credential_id=order.credential_id,
            region=order.region,
            zone=order.zone or "",
            attempt=order.attempt,
            network=cluster_pb2.NetworkSpec(name=order.name),
        )
        return await self._ensure(request)

    async def release(self, token: str) -> ResourceFact:
        request = cluster_pb2.ReleaseResourceRequest(token=token)
        try:
            return _resource(await self._stub.ReleaseResource(request, timeout=_DEADLINE_S))
        except grpc.aio.AioRpcError as error:
            raise _failed("ReleaseResource", error) from error

    async def resources(self, pool_id: str) -> Sequence[ResourceFact]:
        request = cluster_pb2.ListResourcesRequest(owner=cluster_pb2.Owner(kind=_OWNER_KIND, id=pool_id))
        try:
            response = await self._stub.ListResources(request, timeout=_DEADLINE_S)
        except grpc.aio.AioRpcError as error:
            raise _failed("ListResources", error) from error
        return [_resource(resource) for resource in response.resources]

    async def _ensure(self, request: cluster_pb2.EnsureResourceRequest) -> ResourceFact:
        try:
            return _resource(await self._stub.EnsureResource(request, timeout=_DEADLINE_S))
        except grpc.aio.AioRpcError as error:
            if error.code() in _FINAL:
                raise LedgerRefused(error.details() or error.code().name) from error
            raise _failed("EnsureResource", error) from error


class ClusterService:
    """`Clusters`."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub: cluster_pb2_grpc.ClusterFactsAsyncStub = cluster_pb2_grpc.ClusterFactsStub(channel)

    async def find(self, id_or_name: str) -> ClusterFact | None:
        try:
            fact = await self._stub.GetCluster(cluster_pb2.GetClusterFactsRequest(id_or_name=id_or_name))
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.NOT_FOUND:
                return None
            raise _failed("GetCluster", error) from error
        return ClusterFact(
            id=fact.id,
            name=fact.name,
            state=fact.state,
            accepting=fact.accepting,
            identity=fact.kubernetes_identity,
            endpoint=fact.endpoint,
            ca=fact.ca,
            management_api_url=fact.management_api_url,
        )

    async def credential(self, name: str) -> CredentialFact | None:
        try:
            fact = await self._stub.GetCredential(cluster_pb2.GetCredentialFactRequest(name=name))
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.NOT_FOUND:
                return None
            raise _failed("GetCredential", error) from error
        return CredentialFact(fact.id, fact.name, _PROVIDERS.get(fact.provider, ""))


def _failed(call: str, error: grpc.aio.AioRpcError) -> ClusterUnavailable:
    return ClusterUnavailable(f"{call}: {error.code().name}")


def _resource(resource: cluster_pb2.Resource) -> ResourceFact:
    failed = resource.HasField("failure")
    failure = f"{resource.failure.kind}: {resource.failure.message}" if failed else None
    return ResourceFact(
        token=resource.token,
        state=_STATES[resource.state],
        address=resource.address,
        created_at=resource.created_at,
        attempt=resource.attempt,
        failure=failure,
        failed_at=resource.failure.at if failed else 0,
        version=resource.version,
    )
