"""What a run's objects say of it, and its time limit."""

from __future__ import annotations

from anycloud_common.reconcile import Done, Outcome, Requeue

from anycloud_deployment.domain import image_jobs as life
from anycloud_deployment.domain.image_jobs import Seen
from anycloud_deployment.domain.model import JobFact, JobPodFact
from anycloud_deployment.reconcile.image_jobs.run import Run


async def observe(run: Run) -> Outcome:
    """Takes over what was seen. A Job that runs too long is stopped; another pass comes when that is due."""
    now = run.tools.clock.now_ms
    await run.step(life.observed(run.job, await look(run), now=now()))
    await run.step(life.overdue(run.job, now=now()))
    due = run.job.overdue_at
    return Done() if due is None else Requeue(max(due - now(), 1) / 1000)


async def look(run: Run) -> Seen:
    """By the watches, but for what a late watch could get wrong: that the Job is gone, and how an ended Pod ended."""
    view, objects = run.tools.view, run.tools.objects
    job = await _job(run)
    pods = view.pods(run.name)
    pod = life.newest(pods)
    if (job is None or job.over is not None) and (pod is None or not pod.ended):
        pods = await objects.job_pods(run.namespace, run.name)
    return judged(run, job, pods)


def judged(run: Run, job: JobFact | None, pods: list[JobPodFact]) -> Seen:
    pod = life.newest(pods)
    node = run.tools.view.node(pod.node) if pod is not None and pod.node is not None else None
    return life.judge(job, pods, node)


async def _job(run: Run) -> JobFact | None:
    seen = run.tools.view.job(run.name)
    if seen is not None and seen.uid == run.job.job_uid:
        return seen
    found = await run.tools.objects.find("Job", run.namespace, run.name)
    return JobFact(found.uid, found.deleting) if found is not None and found.uid == run.job.job_uid else None
