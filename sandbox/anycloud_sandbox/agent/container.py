"""One container of a Pod over all its runs: started, probed, started again as the restart policy says."""

import asyncio
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import aiohttp

from anycloud_sandbox.agent.run import Run, next_run, runs_in
from anycloud_sandbox.agent.volumes import ConfigError, expanded
from anycloud_sandbox.kube.store import KubeError, dig, timestamp
from anycloud_sandbox.state import Json

if TYPE_CHECKING:
    from anycloud_sandbox.agent.pod import Pod

BACKOFF_MOST, BACKOFF_FORGOTTEN = 60.0, 600.0  # seconds; it starts with one and doubles
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Container:
    """`policy` is the restart policy; `done` says that it won't run again."""

    def __init__(self, pod: "Pod", spec: Json, policy: str) -> None:
        self.name, self._pod, self._spec, self._policy = spec["name"], pod, spec, policy
        self.runs = pod.folder / "runs" / self.name
        self.run: Run | None = next(reversed(runs_in(self.runs)), None)  # one that an earlier agent left is adopted
        self._waiting = ("", "") if self.run else ("ContainerCreating", "")
        self._passed, self.done = False, False

    @property
    def failed(self) -> bool:
        runs = runs_in(self.runs)
        return self.done and not (runs and runs[-1].exit and runs[-1].exit["exitCode"] == 0)

    async def live(self) -> None:
        failures, stopping, changed = 0, self._pod.stopping, self._pod.changed
        while not stopping.is_set():
            self.run = self.run or await self._start()
            if self.run is None:
                break
            self._waiting, self._passed = ("", ""), "readinessProbe" not in self._spec
            changed.set()
            probe = asyncio.create_task(self._probe())
            exit_ = await self.run.wait()
            probe.cancel()
            restarts = {"Always": True, "OnFailure": exit_["exitCode"] != 0}.get(self._policy)
            if not restarts or stopping.is_set():
                break
            failures = 1 if exit_["finishedAt"] - exit_["startedAt"] > BACKOFF_FORGOTTEN else failures + 1
            delay = min(2.0 ** (failures - 1), BACKOFF_MOST)
            await self._wait("CrashLoopBackOff", f"back-off {delay:g}s restarting failed container", delay)
            self.run = None
        self.done = True
        changed.set()

    async def _wait(self, reason: str, message: str, seconds: float) -> None:
        self._waiting = (reason, message)
        self._pod.changed.set()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._pod.stopping.wait(), seconds)

    async def _start(self) -> Run | None:
        """Tries until image, configuration and command are there."""
        delay, agent, volumes = 1.0, self._pod.node.agent, self._pod.volumes
        while not self._pod.stopping.is_set():
            try:
                image = await agent.image(self._spec["image"])
                argv, env = await self._command(image)
                cwd = Path(self._spec.get("workingDir") or image["directory"] or volumes.root)
                if self._pod.stopping.is_set():  # nobody would send it the SIGTERM that is due
                    break
                run = next_run(self.runs)
                run.start(self._pod.uid, image["reference"], argv, env, cwd)
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
        """What the Pod says is as in a container: its paths are rewritten. What the image says is as on this machine,
        but for its `paths`."""
        volumes, node, manifest = self._pod.volumes, self._pod.node, image["manifest"]
        await volumes.ensure(node.agent.rotate_after)
        server, given = urlsplit(node.server), await volumes.environment(self._spec)
        env = {"PATH": PATH, "HOME": str(volumes.root), "HOSTNAME": self._pod.object["metadata"]["name"]}
        env |= {"KUBERNETES_SERVICE_HOST": str(server.hostname), "KUBERNETES_SERVICE_PORT": str(server.port)}
        env |= {"ANYCLOUD_SANDBOX_ADDRESS": node.address} | manifest["env"]
        for name, text in (manifest.get("paths", {}) | given).items():
            env[name] = volumes.own(self._spec, text)
        command, args = (
            [volumes.own(self._spec, expanded(text, given)) for text in self._spec.get(part) or []]
            for part in ("command", "args")
        )
        return [*(image["command"] or command or manifest["command"]), *args], env

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
                self._pod.changed.set()
            await asyncio.sleep(probe.get("periodSeconds", 10))

    async def _probe_once(self, probe: Json) -> bool:
        if get := probe.get("httpGet"):
            ports = {item.get("name"): item["containerPort"] for item in self._spec.get("ports") or []}
            port, host = ports.get(get["port"], get["port"]), get.get("host") or self._pod.node.address
            async with self._pod.node.agent.session.get(f"http://{host}:{port}{get.get('path', '/')}") as answer:
                return 200 <= answer.status < 400
        _, env = await self._command(await self._pod.node.agent.image(self._spec["image"]))
        root, null = self._pod.volumes.root, asyncio.subprocess.DEVNULL
        argv = [self._pod.volumes.own(self._spec, text) for text in probe["exec"]["command"]]
        process = await asyncio.create_subprocess_exec(*argv, env=env, cwd=root, stdout=null, stderr=null)
        try:
            return await process.wait() == 0
        finally:
            if process.returncode is None:
                process.kill()

    def status(self) -> Json:
        runs = runs_in(self.runs)
        last, ended = runs[-1] if runs else None, runs[-1].exit if runs else None
        before = ended if self._waiting[0] else runs[-2].exit if len(runs) > 1 else None
        state: Json = {"waiting": {"reason": self._waiting[0], "message": self._waiting[1]}}
        if last and not self._waiting[0]:
            state = {"terminated": _ended(ended)} if ended else {"running": {"startedAt": timestamp(last.started_at)}}
        ready = "running" in state and self._passed and "not-ready" not in self._pod.node.effects
        found = {"name": self.name, "image": self._spec["image"], "imageID": last.image if last else "", "state": state}
        found |= {"ready": ready, "restartCount": last.number if last else 0}
        found |= {"lastState": {"terminated": _ended(before)} if before else {}}
        return found | ({"containerID": f"sandbox://{self._pod.uid}/{self.name}/{last.number}"} if last else {})


def _ended(exit_: Json) -> Json:
    times = {name: timestamp(exit_[name]) for name in ("startedAt", "finishedAt")}
    return {"exitCode": exit_["exitCode"], "reason": "Error" if exit_["exitCode"] else "Completed", **times}
