"""The end of a run: what its container wrote is kept, its objects go, then what it holds of the pool."""

from __future__ import annotations

import logging
from collections import deque

from anycloud_common.kube import KubeError
from anycloud_common.reconcile import Done, Outcome, Requeue

from anycloud_deployment.domain import image_jobs as life
from anycloud_deployment.domain.model import JobFact, JobPodFact
from anycloud_deployment.reconcile.image_jobs.run import Run
from anycloud_deployment.reconcile.image_jobs.watching import judged
from anycloud_deployment.store.jobs import KIND

KEPT_BYTES = 64 << 10
KEPT_LINES = 5000
OUTPUT_PATIENCE_MS = 30_000

_OUTPUT_RETRY_S = 2.0
_LOOK_AGAIN_S = 10.0  # changes of the objects come by watch; this is for those that no watch shows

log = logging.getLogger(__name__)


async def settle(run: Run) -> Outcome:
    """A container that ended by itself before it was stopped has ended so."""
    if run.job.over or run.job.namespace is None:
        return Done()
    pods = await run.tools.objects.job_pods(run.namespace, run.name)
    pod = life.newest(pods)
    if pod is not None and pod.ended and not pod.deleting:
        seen = judged(run, JobFact(run.job.job_uid or ""), pods)
        await run.step(life.observed(run.job, seen, now=run.tools.clock.now_ms()))
    return Done()


async def keep_output(run: Run) -> Outcome:
    """Keeps the end of what the container wrote, sealed, as its Pod is about to go. A Node that doesn't give it is
    asked for half a minute; then it is lost with the Pod."""
    if run.stored.kept or run.job.namespace is None:
        return Done()
    pod = life.newest(await run.tools.objects.job_pods(run.namespace, run.name))
    if pod is None or not (pod.ended or pod.running):
        return Done()
    try:
        output = await _tail(run, pod)
    except KubeError as error:
        if error.reason not in ("not_found", "invalid") and _since_end(run) < OUTPUT_PATIENCE_MS:
            return Requeue(_OUTPUT_RETRY_S)
        log.warning("a Job's output is lost", extra={"job": run.job.id, "reason": str(error)})
        return Done()
    await run.note(output=output)
    return Done()


async def remove_objects(run: Run) -> Outcome:
    """Deletes our own objects, each by its UID, and waits until they and the Pod are gone."""
    if run.job.namespace is None:
        return Done()
    job_gone = await _remove(run, "Job", run.job.job_uid)
    secret_gone = await _remove(run, "Secret", run.job.secret_uid)
    pods = await run.tools.objects.job_pods(run.namespace, run.name)
    for pod in pods:
        if job_gone and not pod.deleting:  # no owner takes it along
            await run.tools.objects.delete("Pod", pod.namespace, pod.name, pod.uid)
    return Done() if job_gone and secret_gone and not pods else Requeue(_LOOK_AGAIN_S)


async def let_go(run: Run) -> Outcome:
    """Nothing native is left: the pool may go as well now."""
    await run.end(KIND)
    return Done()


async def sweep(run: Run) -> Outcome:
    """A Job that was made by a request whose answer never came, after the run was cleaned up, is deleted."""
    if run.tools.view.synced and run.tools.view.job(run.name) is not None and run.job.namespace is not None:
        await _remove(run, "Job", run.job.job_uid)
    return Done()


async def _remove(run: Run, kind: str, uid: str | None) -> bool:
    """True once there is no such object of ours. One whose UID was never recorded is known by its owner and intent."""
    objects = run.tools.objects
    found = await objects.find(kind, run.namespace, run.name)
    if found is None or not (found.uid == uid or found.ours):
        return True
    await objects.delete(kind, run.namespace, run.name, found.uid)
    return await objects.find(kind, run.namespace, run.name) is None


async def _tail(run: Run, pod: JobPodFact) -> bytes:
    """The last whole lines, as many as are kept."""
    lines: deque[bytes] = deque()
    size = 0
    reading = run.tools.logs.lines(pod.namespace, pod.name, tail=KEPT_LINES, previous=False, follow=False)
    async for text in reading:
        line = text.encode()[-KEPT_BYTES:] + b"\n"
        lines.append(line)
        size += len(line)
        while size > KEPT_BYTES and len(lines) > 1:
            size -= len(lines.popleft())
    return b"".join(lines)


def _since_end(run: Run) -> int:
    ended_at = run.job.completed_at or run.job.cancel_requested_at or 0
    return run.tools.clock.now_ms() - ended_at
