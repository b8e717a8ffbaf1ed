"""A Pod on a Node: its containers' lives, probes and status, and its end."""

import asyncio
import logging
import shutil
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import aiohttp

from anycloud_sandbox.agent.container import Run, next_run, runs_in
from anycloud_sandbox.agent.volumes import ConfigError, Volumes, own_path
from anycloud_sandbox.kube.client import path_of
from anycloud_sandbox.kube.objects import KubeError, dig, timestamp
from anycloud_sandbox.state import Json

if TYPE_CHECKING:
    from anycloud_sandbox.agent.node import Node

log = logging.getLogger(__name__)
BACKOFF_MOST, BACKOFF_FORGOTTEN = 60.0, 600.0  # seconds; it starts with one and doubles
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Container:
    def __init__(self, pod: "Pod", spec: Json) -> None:
        self.pod, self.spec, self.name = pod, spec, spec["name"]
        self.runs, self._root = pod.folder / self.name / "runs", pod.folder / self.name / "rootfs"
        self.run: Run | None = next(reversed(runs_in(self.runs)), None)  # one that an earlier agent left is adopted
        self.waiting: tuple[str, str] | None = None if self.run else ("ContainerCreating", "")
        self._passed, self._image_id, self.done = False, "", False

    async def live(self) -> None:
        """Runs the command again and again, as the restart policy says."""
        failures = 0
        while not self.pod.stopping.is_set():
            run = self.run = self.run or await self._start()
            if run is None:
                break
            self.waiting, self._passed = None, "readinessProbe" not in self.spec
            self.pod.changed.set()
            probe = asyncio.create_task(self._probe())
            exit_ = await run.wait()
            probe.cancel()
            restarts = {"Always": True, "OnFailure": exit_["exitCode"] != 0}.get(
                self.pod.object["spec"]["restartPolicy"]
            )
            if not restarts or self.pod.stopping.is_set():
                break
            failures = 1 if exit_["finishedAt"] - exit_["startedAt"] > BACKOFF_FORGOTTEN else failures + 1
            delay = min(2.0 ** (failures - 1), BACKOFF_MOST)
            self.waiting = ("CrashLoopBackOff", f"back-off {delay:g}s restarting failed container={self.name}")
            await self.pod.pause(delay)
            self.run = None
        self.done = True
        self.pod.changed.set()

    async def _start(self) -> Run | None:
        """Tries until image, configuration and command are there; why they are not shows in `waiting`."""
        delay = 1.0
        while not self.pod.stopping.is_set():
            try:
                await self.pod.prepare()
                image = await self.pod.node.agent.image(self.spec["image"])
                argv, env = await self._command(image)
                run = next_run(self.runs)
                run.start(
                    self.pod.uid, argv, env, Path(self.spec.get("workingDir") or image["directory"] or self._root)
                )
                self._image_id = image["reference"]
                return run
            except aiohttp.ClientResponseError as error:
                reason = "ErrImagePull" if delay == 1.0 else "ImagePullBackOff"
                self.waiting = ("InvalidImageName" if error.status == 400 else reason, error.message)
            except (ConfigError, KubeError) as error:
                self.waiting = ("CreateContainerConfigError", str(error))
            except (OSError, aiohttp.ClientError, LookupError) as error:
                self.waiting = ("RunContainerError", f"{error!r}")
            await self.pod.pause(delay)
            delay = min(delay * 2, BACKOFF_MOST)
        return None

    async def _command(self, image: Json) -> tuple[list[str], dict[str, str]]:
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.pod.volumes.mount(self.spec, self._root)
        entry = image["command"] or self.spec.get("command") or image["manifest"]["command"]
        server = urlsplit(self.pod.node.server)
        env = {"PATH": PATH, "HOME": str(self._root), "HOSTNAME": self.pod.object["metadata"]["name"]}
        env |= {"KUBERNETES_SERVICE_HOST": str(server.hostname), "KUBERNETES_SERVICE_PORT": str(server.port)}
        env |= image["manifest"]["env"] | await self.pod.volumes.environment(self.spec)
        argv = [*entry, *(self.spec.get("args") or [])]
        return [self._own(text) for text in argv], {name: self._own(text) for name, text in env.items()}

    def _own(self, text: str) -> str:
        return own_path(text, self.spec, self._root)

    async def _probe(self) -> None:
        probe, streak = self.spec.get("readinessProbe"), 0
        await asyncio.sleep(dig(probe, "initialDelaySeconds") or 0)
        while probe:
            try:
                async with asyncio.timeout(probe.get("timeoutSeconds", 1)):
                    good = await (
                        self._probe_exec(probe["exec"]) if "exec" in probe else self._probe_http(probe["httpGet"])
                    )
            except (OSError, aiohttp.ClientError, TimeoutError, KubeError, ConfigError):
                good = False
            streak = max(streak, 0) + 1 if good else min(streak, 0) - 1
            needed = probe.get("successThreshold", 1) if good else probe.get("failureThreshold", 3)
            if abs(streak) >= needed and self._passed != good:
                self._passed = good
                self.pod.changed.set()
            await asyncio.sleep(probe.get("periodSeconds", 10))

    async def _probe_http(self, get: Json) -> bool:
        url = f"http://{get.get('host') or self.pod.node.address}:{get['port']}{get.get('path', '/')}"
        async with self.pod.node.agent.session.get(url) as answer:
            return 200 <= answer.status < 400

    async def _probe_exec(self, probe: Json) -> bool:
        _, env = await self._command(await self.pod.node.agent.image(self.spec["image"]))
        argv, null = [self._own(text) for text in probe["command"]], asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(*argv, env=env, cwd=self._root, stdout=null, stderr=null)
        try:
            return await process.wait() == 0
        finally:
            if process.returncode is None:
                process.kill()

    def status(self) -> Json:
        found = runs_in(self.runs)
        last, ended = found[-1] if found else None, found[-1].exit if found else None
        before = ended if self.waiting else found[-2].exit if len(found) > 1 else None
        if self.waiting or last is None:
            reason, message = self.waiting or ("ContainerCreating", "")
            state: Json = {"waiting": {"reason": reason, "message": message}}
        else:
            state = {"terminated": _ended(ended)} if ended else {"running": {"startedAt": timestamp(last.started_at)}}
        ready = "running" in state and self._passed and "not-ready" not in self.pod.node.effects
        status = {
            "name": self.name,
            "image": self.spec["image"],
            "imageID": self._image_id,
            "state": state,
            "ready": ready,
        }
        status |= (
            {"restartCount": last.number, "containerID": f"sandbox://{self.pod.uid}/{last.number}"} if last else {}
        )
        return {"restartCount": 0, **status, "lastState": {"terminated": _ended(before)} if before else {}}


