"""What a Deployment is made of. Times are epoch milliseconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Probe:
    """A Kubernetes exec probe; timings that are None take the Kubernetes defaults."""

    command: tuple[str, ...]
    initial_delay_seconds: int | None = None
    period_seconds: int | None = None
    timeout_seconds: int | None = None
    success_threshold: int | None = None
    failure_threshold: int | None = None


@dataclass(frozen=True)
class DockerOptions:
    """The container options as given; None is what was never given, or was removed."""

    binds: tuple[str, ...] | None = None
    cpus: str | None = None
    gpus: str | None = None
    memory: str | None = None
    privileged: bool | None = None
    runtime: str | None = None
    shm_size: str | None = None


@dataclass(frozen=True)
class Spec:
    """All that one revision asks for. `slots` are Jobs at once in one replica."""

    image: str
    command: tuple[str, ...] | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    options: DockerOptions = DockerOptions()
    probe: Probe | None = None
    replicas: int = 1
    slots: int = 1


@dataclass(frozen=True)
class Resources:
    """What one replica gets: whole GPUs, and CPU and memory as requests, with or without an equal limit."""

    gpus: int
    cpu_millis: int
    cpu_limited: bool
    memory_bytes: int
    memory_limited: bool


@dataclass(frozen=True)
class Revision:
    """One revision as admitted."""

    generation: int
    spec: Spec
    resources: Resources
    admission_id: str
    created_at: int

    @property
    def devices(self) -> int:
        """GPU devices that all replicas together reserve."""
        return self.resources.gpus * self.spec.replicas


@dataclass(frozen=True)
class Natives:
    """The Namespace, and the UIDs of our own objects in it, as far as they are known to exist."""

    namespace: str | None = None
    namespace_uid: str | None = None
    service_account_uid: str | None = None
    secret_uid: str | None = None
    deployment_uid: str | None = None


@dataclass(frozen=True)
class Block:
    """Why the reconciler can't go on. `fatal`: not before somebody changes something."""

    reason: str
    fatal: bool = False


@dataclass(frozen=True)
class Deployment:
    """A Deployment's stored facts.

    generation: the requested revision; `replicas` and `slots` are its. applied: the one that Kubernetes was told, and
    `applied_template` its Pod template's fingerprint. rolled_out: the newest one that has been available.
    """

    id: str
    name: str
    node_pool_id: str
    node_pool_name: str
    created_by: str
    created_at: int
    updated_at: int
    generation: int
    replicas: int = 1
    slots: int = 1
    applied: int | None = None
    applied_template: str | None = None
    rolled_out: int | None = None
    natives: Natives = Natives()
    block: Block | None = None
    visible: bool = True
    jobs_submitted: int = 0
    deletion_requested_at: int | None = None
    deleted_at: int | None = None

    @property
    def accepting(self) -> bool:
        """Whether it takes new Jobs."""
        return self.visible and self.deletion_requested_at is None


@dataclass(frozen=True)
class JobCounts:
    """`queued`, `running` and `retrying` by state; `unreleased` are Jobs that hold a slot, cleaning up included."""

    queued: int = 0
    running: int = 0
    retrying: int = 0
    terminal: int = 0
    unreleased: int = 0


@dataclass(frozen=True)
class Pool:
    """A node pool as nodepool tells it."""

    id: str
    name: str
    cluster_id: str
    state: str
    provider: str
    vm_type: str
    ready_nodes: int
    namespace: str = ""
    namespace_uid: str = ""
    namespace_error: str = ""


@dataclass(frozen=True)
class NodeFact:
    """A pool's Node. `attempt` is the id of the attempt that made its VM."""

    name: str
    uid: str
    attempt: str
    ready: bool


@dataclass(frozen=True)
class PodFact:
    """One Pod of a Deployment as last reported.

    `ready` is container readiness, which a probe decides where there is one. `restarts_seen_at` is when the present
    number of restarts was first seen by this process. `ended`: the kubelet reported that all containers are over.
    """

    uid: str
    name: str
    namespace: str
    deployment_id: str
    generation: int | None
    node: str | None
    created_at: str
    deleting: bool
    ready: bool
    running: bool
    ended: bool
    restarts: int
    restarts_seen_at: int
    container_id: str | None
    probed: bool
    waiting: str | None = None
    waiting_message: str | None = None
    crashed: str | None = None
    unschedulable: str | None = None


@dataclass(frozen=True)
class ReplicaSetFact:
    """A ReplicaSet of a Deployment. `failure` is why it can't make Pods."""

    generation: int | None
    wanted: int
    available: int
    failure: str | None


@dataclass(frozen=True)
class JobPodFact:
    """The Pod of a batch Job as last reported.

    `ended`: the kubelet reported that its container is over, with `exit_code`; `crashed` says that in words. `failed`
    is why the Pod as such failed, such as an eviction.
    """

    uid: str
    name: str
    namespace: str
    node: str | None
    created_at: str
    deleting: bool = False
    running: bool = False
    ended: bool = False
    exit_code: int | None = None
    crashed: str | None = None
    failed: str | None = None
    waiting: str | None = None
    waiting_message: str | None = None
    unschedulable: str | None = None


@dataclass(frozen=True)
class JobFact:
    """A batch Job as last reported. `over`: Kubernetes will never make a Pod for it again; `why` is in its words."""

    uid: str
    deleting: bool = False
    over: Literal["complete", "failed"] | None = None
    why: str | None = None
