"""An API without a cluster of its own: the installer's. No node pool exists there, so little is ever asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

from anycloud_common.kube import KubeError

from anycloud_nodepool.domain.model import NodeFact
from anycloud_nodepool.domain.ports import Object


class NoKubernetes:
    """`Kubernetes` with nothing behind it."""

    async def problems(self, identity: str) -> Sequence[str]:
        _refuse()

    async def get(self, kind: str, name: str, namespace: str | None = None) -> Object | None:
        _refuse()

    async def names(self, kind: str, namespace: str) -> Mapping[str, str]:
        _refuse()

    async def list(self, kind: str, namespace: str, labels: Mapping[str, str]) -> Sequence[Object]:
        _refuse()

    async def create(self, kind: str, body: Object) -> Object:
        _refuse()

    async def ensure(self, kind: str, body: Object, owner: Mapping[str, str]) -> Object:
        _refuse()

    async def apply(self, kind: str, body: Object) -> Object:
        _refuse()

    async def patch(self, kind: str, name: str, uid: str, change: Object) -> None:
        _refuse()

    async def delete(self, kind: str, name: str, namespace: str | None, uid: str) -> bool:
        _refuse()


class NothingSeen:
    """A `View` of no cluster."""

    synced = False

    def nodes(self, pool_id: str) -> Sequence[NodeFact]:
        return []

    def policy(self, namespace: str, name: str) -> Object | None:
        return None


def _refuse() -> NoReturn:
    raise KubeError("unreachable", "this API has no cluster of its own")
