"""Deployments and ReplicaSets: Recreate, and rolling updates within maxSurge and maxUnavailable."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from typing import Any

import orjson

from anycloud_sandbox.kube.nodes import ready
from anycloud_sandbox.kube.resources import KubeError, dig, merge, seconds_of, timestamp
from anycloud_sandbox.kube.store import Key, Store
from anycloud_sandbox.state import Json

REVISION = "deployment.kubernetes.io/revision"
HASH = "pod-template-hash"


class Rollout:
    """`again` takes keys to be looked at a second later."""

    def __init__(self, store: Store, again: Callable[[Key], None]) -> None:
        self._store, self._again = store, again

    def replicaset(self, key: Key) -> None:
        replicaset = self._store.find(*key)
        if replicaset is None:
            return
        pods = _active(self._pods(replicaset))
        missing = replicaset["spec"]["replicas"] - len(pods)
        failure = self._make_pods(replicaset, missing)
        for pod in sorted(pods, key=_worth)[: max(0, -missing)]:
            self._store.delete(("pods", key[1], pod["metadata"]["name"]))
        pods = _active(self._pods(replicaset))
        count = sum(ready(pod) == "True" for pod in pods)
        status = {"replicas": len(pods), "readyReplicas": count, "availableReplicas": count}
        status["fullyLabeledReplicas"] = len(pods)
        status["observedGeneration"] = replicaset["metadata"]["generation"]
        more = {"conditions": [failure]} if failure else {}
        self._store.update(key, {**replicaset, "status": {**status, **more}}, "status")

    def _make_pods(self, replicaset: Json, count: int) -> Json | None:
        """Creates Pods; the condition that says why it could not."""
        meta, template = replicaset["metadata"], replicaset["spec"]["template"]
        about = {name: value for name, value in template["metadata"].items() if name in ("labels", "annotations")}
        about |= {"generateName": meta["name"] + "-", "ownerReferences": [_owner(replicaset)]}
        try:
            for _ in range(count):
                self._store.create("pods", meta["namespace"], {"metadata": about, "spec": template["spec"]})
        except KubeError as error:
            self._again(("replicasets", meta["namespace"], meta["name"]))
            return {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": error.message}
        return None

    def deployment(self, key: Key) -> None:
        deployment = self._store.find(*key)
        if deployment is None or "deletionTimestamp" in deployment["metadata"]:
            return
        new, old = self._replicasets(deployment)
        if dig(deployment, "spec.strategy.type") == "Recreate":
            for replicaset in old:
                self._scale(replicaset, 0)
            if not any(self._pods(replicaset) for replicaset in old):
                new = self._scale(new or self._make_replicaset(deployment, old), deployment["spec"]["replicas"])
        else:
            new = self._roll(deployment, new or self._make_replicaset(deployment, old), old)
        if new:
            revision = {"metadata": {"annotations": {REVISION: new["metadata"]["annotations"][REVISION]}}}
            deployment = self._store.patch(key, revision, None)
        self._write_status(key, deployment, new)
        finished = sorted((item for item in old if not self._pods(item)), key=_revision)
        for replicaset in finished[: max(0, len(finished) - deployment["spec"]["revisionHistoryLimit"])]:
            self._store.delete(("replicasets", key[1], replicaset["metadata"]["name"]))

    def _replicasets(self, deployment: Json) -> tuple[Json | None, list[Json]]:
        """The one of the current template, if there is one, and all others."""
        keys = self._store.dependents.get(deployment["metadata"]["uid"], set())
        found = [self._store.get(key) for key in sorted(keys) if key[0] == "replicasets"]
        digest = _digest(deployment["spec"]["template"])
        current = [item for item in found if item["metadata"]["labels"][HASH] == digest]
        return (current[0] if current else None), [item for item in found if item not in current]

    def _make_replicaset(self, deployment: Json, old: list[Json]) -> Json:
        meta, spec = deployment["metadata"], deployment["spec"]
        label = {HASH: _digest(spec["template"])}
        template = merge(spec["template"], {"metadata": {"labels": label}})
        selector = merge(spec["selector"], {"matchLabels": label})
        about = {"name": f"{meta['name']}-{label[HASH]}", "labels": template["metadata"]["labels"]}
        about["annotations"] = {REVISION: str(max(map(_revision, old), default=0) + 1)}
        about["ownerReferences"] = [_owner(deployment)]
        body = {"metadata": about, "spec": {"replicas": 0, "selector": selector, "template": template}}
        return self._store.create("replicasets", meta["namespace"], body)

    def _roll(self, deployment: Json, new: Json, old: list[Json]) -> Json:
        wanted = deployment["spec"]["replicas"]
        rolling = dig(deployment, "spec.strategy.rollingUpdate") or {}
        surge = _share(rolling.get("maxSurge", "25%"), wanted, up=True)
        spare = _share(rolling.get("maxUnavailable", "25%"), wanted, up=False) or (0 if surge else 1)
        others = sum(item["spec"]["replicas"] for item in old)
        top = max(map(_revision, old), default=0)
        if _revision(new) <= top:  # going back to an earlier template makes it the newest revision
            new = self._put(merge(new, {"metadata": {"annotations": {REVISION: str(top + 1)}}}))
        room = max(new["spec"]["replicas"], wanted + surge - others)
        new = self._scale(new, min(wanted, room))
        everything = [new, *old]
        available = sum(self._available(item) for item in everything)
        surplus = others + new["spec"]["replicas"] - (wanted - spare)
        surplus -= new["spec"]["replicas"] - self._available(new)
        for replicaset in old:
            idle = replicaset["spec"]["replicas"] - self._available(replicaset)
            drop = min(max(0, surplus), idle)
            drop += min(
                max(0, surplus - drop), replicaset["spec"]["replicas"] - idle, max(0, available - wanted + spare)
            )
            available -= max(0, drop - idle)
            surplus -= drop
            self._scale(replicaset, replicaset["spec"]["replicas"] - drop)
        return new

    def _write_status(self, key: Key, deployment: Json, new: Json | None) -> None:
        current, others = self._replicasets(deployment)
        pods = {
            item["metadata"]["name"]: _active(self._pods(item)) for item in [*others, *([current] if current else [])]
        }
        total = sum(map(len, pods.values()))
        usable = sum(ready(pod) == "True" for found in pods.values() for pod in found)
        status: dict[str, Any] = {"observedGeneration": deployment["metadata"]["generation"], "replicas": total}
        status["updatedReplicas"] = len(pods[new["metadata"]["name"]]) if new else 0
        status |= {"readyReplicas": usable, "availableReplicas": usable}
        wanted = deployment["spec"]["replicas"]
        if wanted > usable:
            status["unavailableReplicas"] = wanted - usable
        done = status["updatedReplicas"] == total == usable == wanted
        last = deployment.get("status") or {}
        status["conditions"] = [
            _condition(last, "Available", usable >= wanted, "MinimumReplicasAvailable", "MinimumReplicasUnavailable"),
            self._progress(deployment, last, status, done),
        ]
        self._store.update(key, {**deployment, "status": status}, "status")

    def _progress(self, deployment: Json, last: Json, status: Json, done: bool) -> Json:
        before: Json = next((c for c in last.get("conditions", []) if c["type"] == "Progressing"), None)
        counters = ("updatedReplicas", "availableReplicas", "replicas", "observedGeneration")
        moved = before is None or any(last.get(name) != status[name] for name in counters)
        since = timestamp(time.time()) if before is None or moved else before["lastUpdateTime"]
        late = not done and time.time() - seconds_of(since) > deployment["spec"]["progressDeadlineSeconds"]
        if not done and not late:
            self._again(("deployments", deployment["metadata"]["namespace"], deployment["metadata"]["name"]))
        reason = "NewReplicaSetAvailable" if done else "ReplicaSetUpdated"
        condition = _condition(last, "Progressing", not late, reason, "ProgressDeadlineExceeded")
        return {**condition, "lastUpdateTime": since}

    def _scale(self, replicaset: Json, count: int) -> Json:
        if replicaset["spec"]["replicas"] == count:
            return replicaset
        return self._put(merge(replicaset, {"spec": {"replicas": count}}))

    def _put(self, replicaset: Json) -> Json:
        meta = replicaset["metadata"]
        return self._store.update(("replicasets", meta["namespace"], meta["name"]), replicaset)

    def _pods(self, owner: Json) -> list[Json]:
        keys = self._store.dependents.get(owner["metadata"]["uid"], set())
        return [self._store.get(key) for key in keys if key[0] == "pods"]

    def _available(self, replicaset: Json) -> int:
        return sum(ready(pod) == "True" for pod in _active(self._pods(replicaset)))


def _active(pods: list[Json]) -> list[Json]:
    return [
        pod
        for pod in pods
        if "deletionTimestamp" not in pod["metadata"] and pod["status"]["phase"] not in ("Succeeded", "Failed")
    ]


def _worth(pod: Json) -> tuple[bool, bool, str]:
    """Pods that are worth least come first."""
    return ready(pod) == "True", bool(pod["spec"].get("nodeName")), pod["metadata"]["name"]


def _owner(obj: Json) -> Json:
    meta = obj["metadata"]
    about = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "name": meta["name"], "uid": meta["uid"]}
    return {**about, "controller": True, "blockOwnerDeletion": True}


def _revision(replicaset: Json) -> int:
    return int(replicaset["metadata"]["annotations"][REVISION])


def _digest(template: Json) -> str:
    return hashlib.sha256(orjson.dumps(template, option=orjson.OPT_SORT_KEYS)).hexdigest()[:10]


def _share(value: int | str, whole: int, up: bool) -> int:
    """A number, or a percentage of the replicas, rounded as Kubernetes does."""
    if isinstance(value, int):
        return value
    percent = int(value.rstrip("%")) * whole
    return -(-percent // 100) if up else percent // 100


def _condition(last: Json, kind: str, good: bool, reason: str, otherwise: str) -> Json:
    condition = {"type": kind, "status": "True" if good else "False", "reason": reason if good else otherwise}
    before: Json = next((c for c in last.get("conditions", []) if c["type"] == kind), {})
    same = before.get("status") == condition["status"]
    return {**condition, "lastTransitionTime": before["lastTransitionTime"] if same else timestamp(time.time())}
