"""An API without a cluster of its own: the installer's. No Deployment exists there, so little is ever asked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, NoReturn

from anycloud_common.kube import KubeError

from anycloud_deployment.domain.model import JobFact, JobPodFact, NodeFact, PodFact, ReplicaSetFact
from anycloud_deployment.domain.ports import Holder, Native


class NoKubernetes:
    """`Objects`, `Tokens` and `Logs` with nothing behind them."""

    async def find(self, kind: str, namespace: str, name: str) -> Native | None:
        _refuse()

    async def create(self, kind: str, body: dict[str, Any]) -> Native:
        _refuse()

    async def apply(self, kind: str, body: dict[str, Any], uid: str) -> Native:
        _refuse()

    async def delete(self, kind: str, namespace: str, name: str, uid: str) -> bool:
        _refuse()

    async def pods(self, namespace: str, deployment_id: str) -> list[PodFact]:
        _refuse()

    async def replica_sets(self, namespace: str, deployment_id: str) -> list[ReplicaSetFact]:
        _refuse()

    async def job_pods(self, namespace: str, run: str) -> list[JobPodFact]:
        _refuse()

    async def pod_uid(self, namespace: str, name: str) -> str | None:
        _refuse()

    async def lease(self, node: str) -> str | None:
        _refuse()

    async def review(self, token: str) -> Holder | None:
        """No token is a container's where there are no containers; that won't be otherwise in a moment."""
        return None

    async def lines(
        self, namespace: str, pod: str, *, tail: int | None, previous: bool, follow: bool
    ) -> AsyncIterator[str]:
        _refuse()
        yield ""


class NothingSeen:
    """A `View` of no cluster."""

    synced = False

    def pods(self, deployment_id: str) -> list[PodFact]:
        return []

    def pod(self, uid: str) -> PodFact | None:
        return None

    def replica_sets(self, deployment_id: str) -> list[ReplicaSetFact]:
        return []

    def node(self, name: str) -> NodeFact | None:
        return None

    def native(self, kind: str, namespace: str, name: str) -> Native | None:
        return None


class NoJobsSeen:
    """A `JobView` of no cluster."""

    synced = False

    def job(self, run: str) -> JobFact | None:
        return None

    def pods(self, run: str) -> list[JobPodFact]:
        return []

    def runs(self) -> list[str]:
        return []

    def node(self, name: str) -> NodeFact | None:
        return None


class SilentImages:
    """`Images` where no registry can be asked: no image says what it is made for."""

    async def runtime(self, reference: str) -> str | None:
        return None


def _refuse() -> NoReturn:
    raise KubeError("unreachable", "this API has no cluster of its own")
