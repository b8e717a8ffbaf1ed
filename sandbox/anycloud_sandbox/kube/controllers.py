"""The controllers of one cluster. Each change, and each second, they look at all that they care for."""

import asyncio
import base64
import hashlib
import logging
import time
from collections import Counter
from collections.abc import Callable

import orjson

from anycloud_sandbox.kube import jobs
from anycloud_sandbox.kube.auth import Authenticator
from anycloud_sandbox.kube.store import (
    ENDED,
    Event,
    KubeError,
    Store,
    dig,
    fill,
    key_of,
    matches,
    merge,
    owners_of,
    ready,
    seconds_of,
    timestamp,
)
from anycloud_sandbox.state import Json, Pace, State

log = logging.getLogger(__name__)
GATHER_SECONDS, TICK_SECONDS = 0.02, 1.0
GPU = "nvidia.com/gpu"
REVISION, HASH = "deployment.kubernetes.io/revision", "pod-template-hash"
NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
QUIET = ("leases", "events", "configmaps", "certificatesigningrequests")  # kinds that no controller waits for


class Controllers:
    def __init__(self, state: State, store: Store, auth: Authenticator, ca: str, pace: Pace) -> None:
        self._state, self._store, self._auth, self._ca, self._pace = state, store, auth, ca, pace
        self._wake = asyncio.Event()
        self._heartbeats: dict[str, tuple[str, float]] = {}  # a Node's last one, and when (monotonic) it was seen
        self._work: list[tuple[str, Callable[[Json], None]]] = [
            ("nodes", self._node),
            ("secrets", self._secret),
            ("persistentvolumeclaims", lambda claim: store.tell(claim, {"status": {"phase": "Bound"}})),
            ("deployments", self._deployment),
            ("replicasets", self._replicaset),
            ("daemonsets", self._daemonset),
            ("jobs", lambda job: jobs.control(store, job)),
        ]
        store.listeners.append(self._notice)

    async def run(self) -> None:
        while True:
            for plural, work in self._work:
                for obj in self._store.all(plural):
                    try:
                        work(obj)
                    except Exception as error:  # such as: gone since the list was made
                        level = logging.INFO if isinstance(error, KubeError) else logging.ERROR
                        log.log(level, "the controller of %s failed", key_of(obj), exc_info=error)
            self._schedule()
            self._state.commit()
            try:
                await asyncio.wait_for(self._wake.wait(), TICK_SECONDS)
            except TimeoutError:
                continue
            await asyncio.sleep(GATHER_SECONDS)
            self._wake.clear()

    def _notice(self, event: Event) -> None:
        """In the writer's turn, what must be true at once."""
        plural, _, name = event.key
        if plural not in QUIET:
            self._wake.set()
        if plural == "namespaces" and event.type == "ADDED":
            root = {"metadata": {"name": "kube-root-ca.crt"}, "data": {"ca.crt": self._ca}}
            self._store.create("configmaps", name, root)
            self._store.create("serviceaccounts", name, {"metadata": {"name": "default"}})
        if plural == "nodes" and event.type == "DELETED":
            for pod in self._pods_on(name):  # what still runs there is its machine's affair
                self._store.remove(key_of(pod))
        owners = owners_of(event.object)
        if event.type == "ADDED" and owners and not owners & self._store.uids:
            asyncio.get_running_loop().call_soon(self._store.delete, event.key)

    def _pods_on(self, node: str) -> list[Json]:
        return [pod for pod in self._store.all("pods") if pod["spec"].get("nodeName") == node]

    def _node(self, node: Json) -> None:
        """Lost when its heartbeat stays away; taints by the Ready condition; its Pods unready while it is not."""
        name, now = node["metadata"]["name"], time.monotonic()
        renewed = str(dig(self._store.find("leases", "kube-node-lease", name), "spec.renewTime"))
        seen, since = self._heartbeats.get(name, ("", now))
        if seen != renewed:
            self._heartbeats[name] = (renewed, now)
        elif now - since > self._pace.lease_seconds and ready(node) != "Unknown":
            lost = {"status": "Unknown", "reason": "NodeStatusUnknown", "lastTransitionTime": timestamp(time.time())}
            self._store.tell(node, {"status": {"conditions": [node["status"]["conditions"][0] | lost]}})
            node = self._store.get(key_of(node))
        wanted = {"True": "", "False": NOT_READY}.get(ready(node), UNREACHABLE)
        taints = dig(node, "spec.taints") or []
        kept = [taint for taint in taints if taint["key"] not in {NOT_READY, UNREACHABLE} - {wanted}]
        if wanted and all(taint["key"] != wanted for taint in kept):
            kept += [{"key": wanted, "effect": effect} for effect in ("NoSchedule", "NoExecute")]
        if kept != taints:
            self._store.patch(key_of(node), {"spec": {"taints": kept}})
        for pod in self._pods_on(name) if wanted else ():
            conditions = pod["status"].get("conditions") or []
            changed = [item | ({"status": "False"} if item["type"] == "Ready" else {}) for item in conditions]
            self._store.tell(pod, {"status": {"conditions": changed}})

    def _secret(self, secret: Json) -> None:
        """Fills the token of a Secret that names an account; drops a bootstrap token that has expired."""
        key, data, meta = key_of(secret), secret["data"], secret["metadata"]
        name = (meta.get("annotations") or {}).get("kubernetes.io/service-account.name", "")
        account = self._store.find("serviceaccounts", key[1], name)
        if account and secret["type"] == "kubernetes.io/service-account-token" and not data.get("token"):
            token = self._auth.token_for(account, {"secret": {"name": key[2], "uid": meta["uid"]}})
            texts = {"token": token, "namespace": key[1], "ca.crt": self._ca}
            made = {field: base64.b64encode(text.encode()).decode() for field, text in texts.items()}
            self._store.patch(key, {"data": made})
        ends = data.get("expiration") if secret["type"] == "bootstrap.kubernetes.io/token" else None
        if ends and seconds_of(base64.b64decode(ends).decode()) < time.time():
            self._store.delete(key)

    def _daemonset(self, owner: Json) -> None:
        """Scripted: counted as running on each Node that it may run on."""
        count = sum(_may_run(owner["spec"]["template"]["spec"], node) for node in self._store.all("nodes"))
        status = fill("daemonset-status", count=count, generation=owner["metadata"]["generation"])
        self._store.tell(owner, status)

    def _schedule(self) -> None:
        """Binds each Pod that waits to the fitting Node with the fewest Pods. CPU and memory are not counted."""
        open_ = [node for node in self._store.all("nodes") if not dig(node, "spec.unschedulable")]
        nodes = {node["metadata"]["name"]: node for node in open_}
        used: Counter[str] = Counter()
        count: Counter[str] = Counter()
        for pod in self._store.all("pods"):
            if pod["spec"].get("nodeName") and pod["status"]["phase"] not in ENDED:
                used[pod["spec"]["nodeName"]] += _gpus(pod["spec"])
                count[pod["spec"]["nodeName"]] += 1
        for pod in self._store.all("pods"):
            wanted, spec = _gpus(pod["spec"]), pod["spec"]
            fitting = [] if spec.get("nodeName") else [name for name, node in nodes.items() if _may_run(spec, node)]
            free = {name: int(nodes[name]["status"]["allocatable"].get(GPU, 0)) - used[name] for name in fitting}
            if usable := [name for name in fitting if not wanted or free[name] >= wanted]:
                name = min(usable, key=lambda name: (count[name], name))
                self._store.bind(key_of(pod), name)
                count[name] += 1
                used[name] += wanted
            elif not spec.get("nodeName"):
                why = f"{len(fitting)} Insufficient {GPU}" if fitting else "none fits the Pod's rules or taints"
                text = f"0/{len(nodes)} nodes are available: {why}."
                self._store.tell(pod, fill("unschedulable", message=text))

    def _replicaset(self, owner: Json) -> None:
        """Creates or deletes Pods; what it can't create, it says in a condition."""
        pods, conditions, meta, template = self._active(owner), [], owner["metadata"], owner["spec"]["template"]
        missing = owner["spec"]["replicas"] - len(pods)
        about = {**template["metadata"], "generateName": meta["name"] + "-", "ownerReferences": [_reference(owner)]}
        try:
            for _ in range(missing):
                self._store.create("pods", meta["namespace"], {"metadata": about, "spec": template["spec"]})
        except KubeError as error:
            failure = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": error.message}
            conditions.append(failure)
        for pod in sorted(pods, key=lambda pod: ready(pod) == "True")[: max(0, -missing)]:
            self._store.delete(key_of(pod))
        pods = self._active(owner)
        status = {"replicas": len(pods), "observedGeneration": meta["generation"], "conditions": conditions}
        status |= dict.fromkeys(("readyReplicas", "availableReplicas"), _ready(pods))
        self._store.tell(owner, {"status": status})

    def _deployment(self, owner: Json) -> None:
        """Updates take away before they add (no surge); Recreate waits until the old Pods are gone."""
        spec, recreate = owner["spec"], owner["spec"]["strategy"]["type"] == "Recreate"
        digest = hashlib.sha256(orjson.dumps(spec["template"], option=orjson.OPT_SORT_KEYS)).hexdigest()[:10]
        everything = self._owned_by(owner, "replicasets")
        old = [item for item in everything if item["metadata"]["labels"][HASH] != digest]
        new = next((item for item in everything if item not in old), None) or self._make_replicaset(owner, digest)
        newest = max((_revision(item) for item in old), default=0)
        revision = {"metadata": {"annotations": {REVISION: str(max(newest + 1, _revision(new)))}}}
        if _revision(new) <= newest:  # also when an earlier template is gone back to
            new = self._store.patch(key_of(new), revision)
        owner = self._store.patch(key_of(owner), revision)
        spare = _ready([pod for item in [*old, new] for pod in self._active(item)]) - spec["replicas"]
        spare += int(dig(spec, "strategy.rollingUpdate.maxUnavailable") or 1)  # how many ready Pods may go
        for item in old:
            pods = self._active(item)
            gone = len(pods) if recreate else min(len(pods), len(pods) - _ready(pods) + max(0, spare))
            spare -= max(0, gone - (len(pods) - _ready(pods)))
            self._scale(item, len(pods) - gone)
        others = [pod for item in old for pod in self._active(item)]
        left = [pod for item in old for pod in self._owned_by(item, "pods")] if recreate else others
        new = self._scale(new, 0 if recreate and left else max(0, spec["replicas"] - len(left)))
        current, wanted = self._active(new), spec["replicas"]
        total, usable = len(current) + len(others), _ready([*current, *others])
        done = len(current) == total == usable == wanted
        numbers = {"total": total, "current": len(current), "usable": usable, "missing": max(0, wanted - usable)}
        reached = "MinimumReplicas" + ("Available" if usable >= wanted else "Unavailable")
        texts = {"available": str(usable >= wanted), "reached": reached}
        texts["progress"] = "NewReplicaSetAvailable" if done else "ReplicaSetUpdated"
        self._store.tell(
            owner, fill("deployment-status", generation=owner["metadata"]["generation"], **numbers, **texts)
        )

    def _make_replicaset(self, owner: Json, digest: str) -> Json:
        meta, spec, label = owner["metadata"], owner["spec"], {HASH: digest}
        template = merge(spec["template"], {"metadata": {"labels": label}})
        about = {"name": f"{meta['name']}-{digest}", "labels": template["metadata"]["labels"]}
        about |= {"annotations": {REVISION: "0"}, "ownerReferences": [_reference(owner)]}
        rest = {"replicas": 0, "selector": merge(spec["selector"], {"matchLabels": label}), "template": template}
        return self._store.create("replicasets", meta["namespace"], {"metadata": about, "spec": rest})

    def _scale(self, item: Json, count: int) -> Json:
        return self._store.patch(key_of(item), {"spec": {"replicas": count}})

    def _owned_by(self, owner: Json, plural: str) -> list[Json]:
        return [obj for obj in self._store.all(plural) if owner["metadata"]["uid"] in owners_of(obj)]

    def _active(self, owner: Json) -> list[Json]:
        """The Pods that count: neither ended nor being deleted."""
        pods = [pod for pod in self._owned_by(owner, "pods") if "deletionTimestamp" not in pod["metadata"]]
        return [pod for pod in pods if pod["status"]["phase"] not in ENDED]


