"""A Pod on a Node: the life of its one container, its probe and status, and its end."""

import asyncio
import contextlib
import logging
import shutil
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import aiohttp

from anycloud_sandbox.agent.container import ConfigError, Run, Volumes, next_run, runs_in
from anycloud_sandbox.kube.client import path_of
from anycloud_sandbox.kube.store import KubeError, dig, fill, timestamp
from anycloud_sandbox.state import Json

if TYPE_CHECKING:
    from anycloud_sandbox.agent.main import Node

log = logging.getLogger(__name__)
BACKOFF_MOST, BACKOFF_FORGOTTEN = 60.0, 600.0  # seconds; it starts with one and doubles
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Pod:
    """`object` is the Pod as last seen."""

    def __init__(self, node: "Node", obj: Json) -> None:
        self.object, self.uid, self._node, self._spec = obj, obj["metadata"]["uid"], node, obj["spec"]["containers"][0]
        self.folder = node.directory / "pods" / self.uid
        self.runs = self.folder / "runs"
        self._path = path_of("pods", obj["metadata"]["namespace"], obj["metadata"]["name"])
        self._volumes = Volumes(node.client, obj, self.folder, node.directory)
        self._stopping, self.changed, self._gone, self._told = asyncio.Event(), asyncio.Event(), False, Json()
        self._run: Run | None = next(reversed(runs_in(self.runs)), None)  # one that an earlier agent left is adopted
        self._waiting = ("", "") if self._run else ("ContainerCreating", "")
        self._passed, self._done = False, False
        self.task = asyncio.create_task(self._live())

    def update(self, obj: Json) -> None:
        self.object = obj
        if "deletionTimestamp" in obj["metadata"]:
            self._stopping.set()
        if self._told and dig(obj, "status.conditions") != self._told["conditions"]:  # somebody else wrote them
            self._told = {}
            self.changed.set()

    def removed(self) -> None:
        """The object is gone from the API: what runs is ended at once."""
        self._gone = True
        self._stopping.set()

    async def _live(self) -> None:
        self.update(self.object)
        work, *around = (asyncio.create_task(part) for part in (self._run_again(), self._report(), self._rotate()))
        try:
            await self._stopping.wait()
            grace = 0 if self._gone else self.object["metadata"]["deletionGracePeriodSeconds"]
            for number, seconds in ((signal.SIGTERM, grace), (signal.SIGUSR1, None)):
                if self._run:
                    self._run.signal(number)
                if (await asyncio.wait([work], timeout=seconds))[0]:
                    break
            await self._bury()
        finally:
            for task in (work, *around):
                task.cancel()

    async def _run_again(self) -> None:
        """Runs the command again and again, as the restart policy says."""
        failures = 0
        while not self._stopping.is_set():
            self._run = self._run or await self._start()
            if self._run is None:
                break
            self._waiting, self._passed = ("", ""), "readinessProbe" not in self._spec
            self.changed.set()
            probe = asyncio.create_task(self._probe())
            exit_ = await self._run.wait()
            probe.cancel()
            restarts = {"Always": True, "OnFailure": exit_["exitCode"] != 0}.get(self.object["spec"]["restartPolicy"])
            if not restarts or self._stopping.is_set():
                break
            failures = 1 if exit_["finishedAt"] - exit_["startedAt"] > BACKOFF_FORGOTTEN else failures + 1
            delay = min(2.0 ** (failures - 1), BACKOFF_MOST)
            await self._wait("CrashLoopBackOff", f"back-off {delay:g}s restarting failed container", delay)
            self._run = None
        self._done = True
        self.changed.set()

    async def _wait(self, reason: str, message: str, seconds: float) -> None:
        self._waiting = (reason, message)
        self.changed.set()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)

    async def _start(self) -> Run | None:
        """Tries until image, configuration and command are there."""
        delay = 1.0
        while not self._stopping.is_set():
            try:
                if self._volumes.renew_at is None:
                    await self._volumes.prepare(self._node.agent.rotate_after)
                image = await self._node.agent.image(self._spec["image"])
                argv, env = await self._command(image)
                cwd = Path(self._spec.get("workingDir") or image["directory"] or self._volumes.root)
                if self._stopping.is_set():  # nobody would send it the SIGTERM that is due
                    break
                run = next_run(self.runs)
                run.start(self.uid, image["reference"], argv, env, cwd)
                return run
            except aiohttp.ClientResponseError as error:
                reason = "ErrImagePull" if delay == 1.0 else "ImagePullBackOff"
                await self._wait("InvalidImageName" if error.status == 400 else reason, error.message, delay)
            except (ConfigError, KubeError) as error:
                await self._wait("CreateContainerConfigError", str(error), delay)
            except (OSError, aiohttp.ClientError, LookupError) as error:
                await self._wait("RunContainerError", f"{error!r}", delay)
            delay = min(delay * 2, BACKOFF_MOST)
        return None

    async def _command(self, image: Json) -> tuple[list[str], dict[str, str]]:
        server, own = urlsplit(self._node.server), self._volumes.own_path
        entry = image["command"] or self._spec.get("command") or image["manifest"]["command"]
        env = {"PATH": PATH, "HOME": str(self._volumes.root), "HOSTNAME": self.object["metadata"]["name"]}
        env |= {"KUBERNETES_SERVICE_HOST": str(server.hostname), "KUBERNETES_SERVICE_PORT": str(server.port)}
        env |= image["manifest"]["env"] | await self._volumes.environment()
        argv = [*entry, *(self._spec.get("args") or [])]
        return [own(text) for text in argv], {name: own(text) for name, text in env.items()}

    async def _probe(self) -> None:
        probe, streak = self._spec.get("readinessProbe"), 0
        await asyncio.sleep(dig(probe, "initialDelaySeconds") or 0)
        while probe:
            good = False
            with contextlib.suppress(OSError, aiohttp.ClientError, TimeoutError, KubeError, ConfigError):
                async with asyncio.timeout(probe.get("timeoutSeconds", 1)):
                    good = await self._probe_once(probe)
            streak = max(streak, 0) + 1 if good else min(streak, 0) - 1
            needed = probe.get("successThreshold", 1) if good else probe.get("failureThreshold", 3)
            if abs(streak) >= needed and self._passed != good:
                self._passed = good
                self.changed.set()
            await asyncio.sleep(probe.get("periodSeconds", 10))

    async def _probe_once(self, probe: Json) -> bool:
        if get := probe.get("httpGet"):
            url = f"http://{get.get('host') or self._node.address}:{get['port']}{get.get('path', '/')}"
            async with self._node.agent.session.get(url) as answer:
                return 200 <= answer.status < 400
        _, env = await self._command(await self._node.agent.image(self._spec["image"]))
        argv, null = map(self._volumes.own_path, probe["exec"]["command"]), asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(*argv, env=env, cwd=self._volumes.root, stdout=null, stderr=null)
        try:
            return await process.wait() == 0
        finally:
            if process.returncode is None:
                process.kill()

    async def _rotate(self) -> None:
        while True:
            due = self._volumes.renew_at or float("inf")
            await asyncio.sleep(min(max(due - time.time(), 0), 0.5))
            if time.time() >= due:
                try:
                    await self._volumes.prepare(self._node.agent.rotate_after)
                except (KubeError, ConfigError) as error:
                    log.info("pod %s: tokens are renewed later: %s", self.uid, error)
                    await asyncio.sleep(1)

    async def _report(self) -> None:
        while True:
            await self.changed.wait()
            self.changed.clear()
            body = self._status()
            try:
                if "silent" in self._node.effects:
                    raise KubeError(0, "Silent", "a fault keeps this Node silent")
                if body["status"] != self._told:
                    await self._node.client.patch(self._path + "/status", body)
                    self._told = body["status"]
            except KubeError as error:
                if error.code not in (404, 409):
                    self.changed.set()
                    await asyncio.sleep(1)

    def _status(self) -> Json:
        runs, name = runs_in(self.runs), self._spec["name"]
        last, ended = runs[-1] if runs else None, runs[-1].exit if runs else None
        before = ended if self._waiting[0] else runs[-2].exit if len(runs) > 1 else None
        state: Json = {"waiting": {"reason": self._waiting[0], "message": self._waiting[1]}}
        if last and not self._waiting[0]:
            state = {"terminated": _ended(ended)} if ended else {"running": {"startedAt": timestamp(last.started_at)}}
        ready = "running" in state and self._passed and "not-ready" not in self._node.effects
        before = {"terminated": _ended(before)} if before else {}
        container = {
            "name": name,
            "image": self._spec["image"],
            "imageID": runs[-1].image if runs else "",
            "state": state,
            "ready": ready,
        }
        container |= {"restartCount": last.number if last else 0, "lastState": before}
        container |= {"containerID": f"sandbox://{self.uid}/{last.number}"} if last else {}
        phase = "Running" if last else "Pending"
        if self._done:
            phase = "Failed" if ended is None or ended["exitCode"] else "Succeeded"
        about = {"uid": self.uid, "address": self._node.address, "since": self.object["metadata"]["creationTimestamp"]}
        return dict(fill("pod-status", **about, phase=phase, ready=str(ready), container=container))

    async def _bury(self) -> None:
        """Tells the end, takes the object away, then the files."""
        while not self._gone:
            try:
                await self._node.client.patch(self._path + "/status", self._status())
                options = {"gracePeriodSeconds": 0, "preconditions": {"uid": self.uid}}
                await self._node.client.call("DELETE", self._path, options)
                break
            except KubeError as error:
                if error.code in (404, 409):
                    break
                await asyncio.sleep(1)
        shutil.rmtree(self.folder, ignore_errors=True)
        self._node.pods.pop(self.uid, None)


def _ended(exit_: Json) -> Json:
    times = {name: timestamp(exit_[name]) for name in ("startedAt", "finishedAt")}
    return {"exitCode": exit_["exitCode"], "reason": "Error" if exit_["exitCode"] else "Completed", **times}
