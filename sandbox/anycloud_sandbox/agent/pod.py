"""A Pod on a Node: its containers' lives, probes and status, and its end."""

from __future__ import annotations

import asyncio
import logging
import shutil
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import aiohttp

from anycloud_sandbox.agent.container import Run, Runs
from anycloud_sandbox.agent.volumes import ConfigError, Volumes, own_path
from anycloud_sandbox.kube.client import MERGE, path_of
from anycloud_sandbox.kube.resources import KubeError, dig, timestamp
from anycloud_sandbox.state import Json

if TYPE_CHECKING:
    from anycloud_sandbox.agent.node import Node

log = logging.getLogger(__name__)
BACKOFF_SECONDS, BACKOFF_MOST, BACKOFF_FORGOTTEN = 1.0, 60.0, 600.0
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Container:
    def __init__(self, pod: Pod, spec: Json) -> None:
        self.pod, self.spec, self.name = pod, spec, spec["name"]
        self.folder = pod.folder / self.name
        self.runs = Runs(self.folder / "runs")
        self.waiting: tuple[str, str] | None = ("ContainerCreating", "")
        self.image_id = ""
        self.passed = "readinessProbe" not in spec
        self.run: Run | None = None
        self.done = False

    async def live(self) -> None:
        """Runs the command again and again as the restart policy says, adopting the run that an earlier agent left."""
        found = self.runs.all()
        self.run = found[-1] if found else None
        failures = 0
        while not self.pod.stopping.is_set():
            if self.run is None:
                await self._start()
            assert self.run
            self.waiting = None
            self.pod.changed()
            probe = asyncio.create_task(self._probe())
            exit_ = await self.run.wait()
            probe.cancel()
            self.passed = "readinessProbe" not in self.spec
            policy = self.pod.object["spec"]["restartPolicy"]
            if policy == "Never" or (policy == "OnFailure" and exit_["exitCode"] == 0) or self.pod.stopping.is_set():
                break
            lasted = exit_["finishedAt"] - exit_["startedAt"]
            failures = 0 if lasted > BACKOFF_FORGOTTEN else failures + 1
            delay = min(BACKOFF_SECONDS * 2 ** (failures - 1), BACKOFF_MOST)
            self.waiting = ("CrashLoopBackOff", f"back-off {delay:g}s restarting failed container={self.name}")
            self.pod.changed()
            await self.pod.pause(delay)
            self.run = None
        self.done = True
        self.pod.changed()

    async def _start(self) -> None:
        """Tries until the image, the configuration and the command are there; the reason why not shows in `waiting`."""
        failures = 0
        while not self.pod.stopping.is_set():
            try:
                await self.pod.volumes_ready()
                image = await self.pod.node.agent.image(self.spec["image"])
                argv, env, cwd = await self._command(image)
                run = self.runs.next()
                run.start(self.pod.uid, argv, env, cwd)
                self.run, self.image_id = run, image["reference"]
                return
            except aiohttp.ClientResponseError as error:
                names = ("InvalidImageName",) if error.status == 400 else ("ErrImagePull", "ImagePullBackOff")
                reason = names[min(failures, len(names) - 1)]
                self.waiting = (reason, f"image {self.spec['image']}: {error.message}")
            except (ConfigError, KubeError) as error:
                self.waiting = ("CreateContainerConfigError", str(error))
            except (OSError, aiohttp.ClientError, IndexError) as error:
                self.waiting = ("RunContainerError", f"{error!r}")
            self.pod.changed()
            await self.pod.pause(min(BACKOFF_SECONDS * 2**failures, BACKOFF_MOST))
            failures += 1

    async def _command(self, image: Json) -> tuple[list[str], dict[str, str], Path]:
        root = self.folder / "rootfs"
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.pod.volumes.mount(self.spec, root)
        entry = image.get("broken") or self.spec.get("command") or image["manifest"]["command"]
        argv = [own_path(text, self.spec, root) for text in [*entry, *(self.spec.get("args") or [])]]
        server = urlsplit(self.pod.node.server)
        env = {"PATH": PATH, "HOME": str(root), "HOSTNAME": self.pod.object["metadata"]["name"]}
        env |= {"KUBERNETES_SERVICE_HOST": server.hostname or "", "KUBERNETES_SERVICE_PORT": str(server.port)}
        env |= image["manifest"]["env"] | await self.pod.volumes.environment(self.spec)
        env = {name: own_path(text, self.spec, root) for name, text in env.items()}
        self.environment = env
        return argv, env, Path(self.spec.get("workingDir") or image.get("directory") or root)

    async def _probe(self) -> None:
        probe = self.spec.get("readinessProbe")
        if not probe:
            return
        await asyncio.sleep(probe.get("initialDelaySeconds", 0))
        streak = 0
        while True:
            good = await self._probe_once(probe)
            streak = max(streak, 0) + 1 if good else min(streak, 0) - 1
            wanted = probe.get("successThreshold", 1) if good else probe.get("failureThreshold", 3)
            if abs(streak) >= wanted and self.passed != good:
                self.passed = good
                self.pod.changed()
            await asyncio.sleep(probe.get("periodSeconds", 10))

    async def _probe_once(self, probe: Json) -> bool:
        try:
            async with asyncio.timeout(probe.get("timeoutSeconds", 1)):
                if "exec" in probe:
                    return await self._probe_exec(probe["exec"]["command"])
                get = probe["httpGet"]
                host = get.get("host") or self.pod.node.address
                url = f"{get.get('scheme', 'HTTP').lower()}://{host}:{get['port']}{get.get('path', '/')}"
                async with self.pod.node.agent.session.get(url, ssl=False) as answer:
                    return 200 <= answer.status < 400
        except (OSError, aiohttp.ClientError, TimeoutError):
            return False

    async def _probe_exec(self, command: list[str]) -> bool:
        root, env = self.folder / "rootfs", getattr(self, "environment", None)
        if env is None:
            _, env, _ = await self._command(await self.pod.node.agent.image(self.spec["image"]))
        argv = [own_path(text, self.spec, root) for text in command]
        null = asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(*argv, env=env, cwd=root, stdout=null, stderr=null)
        try:
            return await process.wait() == 0
        finally:
            if process.returncode is None:
                process.kill()

    @property
    def ready(self) -> bool:
        running = self.run is not None and self.waiting is None and not self.done
        return running and self.passed and "not-ready" not in self.pod.node.effects

    def status(self) -> Json:
        runs = self.runs.all()
        last = self.run or (runs[-1] if runs else None)
        ended = last.exit if last else None
        if self.waiting:
            state: Json = {"waiting": {"reason": self.waiting[0], "message": self.waiting[1]}}
            before = ended
        else:
            assert last
            state = {"terminated": _ended(ended)} if ended else {"running": {"startedAt": timestamp(last.started_at)}}
            before = runs[-2].exit if len(runs) > 1 else None
        status: Json = {"name": self.name, "image": self.spec["image"], "imageID": self.image_id, "state": state}
        status |= {"ready": self.ready, "started": self.ready, "restartCount": last.number if last else 0}
        status["lastState"] = {"terminated": _ended(before)} if before else {}
        if last:
            status["containerID"] = f"sandbox://{self.pod.uid}/{self.name}/{last.number}"
        return status