def _may_run(spec: Json, node: Json) -> bool:
    """Whether a Node fits a Pod's selector, required affinity and tolerations."""
    labels = node["metadata"].get("labels") or {}
    terms = dig(spec, "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms")
    chosen = matches({"matchLabels": spec.get("nodeSelector")}, labels)
    chosen = chosen and (terms is None or any(matches(term, labels) for term in terms))
    taints = [taint for taint in dig(node, "spec.taints") or [] if taint["effect"] != "PreferNoSchedule"]
    return chosen and all(any(_tolerates(item, taint) for item in spec.get("tolerations") or []) for taint in taints)


def _tolerates(toleration: Json, taint: Json) -> bool:
    same = all(toleration.get(name) in (None, "", taint[name]) for name in ("key", "effect"))
    exists = toleration.get("operator") == "Exists"
    return same and (exists or (toleration.get("value") or "") == (taint.get("value") or ""))


def _gpus(spec: Json) -> int:
    return sum(int((dig(item, "resources.limits") or {}).get(GPU, 0)) for item in spec["containers"])


def _ready(pods: list[Json]) -> int:
    return sum(ready(pod) == "True" for pod in pods)


def _reference(obj: Json) -> Json:
    about = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "controller": True, "blockOwnerDeletion": True}
    return {**about, "name": obj["metadata"]["name"], "uid": obj["metadata"]["uid"]}


def _revision(item: Json) -> int:
    return int(item["metadata"]["annotations"][REVISION])
