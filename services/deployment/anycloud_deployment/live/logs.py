"""What a Deployment's newest Pod writes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from anycloud_common.clock import Clock
from anycloud_common.kube import KubeError

from anycloud_deployment.domain.model import Deployment, PodFact
from anycloud_deployment.domain.observe import newest
from anycloud_deployment.domain.ports import Logs, Objects
from anycloud_deployment.domain.refusal import Refusal, conflict

_LOOK_AGAIN_S = 1.0


@dataclass(frozen=True)
class Line:
    text: str
    pod_name: str
    previous: bool


class LogReader:
    """Ready or not, the newest Pod speaks. Of a container that crashes again and again, the last run is told first.

    `now(deployment id)` gives the stored Deployment.
    """

    def __init__(
        self, objects: Objects, logs: Logs, now: Callable[[str], Awaitable[Deployment | None]], clock: Clock
    ) -> None:
        self._objects = objects
        self._logs = logs
        self._now = now
        self._clock = clock

    async def read(
        self, deployment: Deployment, *, tail: int | None, previous: bool, follow: bool
    ) -> AsyncIterator[Line]:
        """Lines of at most the `tail` newest of each run. Following ends with the Deployment. Raises Refusal."""
        try:
            pod = await self._pod(deployment)
            if follow and not previous:
                async for line in self._follow(deployment, pod, tail):
                    yield line
                return
            for line in await self._present(pod, tail, previous):
                yield line
        except KubeError as error:
            raise _refusal(error) from None

    async def _pod(self, deployment: Deployment) -> PodFact:
        found = await self._newest(deployment)
        if found is None:
            raise conflict(f"Deployment {deployment.name} has no Pod now, so there are no logs.")
        return found

    async def _newest(self, deployment: Deployment) -> PodFact | None:
        namespace = deployment.natives.namespace
        return newest(await self._objects.pods(namespace, deployment.id)) if namespace is not None else None

    async def _present(self, pod: PodFact, tail: int | None, previous: bool) -> list[Line]:
        """What is there already: of both runs when the container was restarted."""
        if previous:
            return await self._run(pod, tail, previous=True)
        lines = await self._run(pod, tail, previous=True) if pod.restarts else []
        if pod.running or not pod.restarts:
            lines += await self._run(pod, tail, previous=False)
        return lines if tail is None else lines[len(lines) - min(tail, len(lines)) :]

    async def _run(self, pod: PodFact, tail: int | None, *, previous: bool) -> list[Line]:
        """The lines of one run; none when it left none, or hasn't begun."""
        lines: list[Line] = []
        try:
            async for text in self._logs.lines(pod.namespace, pod.name, tail=tail, previous=previous, follow=False):
                lines.append(Line(text, pod.name, previous))
        except KubeError as error:
            if error.reason not in ("invalid", "not_found"):
                raise
        return lines

    async def _follow(self, deployment: Deployment, pod: PodFact, tail: int | None) -> AsyncIterator[Line]:
        """Run after run, Pod after Pod."""
        if pod.restarts:
            for line in await self._run(pod, tail, previous=True):
                yield line
        told: tuple[str, int] | None = None
        while True:
            if pod.running and (pod.uid, pod.restarts) != told:
                told = (pod.uid, pod.restarts)
                lines = self._logs.lines(pod.namespace, pod.name, tail=tail, previous=False, follow=True)
                async for text in lines:
                    yield Line(text, pod.name, False)
                tail = None
            await self._clock.sleep(_LOOK_AGAIN_S)
            found = await self._newest(deployment)
            if found is None and not await self._comes_again(deployment):
                return
            pod = found or pod

    async def _comes_again(self, deployment: Deployment) -> bool:
        """Whether another Pod may follow one that is gone."""
        stored = await self._now(deployment.id)
        return stored is not None and stored.accepting


def _refusal(error: KubeError) -> Refusal:
    if error.reason == "not_found":
        return conflict("The Pod is gone; ask again for the one that takes its place.")
    return Refusal("DEPLOYMENT_UNAVAILABLE", f"The logs can't be read right now: {error}")
