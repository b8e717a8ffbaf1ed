"""Deployments and ReplicaSets: Recreate, and rolling updates that take away before they add (no surge)."""

import hashlib

import orjson

from anycloud_sandbox.kube.objects import KubeError, dig, merge, ready
from anycloud_sandbox.kube.store import Store, key_of
from anycloud_sandbox.state import Json

REVISION = "deployment.kubernetes.io/revision"
HASH = "pod-template-hash"


def replicaset(store: Store, owner: Json) -> None:
    """Creates or deletes Pods; what it can't create, it says in a condition."""
    pods, conditions, meta, template = _active(store, owner), [], owner["metadata"], owner["spec"]["template"]
    missing = owner["spec"]["replicas"] - len(pods)
    about = {**template["metadata"], "generateName": meta["name"] + "-", "ownerReferences": [_reference(owner)]}
    try:
        for _ in range(missing):
            store.create("pods", meta["namespace"], {"metadata": about, "spec": template["spec"]})
    except KubeError as error:
        conditions.append(_condition("ReplicaFailure", True, "FailedCreate") | {"message": error.message})
    pods.sort(key=lambda pod: (ready(pod) == "True", bool(pod["spec"].get("nodeName"))))
    for pod in pods[: max(0, -missing)]:
        store.delete(key_of("pods", pod))
    pods = _active(store, owner)
    status = {"replicas": len(pods), "observedGeneration": meta["generation"], "conditions": conditions}
    status |= dict.fromkeys(("readyReplicas", "availableReplicas"), _ready(pods))
    store.update(key_of("replicasets", owner), {**owner, "status": status}, "status")


def deployment(store: Store, owner: Json) -> None:
    spec, recreate = owner["spec"], owner["spec"]["strategy"]["type"] == "Recreate"
    digest = hashlib.sha256(orjson.dumps(spec["template"], option=orjson.OPT_SORT_KEYS)).hexdigest()[:10]
    everything = store.owned_by(owner, "replicasets")
    old = [item for item in everything if item["metadata"]["labels"][HASH] != digest]
    new = next((item for item in everything if item not in old), None) or _make(store, owner, digest)
    newest = max((_revision(item) for item in old), default=0)
    if _revision(new) <= newest:  # also when an earlier template is gone back to
        number = {"metadata": {"annotations": {REVISION: str(newest + 1)}}}
        new = store.patch(key_of("replicasets", new), number)
    owner = store.patch(key_of("deployments", owner), {"metadata": {"annotations": {REVISION: str(_revision(new))}}})
    spare = _ready([pod for item in [*old, new] for pod in _active(store, item)]) - spec["replicas"]
    spare += int(dig(spec, "strategy.rollingUpdate.maxUnavailable") or 1)  # how many ready Pods may go
    for item in old:
        pods = _active(store, item)
        gone = len(pods) if recreate else min(len(pods), len(pods) - _ready(pods) + max(0, spare))
        spare -= max(0, gone - (len(pods) - _ready(pods)))
        _scale(store, item, len(pods) - gone)
    left = [pod for item in old for pod in (store.owned_by(item, "pods") if recreate else _active(store, item))]
    new = _scale(store, new, 0 if recreate and left else max(0, spec["replicas"] - len(left)))
    _tell(store, owner, _active(store, new), [pod for item in old for pod in _active(store, item)])


def _make(store: Store, owner: Json, digest: str) -> Json:
    meta, spec, label = owner["metadata"], owner["spec"], {HASH: digest}
    template = merge(spec["template"], {"metadata": {"labels": label}})
    about = {
        "name": f"{meta['name']}-{digest}",
        "labels": template["metadata"]["labels"],
        "annotations": {REVISION: "0"},
    }
    about["ownerReferences"] = [_reference(owner)]
    rest = {"replicas": 0, "selector": merge(spec["selector"], {"matchLabels": label}), "template": template}
    return store.create("replicasets", meta["namespace"], {"metadata": about, "spec": rest})


def _tell(store: Store, owner: Json, current: list[Json], others: list[Json]) -> None:
    wanted, total, usable = owner["spec"]["replicas"], len(current) + len(others), _ready([*current, *others])
    status = {"observedGeneration": owner["metadata"]["generation"], "replicas": total, "updatedReplicas": len(current)}
    status |= {"readyReplicas": usable, "availableReplicas": usable, "unavailableReplicas": max(0, wanted - usable)}
    reached = "MinimumReplicasAvailable" if usable >= wanted else "MinimumReplicasUnavailable"
    done = len(current) == total == usable == wanted
    progress = _condition("Progressing", True, "NewReplicaSetAvailable" if done else "ReplicaSetUpdated")
    conditions = [_condition("Available", usable >= wanted, reached), progress]
    store.update(key_of("deployments", owner), {**owner, "status": {**status, "conditions": conditions}}, "status")


def _scale(store: Store, item: Json, count: int) -> Json:
    return store.patch(key_of("replicasets", item), {"spec": {"replicas": count}})


def _active(store: Store, owner: Json) -> list[Json]:
    """The Pods that count: neither ended nor being deleted."""
    pods = [pod for pod in store.owned_by(owner, "pods") if "deletionTimestamp" not in pod["metadata"]]
    return [pod for pod in pods if pod["status"]["phase"] not in ("Succeeded", "Failed")]


def _ready(pods: list[Json]) -> int:
    return sum(ready(pod) == "True" for pod in pods)


def _reference(obj: Json) -> Json:
    about = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "controller": True, "blockOwnerDeletion": True}
    return {**about, "name": obj["metadata"]["name"], "uid": obj["metadata"]["uid"]}


def _revision(item: Json) -> int:
    return int(item["metadata"]["annotations"][REVISION])


def _condition(kind: str, good: bool, reason: str) -> Json:
    return {"type": kind, "status": str(good), "reason": reason}
