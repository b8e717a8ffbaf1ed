"""Holds on node pools."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from anycloud_common.holds import HoldServicer
from anycloud_common.store import Store
from anycloudapi.common.internal.v1 import holds_pb2

from anycloud_nodepool.rpc.policy import Policy
from anycloud_nodepool.store.tables import PREFIX


class PoolHolds(HoldServicer):
    """A pool's first hold makes its Namespace, so `wake` hears of each that was taken."""

    def __init__(self, store: Store, wake: Callable[[str], None]) -> None:
        super().__init__(store, PREFIX, Policy())
        self._wake = wake

    async def AcquireHolds(
        self, request: holds_pb2.AcquireHoldsRequest, context: Any
    ) -> holds_pb2.AcquireHoldsResponse:
        response = await super().AcquireHolds(request, context)
        if response.HasField("granted"):
            self._wake_all(request.admission.parents)
        return response

    async def ReplaceHolds(
        self, request: holds_pb2.ReplaceHoldsRequest, context: Any
    ) -> holds_pb2.ReplaceHoldsResponse:
        response = await super().ReplaceHolds(request, context)
        self._wake_all(parent for admission in request.admissions for parent in admission.parents)
        return response

    def _wake_all(self, parents: Iterable[holds_pb2.Parent]) -> None:
        for parent in parents:
            self._wake(parent.id)
