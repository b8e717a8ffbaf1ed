"""What Kubernetes' objects say, as facts: pure readings of JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from anycloud_common.kube import names

from anycloud_deployment.domain import manifest, pods
from anycloud_deployment.domain.model import JobFact, JobPodFact, NodeFact, PodFact, ReplicaSetFact
from anycloud_deployment.domain.ports import Native

Object = Mapping[str, Any]


def pod(obj: Object, restarts_seen_at: int = 0) -> PodFact:
    """A Pod made from one of our templates. `restarts_seen_at` is the caller's knowledge, not the object's."""
    metadata, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    container = _named(status.get("containerStatuses") or (), pods.CONTAINER)
    state = container.get("state") or {}
    waiting, terminated = state.get("waiting") or {}, state.get("terminated") or {}
    return PodFact(
        uid=metadata["uid"],
        name=metadata["name"],
        namespace=metadata["namespace"],
        deployment_id=_label(metadata, names.LABEL_DEPLOYMENT) or "",
        generation=_number(_label(metadata, names.LABEL_REVISION)),
        node=spec.get("nodeName") or None,
        created_at=metadata.get("creationTimestamp") or "",
        deleting=bool(metadata.get("deletionTimestamp")),
        ready=container.get("ready") is True and status.get("phase") == "Running",
        running="running" in state,
        ended=_ended(status),
        restarts=int(container.get("restartCount") or 0),
        restarts_seen_at=restarts_seen_at,
        container_id=container.get("containerID") or None,
        probed=bool(_named(spec.get("containers") or (), pods.CONTAINER).get("readinessProbe")),
        waiting=waiting.get("reason"),
        waiting_message=waiting.get("message"),
        crashed=_crash(terminated) if terminated else None,
        unschedulable=_unschedulable(status),
    )


def replica_set(obj: Object) -> ReplicaSetFact:
    status = obj.get("status") or {}
    failures = (
        condition.get("message") or condition.get("reason")
        for condition in status.get("conditions") or ()
        if condition.get("type") == "ReplicaFailure" and condition.get("status") == "True"
    )
    return ReplicaSetFact(
        generation=_number(_label(obj["metadata"], names.LABEL_REVISION)),
        wanted=int((obj.get("spec") or {}).get("replicas") or 0),
        available=int(status.get("availableReplicas") or 0),
        failure=next(failures, None),
    )


def node(obj: Object) -> NodeFact:
    metadata = obj["metadata"]
    conditions = (obj.get("status") or {}).get("conditions") or ()
    ready = any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)
    return NodeFact(metadata["name"], metadata["uid"], _label(metadata, names.LABEL_ATTEMPT) or "", ready)


def job_pod(obj: Object) -> JobPodFact:
    """A Pod of a batch Job of ours."""
    metadata, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    state = _named(status.get("containerStatuses") or (), pods.CONTAINER).get("state") or {}
    waiting, terminated = state.get("waiting") or {}, state.get("terminated") or {}
    return JobPodFact(
        uid=metadata["uid"],
        name=metadata["name"],
        namespace=metadata["namespace"],
        node=spec.get("nodeName") or None,
        created_at=metadata.get("creationTimestamp") or "",
        deleting=bool(metadata.get("deletionTimestamp")),
        running="running" in state,
        ended=_ended(status),
        exit_code=terminated.get("exitCode"),
        crashed=_crash(terminated) if terminated else None,
        failed=_failed(status),
        waiting=waiting.get("reason"),
        waiting_message=waiting.get("message"),
        unschedulable=_unschedulable(status),
    )


def job(obj: Object) -> JobFact:
    """A batch Job of ours."""
    metadata = obj["metadata"]
    over: dict[str, Literal["complete", "failed"]] = {"Complete": "complete", "Failed": "failed"}
    conditions = (obj.get("status") or {}).get("conditions") or ()
    ended: Object = next((one for one in conditions if one.get("type") in over and one.get("status") == "True"), {})
    return JobFact(
        uid=metadata["uid"],
        deleting=bool(metadata.get("deletionTimestamp")),
        over=over.get(ended.get("type", "")),
        why=ended.get("message") or ended.get("reason"),
    )


def native(obj: Object, name: str, kind: str) -> Native:
    """`name` is the Deployment's id or the name of an image Job's run, as owner labels and intents have it."""
    metadata = obj["metadata"]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    marked = labels.get(names.LABEL_MANAGED_BY) == names.MANAGED_BY
    owned = marked and name in (labels.get(names.LABEL_DEPLOYMENT), labels.get(names.LABEL_JOB))
    return Native(
        uid=metadata["uid"],
        ours=owned and annotations.get(names.ANNOTATION_INTENT) == manifest.intent(name, kind),
        deleting=bool(metadata.get("deletionTimestamp")),
        version=int(metadata.get("generation") or 0),
        revision=_template_revision(obj),
        data=(obj.get("data") or {}) if kind == "Secret" else None,
    )


def _ended(status: Object) -> bool:
    """Whether the kubelet itself reported the Pod as over. The garbage collector of Pods writes the phase alone, for
    Nodes that it can't see, and never a container's state."""
    containers = status.get("containerStatuses") or ()
    over = all("terminated" in (one.get("state") or {}) for one in containers)
    return status.get("phase") in ("Succeeded", "Failed") and bool(containers) and over


def _failed(status: Object) -> str | None:
    """Why the Pod as such has failed, such as an eviction, beside what its container did."""
    if status.get("phase") != "Failed":
        return None
    for condition in status.get("conditions") or ():
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
            status = condition
    why: str | None = status.get("message") or status.get("reason")
    return why


def _crash(terminated: Object) -> str:
    said = terminated.get("message") or ""
    reason = terminated.get("reason") or "Error"
    text = f"the container ended with exit code {terminated.get('exitCode', '?')} ({reason})"
    return f"{text}: {said.strip()[-300:]}" if said.strip() else f"{text}."


def _unschedulable(status: Object) -> str | None:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return condition.get("message") or condition.get("reason") or "it fits no Node."
    return None


def _template_revision(obj: Object) -> int | None:
    template = (obj.get("spec") or {}).get("template") or {}
    return _number(_label(template.get("metadata") or {}, names.LABEL_REVISION))


def _named(items: Iterable[Mapping[str, Any]], name: str) -> Mapping[str, Any]:
    return next((item for item in items if item.get("name") == name), {})


def _label(metadata: Object, label: str) -> str | None:
    value: str | None = (metadata.get("labels") or {}).get(label)
    return value


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None