def _ended(exit_: Json) -> Json:
    times = {name: timestamp(exit_[name]) for name in ("startedAt", "finishedAt")}
    return {"exitCode": exit_["exitCode"], "reason": "Error" if exit_["exitCode"] else "Completed", **times}


class Pod:
    """`object` is the Pod as last seen. All that it does is in `live`."""

    def __init__(self, node: "Node", obj: Json) -> None:
        self.node, self.object, self.uid = node, obj, obj["metadata"]["uid"]
        self.folder = node.directory / "pods" / self.uid
        self.volumes = Volumes(node.client, obj, self.folder / "volumes", node.directory)
        self.stopping, self.changed, self._lock, self._gone = asyncio.Event(), asyncio.Event(), asyncio.Lock(), False
        self.containers = [Container(self, spec) for spec in obj["spec"]["containers"]]
        meta = obj["metadata"]
        self._path, self._told = path_of("pods", meta["namespace"], meta["name"]), Json()
        self.task = asyncio.create_task(self.live())

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

    async def pause(self, seconds: float) -> None:
        self.changed.set()
        try:
            await asyncio.wait_for(self.stopping.wait(), seconds)
        except TimeoutError:
            pass

    async def prepare(self) -> None:
        async with self._lock:
            if self.volumes.renew_at is None:
                await self.volumes.prepare(self.node.agent.rotate_after)

    async def live(self) -> None:
        self.update(self.object)
        work = [asyncio.create_task(item.live()) for item in self.containers]
        around = [asyncio.create_task(part) for part in (self._report(), self._rotate())]
        try:
            await self.stopping.wait()
            grace = 0 if self._gone else self.object["metadata"]["deletionGracePeriodSeconds"]
            for number, seconds in ((signal.SIGTERM, grace), (signal.SIGUSR1, None)):
                for container in self.containers:
                    if container.run:
                        container.run.signal(number)
                if not (await asyncio.wait(work, timeout=seconds))[1]:
                    break
            await self._bury()
        finally:
            for task in [*work, *around]:
                task.cancel()

    async def _bury(self) -> None:
        """Tells the end, takes the object away, then the files."""
        while not self._gone:
            try:
                await self.node.client.patch(self._path + "/status", {"status": self._status()})
                options = {"gracePeriodSeconds": 0, "preconditions": {"uid": self.uid}}
                await self.node.client.call("DELETE", self._path, options)
                break
            except KubeError as error:
                if error.code in (404, 409):
                    break
                await asyncio.sleep(1)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.node.pods.pop(self.uid, None)

    async def _rotate(self) -> None:
        while True:
            due = self.volumes.renew_at or float("inf")
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
            status = self._status()
            try:
                if "silent" in self.node.effects:
                    raise KubeError(0, "Silent", "a fault keeps this Node silent")
                if status != self._told:
                    await self.node.client.patch(
                        self._path + "/status", {"metadata": {"uid": self.uid}, "status": status}
                    )
                    self._told = status
            except KubeError as error:
                if error.code not in (404, 409):
                    self.changed.set()
                    await asyncio.sleep(1)

    def _status(self) -> Json:
        containers, address = [item.status() for item in self.containers], self.node.address
        started = any(item["restartCount"] or "waiting" not in item["state"] for item in containers)
        failed = any(dig(item, "state.terminated.exitCode") for item in containers)
        done = all(item.done for item in self.containers)
        phase = ("Failed" if failed else "Succeeded") if done else "Running" if started else "Pending"
        ready = str(all(item["ready"] for item in containers))
        flags = {"PodScheduled": "True", "Initialized": "True", "ContainersReady": ready, "Ready": ready}
        conditions = [{"type": name, "status": value} for name, value in flags.items()]
        status = {"phase": phase, "conditions": conditions, "containerStatuses": containers, "hostIP": address}
        return status | {"podIP": address, "startTime": self.object["metadata"]["creationTimestamp"]}
