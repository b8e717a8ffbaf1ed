"""Node life cycle: heartbeats, taints by condition, eviction from Nodes that are out of reach."""

from __future__ import annotations

import time

from anycloud_sandbox.kube.resources import dig, merge, seconds_of, timestamp
from anycloud_sandbox.kube.scheduling import tolerates
from anycloud_sandbox.kube.store import Key, Store
from anycloud_sandbox.state import Json

NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"


class NodeLifecycle:
    def __init__(self, store: Store, lease_seconds: float) -> None:
        self._store, self._lease_seconds = store, lease_seconds
        self._seen: dict[str, tuple[str, float]] = {}  # Node -> its last renewal, and when we (monotonic) first saw it

    def tick(self) -> None:
        now = time.monotonic()
        for node in self._store.list("nodes"):
            name = node["metadata"]["name"]
            lease = self._store.find("leases", "kube-node-lease", name)
            renewed = dig(lease, "spec.renewTime") or ""
            seen = self._seen.get(name)
            if seen is None or seen[0] != renewed:
                self._seen[name] = (renewed, now)
            elif now - seen[1] > self._lease_seconds and ready(node) != "Unknown":
                self._lose(node)
            if ready(node) != "True":
                self._evict(node)

    def forget(self, name: str) -> None:
        """A Node object is gone: so are the Pods bound to it (what still runs there is its machine's affair)."""
        self._seen.pop(name, None)
        for pod in self._store.list("pods"):
            if pod["spec"].get("nodeName") == name:
                self._store.remove(("pods", pod["metadata"]["namespace"], pod["metadata"]["name"]))

    def taint(self, key: Key) -> None:
        """Keeps the taints that follow from the Ready condition."""
        node = self._store.find(*key)
        if node is None:
            return
        key_wanted = {"True": "", "False": NOT_READY}.get(ready(node), UNREACHABLE)
        taints = (node.get("spec") or {}).get("taints") or []
        kept = [taint for taint in taints if taint["key"] not in (NOT_READY, UNREACHABLE) or taint["key"] == key_wanted]
        if key_wanted and not any(taint["key"] == key_wanted for taint in kept):
            added = {"key": key_wanted, "timeAdded": timestamp(time.time())}
            kept += [{**added, "effect": "NoSchedule"}, {**added, "effect": "NoExecute"}]
        if kept != taints:
            self._store.update(key, {**node, "spec": {**(node.get("spec") or {}), "taints": kept}})
        if key_wanted:
            self._unready_pods(key[2])

    def _lose(self, node: Json) -> None:
        now = timestamp(time.time())
        lost = {"status": "Unknown", "reason": "NodeStatusUnknown", "lastTransitionTime": now}
        lost["message"] = "Kubelet stopped posting node status."
        conditions = [{**condition, **lost} for condition in node["status"]["conditions"]]
        status = {**node["status"], "conditions": conditions}
        self._store.update(("nodes", "", node["metadata"]["name"]), {**node, "status": status}, "status")

    def _unready_pods(self, node: str) -> None:
        for pod in self._store.list("pods"):
            conditions = dig(pod, "status.conditions") or []
            if pod["spec"].get("nodeName") == node and any(c["type"] == "Ready" for c in conditions):
                changed = [{**c, "status": "False"} if c["type"] == "Ready" else c for c in conditions]
                key = ("pods", pod["metadata"]["namespace"], pod["metadata"]["name"])
                self._store.update(key, merge(pod, {"status": {"conditions": changed}}), "status")

    def _evict(self, node: Json) -> None:
        taints = [t for t in dig(node, "spec.taints") or [] if t["effect"] == "NoExecute" and t.get("timeAdded")]
        for pod in self._store.list("pods") if taints else ():
            if pod["spec"].get("nodeName") != node["metadata"]["name"] or "deletionTimestamp" in pod["metadata"]:
                continue
            for taint in taints:
                waits = [t.get("tolerationSeconds") for t in pod["spec"]["tolerations"] if tolerates(t, taint)]
                limit = min((wait for wait in waits if wait is not None), default=None if waits else 0)
                if limit is not None and time.time() - seconds_of(taint["timeAdded"]) > limit:
                    self._store.delete(("pods", pod["metadata"]["namespace"], pod["metadata"]["name"]))
                    break


def ready(obj: Json) -> str:
    """Status of the Ready condition of a Node or Pod."""
    for condition in dig(obj, "status.conditions") or []:
        if condition["type"] == "Ready":
            return str(condition["status"])
    return "False"
