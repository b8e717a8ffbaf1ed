"""The parent's side of holds, as gRPC."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import grpc
from anycloudapi.common.internal.v1 import holds_pb2
from anycloudapi.common.internal.v1.holds_pb2_grpc import HoldServiceServicer

from anycloud_common.holds.messages import from_message, refused
from anycloud_common.holds.policy import Admission, ParentPolicy
from anycloud_common.holds.writes import acquire, release, replace
from anycloud_common.store import Store

Context = grpc.aio.ServicerContext[Any, Any]


class HoldServicer(HoldServiceServicer):
    """Serves the holds on the objects of one service, in its own database.

    INVALID_ARGUMENT: the caller's program is wrong. What the store raises when it can't write is left to the server.
    """

    def __init__(self, store: Store, prefix: str, policy: ParentPolicy) -> None:
        self._store = store
        self._prefix = prefix
        self._policy = policy

    async def AcquireHolds(
        self, request: holds_pb2.AcquireHoldsRequest, context: Context
    ) -> holds_pb2.AcquireHoldsResponse:
        [admission] = await _admissions([request.admission], request.service, context)
        refusal = await self._store.write(
            lambda tx: acquire(tx, self._prefix, self._policy, request.service, admission)
        )
        if refusal is not None:
            return holds_pb2.AcquireHoldsResponse(refused=refused(refusal))
        return holds_pb2.AcquireHoldsResponse(granted=holds_pb2.Granted())

    async def ReleaseHolds(
        self, request: holds_pb2.ReleaseHoldsRequest, context: Context
    ) -> holds_pb2.ReleaseHoldsResponse:
        if not all(request.admission_ids):
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "an admission id is empty")
        await self._store.write(lambda tx: release(tx, self._prefix, request.admission_ids))
        return holds_pb2.ReleaseHoldsResponse()

    async def ReplaceHolds(
        self, request: holds_pb2.ReplaceHoldsRequest, context: Context
    ) -> holds_pb2.ReplaceHoldsResponse:
        if not request.incarnation:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the incarnation is missing")
        admissions = await _admissions(request.admissions, request.service, context)
        await self._store.write(lambda tx: replace(tx, self._prefix, request.service, request.incarnation, admissions))
        return holds_pb2.ReplaceHoldsResponse()


async def _admissions(messages: Sequence[holds_pb2.Admission], service: str, context: Context) -> list[Admission]:
    try:
        admissions = [from_message(message) for message in messages]
        if not service:
            raise ValueError("the name of the asking service is missing")
        if len({admission.id for admission in admissions}) != len(admissions):
            raise ValueError("an admission is named twice")
    except ValueError as error:
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
    return admissions
