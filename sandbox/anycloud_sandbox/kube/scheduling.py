"""Which Node a Pod goes to: selector, required affinity, taints, whole GPUs. CPU and memory are not counted."""

from __future__ import annotations

import time
from collections import Counter

from anycloud_sandbox.kube.resources import dig, matches_expression, merge, timestamp
from anycloud_sandbox.kube.store import Store
from anycloud_sandbox.state import Json

GPU = "nvidia.com/gpu"


def tolerates(toleration: Json, taint: Json) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in (None, "", taint["key"])
    return toleration.get("key") == taint["key"] and (toleration.get("value") or "") == (taint.get("value") or "")


def may_run(spec: Json, node: Json) -> bool:
    """Whether a Node fits a Pod's rules, free devices aside."""
    labels = node["metadata"].get("labels") or {}
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    terms = dig(spec, "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms")
    if terms is not None and not any(_matches_term(term, node, labels) for term in terms):
        return False
    hard = [taint for taint in dig(node, "spec.taints") or [] if taint["effect"] != "PreferNoSchedule"]
    return not dig(node, "spec.unschedulable") and all(
        any(tolerates(toleration, taint) for toleration in spec.get("tolerations") or []) for taint in hard
    )


def _matches_term(term: Json, node: Json, labels: Json) -> bool:
    fields = {"metadata.name": node["metadata"]["name"]}
    return all(matches_expression(item, labels) for item in term.get("matchExpressions") or []) and all(
        matches_expression(item, fields) for item in term.get("matchFields") or []
    )


def gpus(spec: Json) -> int:
    return sum(
        int((dig(item, "resources.limits") or dig(item, "resources.requests") or {}).get(GPU, 0))
        for item in spec["containers"]
    )


def schedule(store: Store) -> None:
    """Binds each Pod that waits to the fitting Node with the fewest Pods."""
    waiting: list[Json] = []
    used: Counter[str] = Counter()
    count: Counter[str] = Counter()
    for pod in store.list("pods"):
        node = pod["spec"].get("nodeName")
        if not node and "deletionTimestamp" not in pod["metadata"]:
            waiting.append(pod)
        elif node and dig(pod, "status.phase") not in ("Succeeded", "Failed"):
            used[node] += gpus(pod["spec"])
            count[node] += 1
    for pod in waiting:
        name, reason = _choose(store, pod["spec"], used, count)
        key = ("pods", pod["metadata"]["namespace"], pod["metadata"]["name"])
        if name:
            store.bind(key, name)
            used[name] += gpus(pod["spec"])
            count[name] += 1
        elif reason != next((c["message"] for c in dig(pod, "status.conditions") or []), None):
            condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": reason}
            condition["lastTransitionTime"] = timestamp(time.time())
            store.update(key, merge(pod, {"status": {"conditions": [condition]}}), "status")


def _choose(store: Store, spec: Json, used: Counter[str], count: Counter[str]) -> tuple[str, str]:
    """The Node's name, or why there is none."""
    nodes, wanted = list(store.list("nodes")), gpus(spec)
    fitting = [node for node in nodes if may_run(spec, node)]
    free = [
        node["metadata"]["name"]
        for node in fitting
        if not wanted
        or int((dig(node, "status.allocatable") or {}).get(GPU, 0)) - used[node["metadata"]["name"]] >= wanted
    ]
    if free:
        return min(free, key=lambda name: (count[name], name)), ""
    short = f", {len(fitting)} Insufficient {GPU}" if fitting else ""
    rest = len(nodes) - len(fitting)
    return "", f"0/{len(nodes)} nodes are available: {rest} node(s) didn't match the Pod's rules or taints{short}."
