"""A Pod on a Node: its containers' life, its status, and its end."""

import asyncio
import logging
import shutil
import signal
import time
from typing import TYPE_CHECKING

from anycloud_sandbox.agent.container import Container
from anycloud_sandbox.agent.run import Run, runs_in
from anycloud_sandbox.agent.volumes import ConfigError, Volumes, forget
from anycloud_sandbox.kube.client import path_of
from anycloud_sandbox.kube.store import KubeError, dig, fill
from anycloud_sandbox.state import Json

if TYPE_CHECKING:
    from anycloud_sandbox.agent.main import Node

log = logging.getLogger(__name__)


class Pod:
    """`object` is the Pod as last seen."""

    def __init__(self, node: "Node", obj: Json) -> None:
        self.object, self.uid, self.node, spec = obj, obj["metadata"]["uid"], node, obj["spec"]
        self.folder = node.directory / "pods" / self.uid
        self._path = path_of("pods", obj["metadata"]["namespace"], obj["metadata"]["name"])
        self.volumes = Volumes(node.client, obj, self.folder, node.directory, node.address)
        self.stopping, self.changed, self._gone, self._told = asyncio.Event(), asyncio.Event(), False, Json()
        once = "Never" if spec["restartPolicy"] == "Never" else "OnFailure"
        self._first = [Container(self, item, once) for item in spec.get("initContainers") or []]
        self._containers = [Container(self, item, spec["restartPolicy"]) for item in spec["containers"]]
        self.task = asyncio.create_task(self._live())

    def runs_of(self, container: str) -> list[Run]:
        return runs_in(self.folder / "runs" / container)

    def update(self, obj: Json) -> None:
        self.object = obj
        if "deletionTimestamp" in obj["metadata"]:
            self.stopping.set()
        if self._told and dig(obj, "status.conditions") != self._told["conditions"]:  # somebody else wrote them
            self._told = {}
            self.changed.set()

    def removed(self) -> None:
        """The object is gone from the API: what runs is ended at once."""
        self._gone = True
        self.stopping.set()

    async def _live(self) -> None:
        self.update(self.object)
        work, *around = (asyncio.create_task(part) for part in (self._run_all(), self._report(), self._rotate()))
        try:
            await self.stopping.wait()
            grace = 0 if self._gone else self.object["metadata"]["deletionGracePeriodSeconds"]
            for number, seconds in ((signal.SIGTERM, grace), (signal.SIGUSR1, None)):
                for container in (*self._first, *self._containers):
                    if container.run:
                        container.run.signal(number)
                if (await asyncio.wait([work], timeout=seconds))[0]:
                    break
            await self._bury()
        finally:
            for task in (work, *around):
                task.cancel()

    async def _run_all(self) -> None:
        """Init containers one after the other, each to its good end; then the others side by side."""
        for container in self._first:
            await container.live()
            if container.failed:
                return
        await asyncio.gather(*(container.live() for container in self._containers))

    async def _rotate(self) -> None:
        while True:
            adopted = any(item.run for item in (*self._first, *self._containers))
            due = (self.volumes.renew_at or float("inf")) if self.volumes.renew_at or not adopted else 0.0
            await asyncio.sleep(min(max(due - time.time(), 0), 0.5))
            if time.time() >= due:
                try:
                    await self.volumes.prepare(self.node.agent.rotate_after)
                except (KubeError, ConfigError) as error:
                    log.info("pod %s: tokens are renewed later: %s", self.uid, error)
                    await asyncio.sleep(1)

    async def _report(self) -> None:
        while True:
            await self.changed.wait()
            self.changed.clear()
            body = self._status()
            try:
                if "silent" in self.node.effects:
                    raise KubeError(0, "Silent", "a fault keeps this Node silent")
                if body["status"] != self._told:
                    await self.node.client.patch(self._path + "/status", body)
                    self._told = body["status"]
            except KubeError as error:
                if error.code not in (404, 409):
                    self.changed.set()
                    await asyncio.sleep(1)

    def _status(self) -> Json:
        first, containers = [item.status() for item in self._first], [item.status() for item in self._containers]
        initialized = all(item.done and not item.failed for item in self._first)
        phase = "Running" if all(item["imageID"] for item in containers) else "Pending"
        if any(item.failed for item in self._first):
            phase = "Failed"
        elif all(item.done for item in self._containers):
            phase = "Failed" if any(item.failed for item in self._containers) else "Succeeded"
        about = {"uid": self.uid, "address": self.node.address, "since": self.object["metadata"]["creationTimestamp"]}
        about |= {"initialized": str(initialized), "ready": str(all(item["ready"] for item in containers))}
        return dict(fill("pod-status", **about, phase=phase, first=first, containers=containers))

    async def _bury(self) -> None:
        """Tells the end, takes the object away, then the files."""
        while not self._gone:
            try:
                await self.node.client.patch(self._path + "/status", self._status())
                options = {"gracePeriodSeconds": 0, "preconditions": {"uid": self.uid}}
                await self.node.client.call("DELETE", self._path, options)
                break
            except KubeError as error:
                if error.code in (404, 409):
                    break
                await asyncio.sleep(1)
        forget(self.node.directory, self.uid)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.node.pods.pop(self.uid, None)
