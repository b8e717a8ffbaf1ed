"""The outside of the deployment service, in memory."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any

from anycloud_common.kube import Foreign, KubeError, names
from anycloud_deployment.domain import manifest
from anycloud_deployment.domain.model import JobFact, JobPodFact, NodeFact, PodFact, Pool, ReplicaSetFact
from anycloud_deployment.domain.ports import Holder, Native, PoolUnavailable
from anycloudapi.common.internal.v1 import holds_pb2

POOL = Pool(
    id="np-1",
    name="training",
    cluster_id="cl-1",
    state="running",
    provider="AWS",
    vm_type="t3.large",
    ready_nodes=1,
    namespace="pool-ns",
    namespace_uid="ns-uid",
)
GPU_POOL = replace(POOL, id="np-gpu", name="gpu", vm_type="p4d.24xlarge", namespace="gpu-ns", namespace_uid="gpu-uid")
NODE = NodeFact("node-1", "node-uid", "attempt-1", True)


class Killed(BaseException):
    """Stands for `kill -9`: nothing catches it."""


@dataclass
class FakePools:
    pools: dict[str, Pool] = field(default_factory=lambda: {POOL.id: POOL, GPU_POOL.id: GPU_POOL})
    closed: set[str] = field(default_factory=set)
    away: bool = False

    async def find(self, id_or_name: str) -> Pool | None:
        if self.away:
            raise PoolUnavailable("GetNodePool: UNAVAILABLE")
        by_name = {pool.name: pool for pool in self.pools.values() if pool.state != "deleted"}
        return self.pools.get(id_or_name) or by_name.get(id_or_name)

    async def closed_attempts(self, attempts: Collection[str]) -> frozenset[str]:
        if self.away:
            raise PoolUnavailable("ListClosedAttempts: UNAVAILABLE")
        return frozenset(self.closed & set(attempts))


@dataclass
class FakeImages:
    made_for: dict[str, str] = field(default_factory=dict)

    async def runtime(self, reference: str) -> str | None:
        return self.made_for.get(reference)


class FakeHolds:
    """nodepool's HoldService for pools with a number of devices."""

    def __init__(self) -> None:
        self.devices = 8
        self.held: dict[str, holds_pb2.Admission] = {}
        self.released: set[str] = set()
        self.refusal: tuple[str, str] | None = None
        self.before_answer: Callable[[], None] = lambda: None

    async def AcquireHolds(self, request: holds_pb2.AcquireHoldsRequest, **_: Any) -> holds_pb2.AcquireHoldsResponse:
        admission = request.admission
        refusal = self.refusal or self._no_room(admission)
        if admission.id in self.released:
            refusal = ("ADMISSION_RELEASED", "was released")
        if refusal is not None:
            refused = holds_pb2.Refused(parent_kind="node-pool", parent_id="np-1", code=refusal[0], message=refusal[1])
            return holds_pb2.AcquireHoldsResponse(refused=refused)
        self.held[admission.id] = admission
        self.before_answer()
        return holds_pb2.AcquireHoldsResponse(granted=holds_pb2.Granted())

    async def ReleaseHolds(self, request: holds_pb2.ReleaseHoldsRequest, **_: Any) -> holds_pb2.ReleaseHoldsResponse:
        for admission_id in request.admission_ids:
            self.held.pop(admission_id, None)
            self.released.add(admission_id)
        return holds_pb2.ReleaseHoldsResponse()

    def _no_room(self, wanted: holds_pb2.Admission) -> tuple[str, str] | None:
        largest: dict[str, int] = {}
        for held in self.held.values():
            if held.owner.id != wanted.owner.id and held.parents[0].id == wanted.parents[0].id:
                largest[held.owner.id] = max(largest.get(held.owner.id, 0), held.devices)
        free = self.devices - sum(largest.values())
        if wanted.devices <= free:
            return None
        return "NO_FREE_DEVICES", f"Node pool 'gpu' (running) has {free} free devices, but {wanted.devices} are wanted."


@dataclass
class _Object:
    uid: str
    body: dict[str, Any]
    version: int = 1


