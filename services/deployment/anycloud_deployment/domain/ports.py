"""The world outside, as the rules need it. What speaks to Kubernetes raises `anycloud_common.kube.KubeError` (its
reasons are explained there) and `Foreign` where an object of our name isn't ours."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from anycloud_deployment.domain.model import JobFact, JobPodFact, NodeFact, PodFact, Pool, ReplicaSetFact


class PoolUnavailable(Exception):
    """nodepool gave no answer; nothing is known about the pool."""

    unavailable = True  # the server answers it with the operation's declared 503


class NodePools(Protocol):
    """The node pools, as nodepool keeps them. Every call has a deadline and raises PoolUnavailable."""

    async def find(self, id_or_name: str) -> Pool | None:
        """The pool of that id or live name; None when there is none."""
        ...

    async def closed_attempts(self, attempts: Collection[str]) -> frozenset[str]:
        """Those of the attempts whose VMs are confirmed gone."""
        ...


class Images(Protocol):
    """Image registries."""

    async def runtime(self, reference: str) -> str | None:
        """`cuda` or `rocm` when the image says that it is made for it; None when it doesn't or can't be read."""
        ...


@dataclass(frozen=True)
class Native:
    """One of our objects as Kubernetes has it. `ours` by owner labels and intent; `version` counts changes of its spec,
    `revision` is that of a Deployment's template, and `data` a Secret's, base64 as stored."""

    uid: str
    ours: bool
    deleting: bool
    version: int = 0
    revision: int | None = None
    data: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Holder:
    """Whose token that is, by a TokenReview: a ServiceAccount, and the Pod that the token is bound to."""

    namespace: str
    service_account: str
    pod_name: str | None
    pod_uid: str | None


class Objects(Protocol):
    """Writes and single reads at the Kubernetes API. Every call has a deadline."""

    async def find(self, kind: str, namespace: str, name: str) -> Native | None:
        """The object as it is now; None when there is none."""
        ...

    async def create(self, kind: str, body: dict[str, Any]) -> Native:
        """Creates the object, or gives the one that an earlier try made. Raises Foreign when the name is taken."""
        ...

    async def apply(self, kind: str, body: dict[str, Any], uid: str) -> Native:
        """Makes that very object look like `body`. KubeError(conflict or not_found) when it isn't there any more."""
        ...

    async def delete(self, kind: str, namespace: str, name: str, uid: str) -> bool:
        """Deletes that very object; True once it is gone, or its name is another object's."""
        ...

    async def pods(self, namespace: str, deployment_id: str) -> list[PodFact]:
        """The Pods of a Deployment, read now."""
        ...

    async def replica_sets(self, namespace: str, deployment_id: str) -> list[ReplicaSetFact]:
        """The ReplicaSets of a Deployment, read now."""
        ...

    async def job_pods(self, namespace: str, run: str) -> list[JobPodFact]:
        """The Pods of an image Job's run, read now."""
        ...

    async def pod_uid(self, namespace: str, name: str) -> str | None:
        """UID of the Pod that has this name now; None when there is none."""
        ...

    async def lease(self, node: str) -> str | None:
        """When a Node's kubelet last renewed its lease, as the kubelet wrote it; None without a lease."""
        ...


class Tokens(Protocol):
    """The judge of workload tokens."""

    async def review(self, token: str) -> Holder | None:
        """None when the cluster doesn't accept the token for our audience. Raises KubeError when it can't be asked."""
        ...


class Logs(Protocol):
    """Container logs."""

    def lines(self, namespace: str, pod: str, *, tail: int | None, previous: bool, follow: bool) -> AsyncIterator[str]:
        """Lines without their ends, while they come when following. Raises KubeError."""
        ...


class View(Protocol):
    """Pods, ReplicaSets, Nodes and our own objects as last reported by watches, without asking anybody."""

    @property
    def synced(self) -> bool:
        """Whether what this view tells can be relied on. All its other members may be asked only then."""
        ...

    def pods(self, deployment_id: str) -> list[PodFact]: ...

    def pod(self, uid: str) -> PodFact | None: ...

    def replica_sets(self, deployment_id: str) -> list[ReplicaSetFact]: ...

    def node(self, name: str) -> NodeFact | None: ...

    def native(self, kind: str, namespace: str, name: str) -> Native | None:
        """Ours or none: a stranger's object isn't watched."""
        ...


class JobView(Protocol):
    """Batch Jobs of ours, their Pods, and Nodes, as last reported by watches, without asking anybody."""

    @property
    def synced(self) -> bool:
        """Whether what this view tells can be relied on. All its other members may be asked only then."""
        ...

    def job(self, run: str) -> JobFact | None: ...

    def pods(self, run: str) -> list[JobPodFact]: ...

    def runs(self) -> list[str]:
        """Those that have a Pod."""
        ...

    def node(self, name: str) -> NodeFact | None: ...


class Wakes(Protocol):
    """Who has to hear of a committed change. Called on the event loop after the commit."""

    def queue(self, deployment_id: str) -> None:
        """A Job waits, or a slot is free."""
        ...

    def job(self, job_id: str) -> None:
        """A submission was claimed, has ended, or was replaced by a new one."""
        ...

    def execution(self, execution_id: str) -> None:
        """An execution was cancelled or is over."""
        ...

    def deployment(self, deployment_id: str) -> None:
        """Its reconciler has something to do."""
        ...

    def executions(self, deployment_id: str, after: float = 0.0) -> None:
        """Executions or deadlines of its Jobs are to be looked at, in so many seconds."""
        ...

    def image_job(self, run: str) -> None:
        """A run of an image Job is to be looked at."""
        ...
