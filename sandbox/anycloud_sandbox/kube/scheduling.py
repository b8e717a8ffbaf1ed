"""Which Node a Pod goes to: selector, required affinity, taints, whole GPUs. CPU and memory are not counted."""

from collections import Counter

from anycloud_sandbox.kube.objects import dig, matches
from anycloud_sandbox.kube.store import Store, key_of
from anycloud_sandbox.state import Json

GPU = "nvidia.com/gpu"


def may_run(spec: Json, node: Json) -> bool:
    """Whether a Node fits a Pod's rules, free devices aside."""
    labels = node["metadata"].get("labels") or {}
    terms = dig(spec, "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms")
    if not matches({"matchLabels": spec.get("nodeSelector")}, labels):
        return False
    if terms is not None and not any(matches(term, labels) for term in terms):
        return False
    return all(
        taint["effect"] == "PreferNoSchedule" or any(_tolerates(item, taint) for item in spec.get("tolerations") or [])
        for taint in dig(node, "spec.taints") or []
    )


def _tolerates(toleration: Json, taint: Json) -> bool:
    same = all(toleration.get(name) in (None, "", taint[name]) for name in ("key", "effect"))
    exists = toleration.get("operator") == "Exists"
    return same and (exists or (toleration.get("value") or "") == (taint.get("value") or ""))


def _gpus(spec: Json) -> int:
    return sum(int((dig(item, "resources.limits") or {}).get(GPU, 0)) for item in spec["containers"])


def schedule(store: Store) -> None:
    """Binds each Pod that waits to the fitting Node with the fewest Pods."""
    pods, nodes = store.all("pods"), {node["metadata"]["name"]: node for node in store.all("nodes")}
    placed = [
        pod for pod in pods if pod["spec"].get("nodeName") and pod["status"]["phase"] not in ("Succeeded", "Failed")
    ]
    count = Counter(pod["spec"]["nodeName"] for pod in placed)
    used: Counter[str] = Counter()
    for pod in placed:
        used[pod["spec"]["nodeName"]] += _gpus(pod["spec"])
    for pod in pods:
        if pod["spec"].get("nodeName"):
            continue
        key, wanted = key_of("pods", pod), _gpus(pod["spec"])
        fitting = [name for name, node in nodes.items() if may_run(pod["spec"], node)]
        free = {name: int((dig(nodes[name], "status.allocatable") or {}).get(GPU, 0)) - used[name] for name in fitting}
        if usable := [name for name in fitting if not wanted or free[name] >= wanted]:
            name = min(usable, key=lambda name: (count[name], name))
            store.bind(key, name)
            count[name] += 1
            used[name] += wanted
        else:
            text = f"0/{len(nodes)} nodes are available: {len(fitting)} fit the Pod's rules, with too few free {GPU}."
            condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": text}
            store.patch(key, {"status": {"conditions": [condition]}}, "status")