class FakeCluster:
    """`Objects`, `Tokens`, `Logs` and `View` of one small cluster.

    With `controllers` its Deployments get Pods at once, ready and available, the old revision's gone before, and its
    batch Jobs a Pod that waits for a Node, and loses it with the Job. After `lives` writes it raises Killed, the write
    done.
    """

    def __init__(self) -> None:
        self.synced = True
        self.controllers = True
        self.objects: dict[tuple[str, str, str], _Object] = {}
        self.all_pods: dict[str, PodFact] = {}
        self.sets: dict[str, list[ReplicaSetFact]] = {}
        self.nodes: dict[str, NodeFact] = {NODE.name: NODE}
        self.leases: dict[str, str] = {NODE.name: "t0"}
        self.tokens: dict[str, Holder] = {}
        self.reviews: list[str] = []
        self.lookups_to_fail = 0  # reviews that say no although the token is good
        self.logs: dict[tuple[str, bool], list[str]] = {}
        self.error: KubeError | None = None
        self.writes: list[tuple[str, str]] = []
        self.lives: int | None = None
        self.clock_ms: Callable[[], int] = lambda: 0
        self.changed: Callable[[str, str], None] = lambda deployment_id, kind: None
        self.batch: dict[str, JobFact] = {}
        self.job_pods_of: dict[str, list[JobPodFact]] = {}
        self.job_changed: Callable[[str], None] = lambda run: None
        self.started: list[str] = []  # the runs whose containers began, in their order
        self.made: Counter[str] = Counter()  # objects by kind
        self.slow_kubelets = False  # a Job's Pod goes only when its kubelet is done
        self.before_read: Callable[[], Any] | None = None
        self._numbers = itertools.count(1)

    # Objects

    async def find(self, kind: str, namespace: str, name: str) -> Native | None:
        await self._check()
        return self._native(kind, namespace, name)

    async def create(self, kind: str, body: dict[str, Any]) -> Native:
        await self._check()
        metadata = body["metadata"]
        key = (kind, metadata["namespace"], metadata["name"])
        existing = self._native(*key)
        if existing is not None and not existing.ours:
            raise Foreign(kind, metadata["namespace"], metadata["name"])
        if existing is None:
            self.objects[key] = _Object(f"{kind.lower()}-{next(self._numbers)}", body)
            self.made[kind] += 1
            self._control(kind, metadata["name"])
            self._written("create", kind)
        found = self._native(*key)
        assert found is not None
        return found

    async def apply(self, kind: str, body: dict[str, Any], uid: str) -> Native:
        await self._check()
        metadata = body["metadata"]
        key = (kind, metadata["namespace"], metadata["name"])
        there = self.objects.get(key)
        if there is None or there.uid != uid:
            raise KubeError("conflict", "it is another object")
        if there.body != body:
            there.body, there.version = body, there.version + 1
            self._control(kind, metadata["name"])
        self._written("apply", kind)
        found = self._native(*key)
        assert found is not None
        return found

    async def delete(self, kind: str, namespace: str, name: str, uid: str) -> bool:
        await self._check()
        if kind == "Pod":
            pod = self.all_pods.get(uid)
            if pod is not None:
                self.all_pods[uid] = replace(pod, deleting=True)
        there = self.objects.get((kind, namespace, name))
        if there is not None and there.uid == uid:
            del self.objects[kind, namespace, name]
            if kind == "Job":
                self._job_gone(name)
            if kind == "Deployment" and self.controllers:
                self.all_pods = {key: pod for key, pod in self.all_pods.items() if pod.deployment_id != name}
                self.sets.pop(name, None)
        self._written("delete", kind)
        return True

    async def pods(self, namespace: str, deployment_id: str) -> list[PodFact]:
        await self._check()
        return self.seen_pods(deployment_id)

    async def replica_sets(self, namespace: str, deployment_id: str) -> list[ReplicaSetFact]:
        await self._check()
        return list(self.sets.get(deployment_id, []))

    async def job_pods(self, namespace: str, run: str) -> list[JobPodFact]:
        await self._check()
        return list(self.job_pods_of.get(run, []))

    async def pod_uid(self, namespace: str, name: str) -> str | None:
        await self._check()
        return next((pod.uid for pod in self.all_pods.values() if pod.name == name), None)

    async def lease(self, node: str) -> str | None:
        await self._check()
        return self.leases.get(node)

    # Tokens

    async def review(self, token: str) -> Holder | None:
        await self._check()
        self.reviews.append(token)
        if self.lookups_to_fail:
            self.lookups_to_fail -= 1
            return None
        return self.tokens.get(token)

    # Logs

    async def lines(
        self, namespace: str, pod: str, *, tail: int | None, previous: bool, follow: bool
    ) -> AsyncIterator[str]:
        await self._check()
        found = self.logs.get((pod, previous))
        if found is None:
            raise KubeError("invalid", "no such run")
        for line in found if tail is None else found[len(found) - min(tail, len(found)) :]:
            yield line

    # View, under the names that don't clash with the reads

    def view(self) -> ClusterView:
        return ClusterView(self)

    def job_view(self) -> JobsView:
        return JobsView(self)

    def seen_pods(self, deployment_id: str) -> list[PodFact]:
        return [pod for pod in self.all_pods.values() if pod.deployment_id == deployment_id]

    # What tests do to it

    def add_pod(self, deployment_id: str, generation: int = 1, **facts: Any) -> PodFact:
        """A Pod that is ready unless the facts say otherwise; its token is `token-<uid>`."""
        number = next(self._numbers)
        pod = PodFact(
            uid=f"pod-{number}",
            name=f"{deployment_id}-{number}",
            namespace=POOL.namespace,
            deployment_id=deployment_id,
            generation=generation,
            node=NODE.name,
            created_at=f"{number:09}",
            deleting=False,
            ready=True,
            running=True,
            ended=False,
            restarts=0,
            restarts_seen_at=self.clock_ms(),
            container_id=f"c-{number}",
            probed=False,
        )
        pod = replace(pod, **facts)
        self.all_pods[pod.uid] = pod
        self.tokens[f"token-{pod.uid}"] = Holder(pod.namespace, deployment_id, pod.name, pod.uid)
        self.changed(deployment_id, "Pod")
        return pod

    def change_pod(self, uid: str, **facts: Any) -> PodFact:
        pod = self.all_pods[uid] = replace(self.all_pods[uid], **facts)
        self.changed(pod.deployment_id, "Pod")
        return pod

    def drop_pod(self, uid: str) -> None:
        pod = self.all_pods.pop(uid)
        self.changed(pod.deployment_id, "Pod")

    def set_pod(self, run: str, **facts: Any) -> JobPodFact:
        """Another state of a run's one Pod."""
        [pod] = self.job_pods_of[run]
        changed = replace(pod, **facts)
        if changed.running and not pod.running:
            self.started.append(run)
        self.job_pods_of[run] = [changed]
        self.job_changed(run)
        return changed

    def run_pod(self, run: str, node: str = NODE.name) -> JobPodFact:
        return self.set_pod(run, node=node, running=True)

    def end_pod(self, run: str, exit_code: int = 0, over: bool = True, **facts: Any) -> None:
        """The container ends; with `over` the Job controller has noticed."""
        words = None if exit_code == 0 else f"the container ended with exit code {exit_code} (Error)."
        self.set_pod(run, running=False, ended=True, exit_code=exit_code, crashed=words, **facts)
        if over:
            self.set_job(run, over="complete" if exit_code == 0 else "failed", why="BackoffLimitExceeded")

    def set_job(self, run: str, **facts: Any) -> None:
        self.batch[run] = replace(self.batch[run], **facts)
        self.job_changed(run)

    def remove_job(self, run: str, namespace: str = POOL.namespace) -> None:
        """Somebody else deletes a run's batch Job, and Kubernetes its Pod."""
        del self.objects["Job", namespace, run]
        self._job_gone(run)

    def kubelet_is_done(self, run: str) -> None:
        """A run's Pod that is being deleted has ended, and goes."""
        left = [pod for pod in self.job_pods_of.pop(run, []) if not pod.deleting]
        if left:
            self.job_pods_of[run] = left
        self.job_changed(run)

    def _job_gone(self, run: str) -> None:
        self.batch.pop(run, None)
        if self.controllers:
            self.job_pods_of[run] = [replace(pod, deleting=True) for pod in self.job_pods_of.get(run, [])]
        if self.controllers and not self.slow_kubelets:
            self.kubelet_is_done(run)
        self.job_changed(run)

    def body(self, kind: str, deployment_id: str, namespace: str = POOL.namespace) -> dict[str, Any]:
        return self.objects[kind, namespace, deployment_id].body

    def replace_object(self, kind: str, deployment_id: str, namespace: str = POOL.namespace) -> str:
        """Somebody deletes one of our objects and makes another of that name; gives its UID."""
        uid = f"foreign-{next(self._numbers)}"
        body = {"metadata": {"name": deployment_id, "namespace": namespace, "labels": {}, "annotations": {}}}
        self.objects[kind, namespace, deployment_id] = _Object(uid, body)
        return uid

    def touch(self, kind: str, deployment_id: str) -> None:
        """Somebody edits one of our objects."""
        there = self.objects[kind, POOL.namespace, deployment_id]
        there.body = {**there.body, "edited": True}
        there.version += 1

    async def _check(self) -> None:
        if self.before_read is not None:
            await self.before_read()
        if self.error is not None:
            raise self.error

    def _native(self, kind: str, namespace: str, name: str) -> Native | None:
        there = self.objects.get((kind, namespace, name))
        if there is None:
            return None
        metadata = there.body["metadata"]
        labels = metadata["labels"]
        owned = name in (labels.get(names.LABEL_DEPLOYMENT), labels.get(names.LABEL_JOB))
        template = (there.body.get("spec") or {}).get("template") or {"metadata": {"labels": {}}}
        revision = template["metadata"]["labels"].get(names.LABEL_REVISION)
        return Native(
            uid=there.uid,
            ours=owned and metadata["annotations"].get(names.ANNOTATION_INTENT) == manifest.intent(name, kind),
            deleting=False,
            version=there.version,
            revision=int(revision) if revision else None,
            data=there.body.get("data", {}) if kind == "Secret" else None,
        )

    def _control(self, kind: str, deployment_id: str) -> None:
        """What Kubernetes' own controllers would do."""
        if kind == "Job":
            self._control_job(deployment_id)
        if kind != "Deployment" or not self.controllers:
            return
        [body] = [one.body for key, one in self.objects.items() if key[0] == kind and key[2] == deployment_id]
        generation = int(body["spec"]["template"]["metadata"]["labels"][names.LABEL_REVISION])
        present = [pod for pod in self.seen_pods(deployment_id) if pod.generation == generation]
        for pod in self.seen_pods(deployment_id):
            if pod.generation != generation:
                self.drop_pod(pod.uid)
        if not present:
            self.add_pod(deployment_id, generation, namespace=body["metadata"]["namespace"])
        self.sets[deployment_id] = [ReplicaSetFact(generation, 1, 1, None)]

    def _control_job(self, run: str) -> None:
        [(namespace, uid)] = [
            (key[1], one.uid) for key, one in self.objects.items() if key[0] == "Job" and key[2] == run
        ]
        self.batch[run] = JobFact(uid)
        if self.controllers:
            number = next(self._numbers)
            pod = JobPodFact(f"pod-{number}", f"{run}-{number}", namespace, None, f"{number:09}")
            self.job_pods_of.setdefault(run, []).append(pod)
        self.job_changed(run)

    def _written(self, verb: str, kind: str) -> None:
        self.writes.append((verb, kind))
        if self.lives is not None:
            self.lives -= 1
            if self.lives <= 0:
                self.lives = None
                raise Killed(f"after {verb} {kind}")


class ClusterView:
    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster

    @property
    def synced(self) -> bool:
        return self._cluster.synced

    def pods(self, deployment_id: str) -> list[PodFact]:
        return self._cluster.seen_pods(deployment_id)

    def pod(self, uid: str) -> PodFact | None:
        return self._cluster.all_pods.get(uid)

    def replica_sets(self, deployment_id: str) -> list[ReplicaSetFact]:
        return list(self._cluster.sets.get(deployment_id, []))

    def node(self, name: str) -> NodeFact | None:
        return self._cluster.nodes.get(name)

    def native(self, kind: str, namespace: str, name: str) -> Native | None:
        found = self._cluster._native(kind, namespace, name)
        return found if found is not None and found.ours else None


class JobsView:
    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster

    @property
    def synced(self) -> bool:
        return self._cluster.synced

    def job(self, run: str) -> JobFact | None:
        return self._cluster.batch.get(run)

    def pods(self, run: str) -> list[JobPodFact]:
        return list(self._cluster.job_pods_of.get(run, []))

    def runs(self) -> list[str]:
        return list(self._cluster.job_pods_of)

    def node(self, name: str) -> NodeFact | None:
        return self._cluster.nodes.get(name)
