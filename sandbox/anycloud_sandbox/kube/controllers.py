"""The controllers of one cluster: a set of dirty keys, drained after every change, and one tick a second."""

from __future__ import annotations

import asyncio
import base64
import logging
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from anycloud_sandbox.kube import scheduling
from anycloud_sandbox.kube.nodes import NodeLifecycle
from anycloud_sandbox.kube.resources import KubeError, merge, seconds_of, timestamp
from anycloud_sandbox.kube.rollout import Rollout
from anycloud_sandbox.kube.store import Event, Key
from anycloud_sandbox.state import Json

if TYPE_CHECKING:
    from anycloud_sandbox.kube.cluster import Cluster

log = logging.getLogger(__name__)
TICK_SECONDS = 1.0
SCHEDULE: Key = ("schedule", "", "")


class Controllers:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._store = cluster, cluster.store
        self._dirty: dict[Key, None] = {}
        self._again: set[Key] = set()
        self._wake = asyncio.Event()
        self._nodes = NodeLifecycle(cluster.store, cluster.pace.lease_seconds)
        rollout = Rollout(cluster.store, self._again.add)
        self._handlers: dict[str, Callable[[Key], None]] = {
            "deployments": rollout.deployment,
            "replicasets": rollout.replicaset,
            "daemonsets": self._daemonset,
            "jobs": self._job,
            "secrets": self._token_secret,
            "serviceaccounts": self._account_secrets,
            "persistentvolumeclaims": self._claim,
            "nodes": self._nodes.taint,
            "schedule": lambda _: scheduling.schedule(cluster.store),
        }
        self._store.listeners.append(self._notice)

    async def run(self) -> None:
        for plural in self._handlers:
            for obj in self._store.list(plural) if plural in self._store.objects else ():
                self._mark((plural, obj["metadata"].get("namespace", ""), obj["metadata"]["name"]))
        self._mark(SCHEDULE)
        while True:
            try:
                async with asyncio.timeout(TICK_SECONDS):
                    await self._wake.wait()
            except TimeoutError:
                self._tick()
            self._drain()

    def _tick(self) -> None:
        self._nodes.tick()
        for key in self._again:
            self._mark(key)
        self._again.clear()
        for secret in self._store.list("secrets", "kube-system"):
            expires = secret["data"].get("expiration") if secret["type"] == "bootstrap.kubernetes.io/token" else None
            if expires and seconds_of(base64.b64decode(expires).decode()) < time.time():
                self._store.delete(("secrets", "kube-system", secret["metadata"]["name"]))

    def _drain(self) -> None:
        self._wake.clear()
        while self._dirty:
            key = next(iter(self._dirty))
            del self._dirty[key]
            try:
                self._handlers[key[0]](key)
            except KubeError as error:
                log.info("%s: %s", "/".join(key), error)
                self._again.add(key)
            except Exception:
                log.exception("the controller of %s failed", "/".join(key))
                self._again.add(key)
        self._cluster.state.commit()

    def _mark(self, key: Key) -> None:
        self._dirty[key] = None
        self._wake.set()

    def _notice(self, event: Event) -> None:
        plural, _, name = event.key
        if plural == "namespaces" and event.type == "ADDED":
            self._furnish(name)
        owners = event.object["metadata"].get("ownerReferences") or []
        if event.type == "ADDED" and owners and not any(ref["uid"] in self._store.by_uid for ref in owners):
            self._cluster.loop.call_soon(self._collect, event.key, event.object["metadata"]["uid"])
        for key in self._affected(event):
            self._mark(key)

    def _affected(self, event: Event) -> Iterator[Key]:
        plural = event.key[0]
        if plural in self._handlers:
            yield event.key
        if plural in ("pods", "replicasets"):
            owner = self._controller_of(event.object)
            while owner:  # a Pod's ReplicaSet, and that one's Deployment
                yield owner
                owner = self._controller_of(self._store.get(owner))
        if plural in ("pods", "nodes"):
            yield SCHEDULE
        if plural == "nodes":
            for daemonset in self._store.list("daemonsets"):
                yield ("daemonsets", daemonset["metadata"]["namespace"], daemonset["metadata"]["name"])
            if event.type == "DELETED":
                self._nodes.forget(event.key[2])

    def _controller_of(self, obj: Json) -> Key | None:
        for ref in obj["metadata"].get("ownerReferences") or []:
            key = self._store.by_uid.get(ref["uid"])
            if ref.get("controller") and key and key[0] in self._handlers:
                return key
        return None

    def _collect(self, key: Key, uid: str) -> None:
        """Garbage: an object whose owners were gone before it came."""
        found = self._store.find(*key)
        if found and found["metadata"]["uid"] == uid:
            self._store.delete(key)

    def _furnish(self, namespace: str) -> None:
        account = {"metadata": {"name": "default"}}
        self._store.create("serviceaccounts", namespace, account)
        root = {"metadata": {"name": "kube-root-ca.crt"}, "data": {"ca.crt": self._cluster.authority.pem}}
        self._store.create("configmaps", namespace, root)

    def _token_secret(self, key: Key) -> None:
        secret = self._store.find(*key)
        if not secret or secret["type"] != "kubernetes.io/service-account-token" or secret["data"].get("token"):
            return
        name = (secret["metadata"].get("annotations") or {}).get("kubernetes.io/service-account.name", "")
        account = self._store.find("serviceaccounts", key[1], name)
        if account:
            texts = {"token": self._cluster.auth.secret_token(secret, account), "namespace": key[1]}
            texts["ca.crt"] = self._cluster.authority.pem
            data = {field: base64.b64encode(text.encode()).decode() for field, text in texts.items()}
            uid = {"annotations": {"kubernetes.io/service-account.uid": account["metadata"]["uid"]}}
            self._store.update(key, merge(secret, {"data": data, "metadata": uid}))

    def _account_secrets(self, key: Key) -> None:
        for secret in self._store.list("secrets", key[1]):
            self._mark(("secrets", key[1], secret["metadata"]["name"]))

    def _claim(self, key: Key) -> None:
        claim = self._store.find(*key)
        if claim and claim["status"].get("phase") != "Bound":
            claim = self._store.update(key, merge(claim, {"spec": {"volumeName": f"pvc-{claim['metadata']['uid']}"}}))
            self._store.update(key, {**claim, "status": {"phase": "Bound"}}, "status")

    def _daemonset(self, key: Key) -> None:
        """Scripted: counted as running on each Node that it may run on."""
        daemonset = self._store.find(*key)
        if daemonset:
            spec = daemonset["spec"]["template"]["spec"]
            count = sum(scheduling.may_run(spec, node) for node in self._store.list("nodes"))
            names = ("desiredNumberScheduled", "currentNumberScheduled", "updatedNumberScheduled", "numberReady")
            status = {**dict.fromkeys((*names, "numberAvailable"), count), "numberMisscheduled": 0}
            status["observedGeneration"] = daemonset["metadata"]["generation"]
            self._store.update(key, {**daemonset, "status": status}, "status")

    def _job(self, key: Key) -> None:
        """Scripted: done at once."""
        job = self._store.find(*key)
        if job and not job.get("status") and not job["spec"].get("suspend"):
            now = timestamp(time.time())
            done = {"type": "Complete", "status": "True", "lastTransitionTime": now}
            status = {"succeeded": 1, "startTime": now, "completionTime": now, "conditions": [done]}
            self._store.update(key, {**job, "status": status}, "status")
