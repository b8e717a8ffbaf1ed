"""The ledger, for the services that have things made outside."""

from __future__ import annotations

from typing import Any

import grpc
from anycloud_common.errors import ApiError
from anycloud_common.store import Store, Tx
from anycloudapi.cluster.internal.v1 import cluster_pb2, cluster_pb2_grpc
from anycloudapi.common.v1 import errors_pb2

from anycloud_cluster.domain.resource import ROLE_POOL, Kind, Resource, State, Wanted
from anycloud_cluster.store import clusters, credentials, ledger
from anycloud_cluster.store.ledger import Ledger, OtherRequest, ReleasedBefore

_STATES = {
    State.PENDING: cluster_pb2.Resource.STATE_PENDING,
    State.RUNNING: cluster_pb2.Resource.STATE_RUNNING,
    State.FAILED: cluster_pb2.Resource.STATE_FAILED,
    State.LOST: cluster_pb2.Resource.STATE_LOST,
    State.RELEASING: cluster_pb2.Resource.STATE_RELEASING,
    State.RELEASED: cluster_pb2.Resource.STATE_RELEASED,
    State.ABANDONED: cluster_pb2.Resource.STATE_RELEASED,
}


class LedgerServicer(cluster_pb2_grpc.LedgerServicer):
    def __init__(self, store: Store, book: Ledger) -> None:
        self._store = store
        self._book = book

    async def EnsureResource(self, request: cluster_pb2.EnsureResourceRequest, context: Any) -> cluster_pb2.Resource:
        if problem := _problem(request):
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, problem)
        try:
            return message(await self._store.write(lambda tx: self._ensure(tx, request)))
        except ReleasedBefore as error:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
        except OtherRequest as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        raise AssertionError("abort returned")

    async def ReleaseResource(self, request: cluster_pb2.ReleaseResourceRequest, context: Any) -> cluster_pb2.Resource:
        if not request.token:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the token is missing")
        return message(await self._store.write(lambda tx: self._book.release(tx, request.token)))

    async def GetResource(self, request: cluster_pb2.GetResourceRequest, context: Any) -> cluster_pb2.Resource:
        row = await self._store.look(lambda conn: ledger.find(conn, request.token))
        if row is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"the ledger has no {request.token}")
            raise AssertionError("abort returned")
        return message(row)

    async def ListResources(
        self, request: cluster_pb2.ListResourcesRequest, context: Any
    ) -> cluster_pb2.ListResourcesResponse:
        owner = request.owner
        rows = await self._store.read(lambda conn: ledger.of_owner(conn, owner.kind, owner.id))
        return cluster_pb2.ListResourcesResponse(resources=[message(row) for row in rows])

    def _ensure(self, tx: Tx, request: cluster_pb2.EnsureResourceRequest) -> Resource:
        credential = credentials.by_id(tx.conn, request.credential_id)
        if credential is None:
            known = ledger.find(tx.conn, request.token)
            if known is not None and known.state in (State.RELEASING, State.RELEASED, State.ABANDONED):
                raise ReleasedBefore(f"{request.token} was released before")
            data = errors_pb2.CredentialErrorData(name=request.credential_id)
            raise ApiError("CREDENTIAL_NOT_FOUND", f"There is no credential {request.credential_id}.", data)
        cluster = clusters.only_live(tx.conn)
        kind, spec, user_data = _spec(request)
        wanted = Wanted(
            token=request.token,
            kind=kind,
            role=ROLE_POOL,
            owner_kind=request.owner.kind,
            owner_id=request.owner.id,
            credential_id=credential.id,
            provider=credential.provider,
            account=credential.account,
            region=request.region,
            zone=request.zone or None,
            name=request.machine.name or request.network.name,
            spec=spec,
            user_data=user_data,
        )
        return self._book.ensure(tx, wanted, cluster.id if cluster else "", max(1, request.attempt))


def message(row: Resource) -> cluster_pb2.Resource:
    """What others may know of a row. Its failure shows while the attempt has failed and while releases keep failing."""
    shown = row.failure if row.state in (State.FAILED, State.RELEASING) else None
    failure = None
    if shown is not None:
        failure = cluster_pb2.Resource.Failure(kind=shown.kind, message=shown.message, at=shown.at, count=shown.count)
    return cluster_pb2.Resource(
        token=row.id,
        owner=cluster_pb2.Owner(kind=row.owner_kind, id=row.owner_id),
        kind=row.kind,
        state=_STATES[row.state],
        provider_id=row.provider_id,
        address=row.address,
        attempt=row.attempt,
        failure=failure,
        created_at=row.confirmed_at or 0,
        version=row.version,
    )


def _problem(request: cluster_pb2.EnsureResourceRequest) -> str | None:
    given = {
        "token": request.token,
        "owner": request.owner.kind and request.owner.id,
        "credential_id": request.credential_id,
        "region": request.region,
        "spec": request.WhichOneof("spec"),
    }
    missing = [name for name, value in given.items() if not value]
    return f"{', '.join(missing)} missing" if missing else None


def _spec(request: cluster_pb2.EnsureResourceRequest) -> tuple[Kind, dict[str, Any], bytes | None]:
    if request.WhichOneof("spec") == "network":
        rules = [
            {"protocol": rule.protocol or "tcp", "ports": list(rule.ports), "sources": list(rule.sources)}
            for rule in request.network.rules
        ]
        return Kind.NETWORK, {"rules": rules}, None
    machine = request.machine
    spec = {
        "vm_type": machine.vm_type,
        "image": machine.image or "default",
        "network": machine.network_token,
        "address": "",
        "labels": dict(machine.labels),
    }
    return Kind.MACHINE, spec, machine.user_data
