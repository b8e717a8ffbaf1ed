"""The controllers of one cluster: a set of dirty keys, drained after every change, and one tick a second."""

import asyncio
import base64
import logging
import time
from collections.abc import Callable, Iterator

from anycloud_sandbox.kube import rollout, scheduling
from anycloud_sandbox.kube.auth import Authenticator
from anycloud_sandbox.kube.objects import dig, ready, seconds_of, timestamp
from anycloud_sandbox.kube.admission import Key
from anycloud_sandbox.kube.store import Event, Store, key_of
from anycloud_sandbox.state import Json, Pace, State

log = logging.getLogger(__name__)
SCHEDULE: Key = ("schedule", "", "")
TOKEN_SECRET, BOOTSTRAP_SECRET = "kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token"
NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"


class Controllers:
    def __init__(self, state: State, store: Store, auth: Authenticator, ca: str, pace: Pace) -> None:
        self._state, self._store, self._auth, self._ca, self._pace = state, store, auth, ca, pace
        self._wake = asyncio.Event()
        self._heartbeats: dict[str, tuple[str, float]] = {}  # a Node's last one, and when (monotonic) it was seen
        self._handlers: dict[str, Callable[[Key, Json], None]] = {
            "deployments": lambda _, obj: rollout.deployment(store, obj),
            "replicasets": lambda _, obj: rollout.replicaset(store, obj),
            "daemonsets": self._daemonset,
            "jobs": self._job,
            "secrets": self._secret,
            "persistentvolumeclaims": self._claim,
            "nodes": self._node,
        }
        store.listeners.append(self._notice)
        everything = [key_of(plural, obj) for plural in self._handlers for obj in store.all(plural)]
        self._dirty: dict[Key, None] = dict.fromkeys([*everything, SCHEDULE])

    async def run(self) -> None:
        while True:
            try:
                async with asyncio.timeout(1):
                    await self._wake.wait()
            except TimeoutError:
                self._tick()
            self._wake.clear()
            while self._dirty:
                key = next(iter(self._dirty))
                del self._dirty[key]
                try:
                    if key == SCHEDULE:
                        scheduling.schedule(self._store)
                    elif found := self._store.find(*key):
                        self._handlers[key[0]](key, found)
                except Exception:
                    log.exception("the controller of %s failed", "/".join(key))
                    asyncio.get_running_loop().call_later(1, self._mark, key)
            self._state.commit()

    def _mark(self, key: Key) -> None:
        self._dirty[key] = None
        self._wake.set()

    def _notice(self, event: Event) -> None:
        """In the writer's turn: what must be true at once is done, the rest is marked."""
        plural, namespace, name = event.key
        if plural == "namespaces" and event.type == "ADDED":
            root = {"metadata": {"name": "kube-root-ca.crt"}, "data": {"ca.crt": self._ca}}
            self._store.create("configmaps", name, root)
            self._store.create("serviceaccounts", name, {"metadata": {"name": "default"}})
        if plural == "nodes" and event.type == "DELETED":
            for pod in self._pods_on(name):  # what still runs there is its machine's affair
                self._store.remove(key_of("pods", pod))
        owners = event.object["metadata"].get("ownerReferences") or []
        if event.type == "ADDED" and owners and not any(ref["uid"] in self._store.by_uid for ref in owners):
            asyncio.get_running_loop().call_soon(self._store.delete, event.key)
        for key in self._affected(plural, namespace, event):
            self._mark(key)

    def _affected(self, plural: str, namespace: str, event: Event) -> Iterator[Key]:
        if plural in self._handlers:
            yield event.key
        if plural in ("pods", "nodes"):
            yield SCHEDULE
        if plural == "nodes":
            yield from (key_of("daemonsets", daemonset) for daemonset in self._store.all("daemonsets"))
        if plural == "serviceaccounts":
            yield from (key for key in self._store.content[namespace] if key[0] == "secrets")
        obj = event.object
        while plural in ("pods", "replicasets") and (owners := obj["metadata"].get("ownerReferences")):
            owner = self._store.by_uid.get(owners[0]["uid"])  # a Pod's ReplicaSet, then that one's Deployment
            if owner is None:
                return
            yield owner
            plural, obj = owner[0], self._store.get(owner)

    def _tick(self) -> None:
        now = time.monotonic()
        for node in self._store.all("nodes"):
            key = key_of("nodes", node)
            renewed = str(dig(self._store.find("leases", "kube-node-lease", key[2]), "spec.renewTime"))
            seen, since = self._heartbeats.get(key[2], ("", now))
            if seen != renewed:
                self._heartbeats[key[2]] = (renewed, now)
            elif now - since > self._pace.lease_seconds and ready(node) != "Unknown":
                lost = {
                    "status": "Unknown",
                    "reason": "NodeStatusUnknown",
                    "lastTransitionTime": timestamp(time.time()),
                }
                conditions = [{**condition, **lost} for condition in node["status"]["conditions"]]
                self._store.patch(key, {"status": {"conditions": conditions}}, "status")
        for secret in self._store.all("secrets"):
            ends = secret["data"].get("expiration") if secret["type"] == BOOTSTRAP_SECRET else None
            if ends and seconds_of(base64.b64decode(ends).decode()) < time.time():
                self._store.delete(key_of("secrets", secret))
        for replicaset in self._store.all("replicasets"):
            self._mark(key_of("replicasets", replicaset))

    def _pods_on(self, node: str) -> list[Json]:
        return [pod for pod in self._store.all("pods") if pod["spec"].get("nodeName") == node]

    def _node(self, key: Key, node: Json) -> None:
        """The taints that follow from the Ready condition, and unready Pods on a Node that is not."""
        wanted = {"True": "", "False": NOT_READY}.get(ready(node), UNREACHABLE)
        taints = dig(node, "spec.taints") or []
        kept = [taint for taint in taints if taint["key"] not in {NOT_READY, UNREACHABLE} - {wanted}]
        if wanted and all(taint["key"] != wanted for taint in kept):
            kept += [{"key": wanted, "effect": effect} for effect in ("NoSchedule", "NoExecute")]
        self._store.patch(key, {"spec": {"taints": kept}} if kept != taints else {})
        for pod in self._pods_on(key[2]) if wanted else ():
            conditions = pod["status"].get("conditions") or []
            changed = [{**item, "status": "False"} if item["type"] == "Ready" else item for item in conditions]
            self._store.patch(key_of("pods", pod), {"status": {"conditions": changed}}, "status")

    def _secret(self, key: Key, secret: Json) -> None:
        """Fills the token of a Secret that names an account."""
        name = (secret["metadata"].get("annotations") or {}).get("kubernetes.io/service-account.name", "")
        account = self._store.find("serviceaccounts", key[1], name)
        if account and secret["type"] == TOKEN_SECRET and not secret["data"].get("token"):
            token = self._auth.token_for(account, {"secret": {"name": key[2], "uid": secret["metadata"]["uid"]}})
            texts = {"token": token, "namespace": key[1], "ca.crt": self._ca}
            data = {field: base64.b64encode(text.encode()).decode() for field, text in texts.items()}
            self._store.patch(key, {"data": data})

    def _claim(self, key: Key, claim: Json) -> None:
        self._store.patch(key, {"status": {"phase": "Bound"}}, "status")

    def _daemonset(self, key: Key, daemonset: Json) -> None:
        """Scripted: counted as running on each Node that it may run on."""
        spec, generation = daemonset["spec"]["template"]["spec"], daemonset["metadata"]["generation"]
        count = sum(scheduling.may_run(spec, node) for node in self._store.all("nodes"))
        scheduled = (f"{kind}NumberScheduled" for kind in ("desired", "current", "updated"))
        status = dict.fromkeys((*scheduled, "numberReady", "numberAvailable"), count)
        self._store.patch(
            key, {"status": status | {"numberMisscheduled": 0, "observedGeneration": generation}}, "status"
        )

    def _job(self, key: Key, job: Json) -> None:
        """Scripted: done at once."""
        if not job["spec"].get("suspend"):
            done = {"succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}]}
            self._store.patch(key, {"status": done}, "status")