class Pod:
    """`object` is the Pod as last seen. All that it does is in `live`."""

    def __init__(self, node: Node, obj: Json) -> None:
        self.node, self.object, self.uid = node, obj, obj["metadata"]["uid"]
        self.folder = node.directory / "pods" / self.uid
        self.volumes = Volumes(node.client, obj, self.folder / "volumes", node.directory)
        self.containers = [Container(self, spec) for spec in obj["spec"]["containers"]]
        self.stopping = asyncio.Event()
        self.gone = False
        self._prepared = asyncio.Lock()
        self._changed = asyncio.Event()
        self._told: Json = {}
        self._since: dict[str, tuple[bool, str]] = {}
        self.task = asyncio.create_task(self.live())

    def update(self, obj: Json) -> None:
        self.object = obj
        if "deletionTimestamp" in obj["metadata"]:
            self.stopping.set()
        if self._told and dig(obj, "status.conditions") != self._told["conditions"]:
            self._told = {}
            self.changed()

    def removed(self) -> None:
        """The object is gone from the API: what runs is ended at once."""
        self.gone = True
        self.stopping.set()

    def changed(self) -> None:
        self._changed.set()

    async def pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self.stopping.wait()
        except TimeoutError:
            pass

    async def volumes_ready(self) -> None:
        async with self._prepared:
            if self.volumes.renew_at == float("inf"):
                await self.volumes.prepare(self.node.agent.rotate_after)

    async def live(self) -> None:
        self.update(self.object)
        work = [asyncio.create_task(item.live()) for item in self.containers]
        around = [asyncio.create_task(self._report()), asyncio.create_task(self._rotate())]
        try:
            await self.stopping.wait()
            await self._stop(work)
            around[0].cancel()
            await self._bury()
        finally:
            for task in [*work, *around]:
                task.cancel()

    async def _stop(self, work: list[asyncio.Task[None]]) -> None:
        grace = 0 if self.gone else self.object["metadata"].get("deletionGracePeriodSeconds", 30)
        for number, seconds in ((signal.SIGTERM, grace), (signal.SIGUSR1, None)):
            for container in self.containers:
                if container.run:
                    container.run.signal(number)
            _, pending = await asyncio.wait(work, timeout=seconds)
            if not pending:
                return

    async def _bury(self) -> None:
        """Tells the end, takes the object away, then the files."""
        path = path_of("pods", self.object["metadata"]["namespace"], self.object["metadata"]["name"])
        while not self.gone:
            try:
                await self.node.client.call("PATCH", path + "/status", {"status": self._status()}, MERGE)
                options: Json = {"gracePeriodSeconds": 0, "preconditions": {"uid": self.uid}}
                await self.node.client.call("DELETE", path, options)
                break
            except KubeError as error:
                if error.code in (404, 409):
                    break
                await asyncio.sleep(1)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.node.pods.pop(self.uid, None)

    async def _rotate(self) -> None:
        while True:
            await asyncio.sleep(min(max(self.volumes.renew_at - time.time(), 0.1), 10))
            if time.time() >= self.volumes.renew_at:
                try:
                    await self.volumes.prepare(self.node.agent.rotate_after)
                except (KubeError, ConfigError) as error:
                    log.info("pod %s: tokens are renewed later: %s", self.uid, error)
                    self.volumes.renew_at = time.time() + 1

    async def _report(self) -> None:
        meta = self.object["metadata"]
        path = path_of("pods", meta["namespace"], meta["name"], "status")
        while True:
            await self._changed.wait()
            self._changed.clear()
            status = self._status()
            if status == self._told:
                continue
            try:
                if "silent" in self.node.effects:
                    raise KubeError(0, "Silent", "a fault keeps this Node silent")
                body = {"metadata": {"uid": self.uid}, "status": status}
                await self.node.client.call("PATCH", path, body, MERGE)
                self._told = status
            except KubeError as error:
                if error.code not in (404, 409):
                    self._changed.set()
                    await asyncio.sleep(1)

    def _status(self) -> Json:
        containers = [item.status() for item in self.containers]
        codes = [dig(item, "state.terminated.exitCode") for item in containers]
        phase = (
            "Running"
            if any(item["restartCount"] or "waiting" not in item["state"] for item in containers)
            else "Pending"
        )
        if all(item.done for item in self.containers):
            phase = "Failed" if any(codes) else "Succeeded"
        ready = all(item["ready"] for item in containers)
        flags = {"PodScheduled": True, "Initialized": True, "ContainersReady": ready, "Ready": ready}
        address = self.node.address
        return {
            "phase": phase,
            "conditions": [self._condition(name, value) for name, value in flags.items()],
            "containerStatuses": containers,
            "startTime": self.object["metadata"]["creationTimestamp"],
            "hostIP": address,
            "podIP": address,
            "podIPs": [{"ip": address}],
        }

    def _condition(self, name: str, value: bool) -> Json:
        if self._since.get(name, (None, ""))[0] != value:
            self._since[name] = (value, timestamp(time.time()))
        condition: dict[str, Any] = {"type": name, "status": str(value), "lastTransitionTime": self._since[name][1]}
        if not value:
            names = [item.name for item in self.containers if not item.ready]
            condition |= {"reason": "ContainersNotReady", "message": f"containers with unready status: {names}"}
        return condition


def _ended(exit_: Json) -> Json:
    about = {"exitCode": exit_["exitCode"], "reason": "Error" if exit_["exitCode"] else "Completed"}
    return {**about, "startedAt": timestamp(exit_["startedAt"]), "finishedAt": timestamp(exit_["finishedAt"])}
