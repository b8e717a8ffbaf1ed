"""What the container of an image Job writes: while its Pod is there from it, afterwards what was kept."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

from anycloud_common.kube import KubeError

from anycloud_deployment.domain.image_jobs import newest
from anycloud_deployment.domain.model import JobPodFact
from anycloud_deployment.domain.ports import Logs, Objects
from anycloud_deployment.domain.refusal import Refusal
from anycloud_deployment.live.logs import Line
from anycloud_deployment.live.signals import Signals
from anycloud_deployment.store.image_jobs import StoredImageJob

_LOOK_AGAIN_S = 5.0  # a change of the Job is told; this is for its Pod, which may say less

Now = Callable[[str], Awaitable[tuple[StoredImageJob, bytes | None] | None]]


class JobLogReader:
    """`now(job id)` gives the stored Job and its kept output. `signals` tell of changes by Job id."""

    def __init__(self, objects: Objects, logs: Logs, now: Now, signals: Signals) -> None:
        self._objects = objects
        self._logs = logs
        self._now = now
        self._signals = signals

    async def read(self, job_id: str, *, tail: int | None, follow: bool) -> AsyncIterator[Line]:
        """At most the `tail` newest lines of what is there; following goes on until the Job has ended. Raises
        Refusal."""
        try:
            source = await self._when_there(job_id, tail, follow)
            if source is not None:
                async for line in source:
                    yield line
        except KubeError as error:
            said = f"The logs can't be read right now: {error}"
            raise Refusal("WORKLOAD_MANAGEMENT_UNAVAILABLE", said) from None

    async def _when_there(self, job_id: str, tail: int | None, follow: bool) -> AsyncIterator[Line] | None:
        """Where lines come from, waited for when following; None of a Job that ended without any. It is looked twice at
        once, as output may be kept, and its Pod go, between the reads of one look."""
        looks = 0
        with self._signals.watch(job_id) as watch:
            while True:
                stored, kept = await self._stored(job_id)
                source = await self._source(stored, kept, tail, follow)
                if source is not None or stored.job.cleaned_at is not None:
                    return source
                looks += 1
                if looks > 1 and follow:
                    await watch.wait(_LOOK_AGAIN_S)
                elif looks > 1 and stored.job.ending:
                    return None
                elif looks > 1:
                    raise _not_started(stored)

    async def _source(
        self, stored: StoredImageJob, kept: bytes | None, tail: int | None, follow: bool
    ) -> AsyncIterator[Line] | None:
        """Where lines come from now; None while there are none, and none may come."""
        if kept is not None:
            return _kept(kept, stored.job.run, tail)
        pod = await self._pod(stored)
        if pod is None or not (pod.running or pod.ended):
            return None
        lines = self._lines(pod, tail, follow)
        try:
            first = await anext(lines, None)
        except KubeError as error:
            if error.reason not in ("not_found", "invalid"):
                raise
            return None  # it is gone, and what was kept of it comes next; or it only seemed to have begun
        return _with_first(first, lines)

    async def _stored(self, job_id: str) -> tuple[StoredImageJob, bytes | None]:
        found = await self._now(job_id)
        if found is None:
            raise Refusal("WORKLOAD_MANAGEMENT_NOT_FOUND", f"Workload {job_id[:80]} doesn't exist.")
        return found

    async def _pod(self, stored: StoredImageJob) -> JobPodFact | None:
        job = stored.job
        if job.namespace is None or job.cleaned_at is not None:
            return None
        return newest(await self._objects.job_pods(job.namespace, job.run))

    async def _lines(self, pod: JobPodFact, tail: int | None, follow: bool) -> AsyncIterator[Line]:
        lines = self._logs.lines(pod.namespace, pod.name, tail=tail, previous=False, follow=follow)
        async for text in lines:
            yield Line(text, pod.name, False)


async def _with_first(first: Line | None, lines: AsyncIterator[Line]) -> AsyncIterator[Line]:
    if first is not None:
        yield first
        async for line in lines:
            yield line


async def _kept(output: bytes, run: str, tail: int | None) -> AsyncIterator[Line]:
    """Of a Pod that is gone only the run's name is known."""
    texts = output.decode(errors="replace").removesuffix("\n").split("\n") if output else []
    for text in texts if tail is None else texts[len(texts) - min(tail, len(texts)) :]:
        yield Line(text, run, False)


def _not_started(stored: StoredImageJob) -> Refusal:
    said = f"Job {stored.job.id} is {stored.job.state}; its container hasn't started, so there are no logs yet."
    return Refusal("WORKLOAD_MANAGEMENT_CONFLICT", said)
