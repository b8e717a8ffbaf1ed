"""An image Job under any order of events, requests, restarts and kills: what must hold whatever happens."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from anycloud_common.errors import ApiError
from anycloud_common.kube import KubeError
from anycloud_deployment.domain.image_jobs import TERMINAL
from anycloud_deployment.store import image_jobs
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.deployment.fakes import NODE, Killed
from tests.unit.deployment.rig import Rig
from tests.unit.deployment.test_admission import STEPS, killed_at, settle

EVENTS = (
    "pass",
    "place",
    "run",
    "exit 0",
    "exit 1",
    "lose the node",
    "somebody removes the job",
    "terminate",
    "resubmit",
    "restart",
    "cluster away",
    "cluster back",
    "killed after a write",
    "an hour",
    "the kubelet is done",
)


class Story:
    """One Job's, told event by event, with what was ever seen of it."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.ends: dict[int, str] = {}
        rig.cluster.slow_kubelets = True

    async def tell(self, event: str) -> None:
        rig, job = self.rig, (await self.rig.image_job("job-1")).job
        pods = rig.cluster.job_pods_of.get(job.run, [])
        alive = [pod for pod in pods if not pod.ended and not pod.deleting]
        match event:
            case "place" if alive:
                rig.cluster.set_pod(job.run, node=NODE.name)
            case "run" if alive and not alive[0].running:
                rig.cluster.run_pod(job.run)
            case "exit 0" | "exit 1" if alive and alive[0].running:
                rig.cluster.end_pod(job.run, int(event[-1]), over=job.run in rig.cluster.batch)
            case "lose the node" if alive and job.run in rig.cluster.batch:
                rig.cluster.set_pod(job.run, failed="its Node is gone", deleting=True)
                rig.cluster.set_job(job.run, over="failed", why="BackoffLimitExceeded")
            case "somebody removes the job" if job.run in rig.cluster.batch and not rig.cluster.error:
                rig.cluster.remove_job(job.run)
            case "terminate":
                await rig.terminate("job-1")
            case "resubmit":
                await self._resubmit()
            case "restart":
                await rig.restart()
            case "cluster away":
                rig.cluster.error = KubeError("unreachable", "no route")
            case "cluster back":
                rig.cluster.error = None
            case "killed after a write":
                rig.cluster.lives = 1
            case "the kubelet is done":
                rig.cluster.kubelet_is_done(job.run)
            case "an hour":
                await rig.clock.advance(3600)
        await self.step()

    async def step(self) -> None:
        run = (await self.rig.image_job("job-1")).job.run
        try:
            await self.rig.pass_over(run)
        except Killed:
            await self.rig.restart()
        await self.check()

    async def _resubmit(self) -> None:
        try:
            await self.rig.resubmit("job-1")
        except ApiError as error:
            assert error.code == "WORKLOAD_MANAGEMENT_CONFLICT"

    async def check(self) -> None:
        rig, stored = self.rig, await self.rig.image_job("job-1")
        job = stored.job
        assert all(count == 1 for count in Counter(rig.cluster.started).values()), "a run's container starts once"
        assert rig.cluster.made["Job"] <= job.submission_revision + 1, "each run's Job is made once"
        if job.over:
            assert self.ends.setdefault(job.submission_revision, job.state) == job.state, "a terminal state stays"
        if job.cleaned_at is not None:
            assert job.state in TERMINAL
            assert not [key for key in rig.cluster.objects if key[2] == job.run], "nothing is left"
            assert not rig.cluster.job_pods_of.get(job.run)

    async def finish(self) -> None:
        """However it came about, it can be brought to its end, and the pool gets everything back."""
        self.rig.cluster.error = self.rig.cluster.lives = None
        await self.rig.terminate("job-1")
        for _ in range(4):
            await self.step()
            self.rig.cluster.kubelet_is_done((await self.rig.image_job("job-1")).job.run)
        assert (await self.rig.image_job("job-1")).job.cleaned_at is not None
        await settle(self.rig)
        assert not self.rig.holds.held
        assert not await self.rig.store.read(image_jobs.unclean)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.sampled_from(EVENTS), min_size=4, max_size=25))
def test_no_order_of_events_runs_a_job_twice_or_leaves_something_behind(events: list[str]) -> None:
    async def story() -> None:
        with tempfile.TemporaryDirectory() as directory:
            rig = Rig(Path(directory))
            try:
                await rig.submit_image(time_limit=1800)
                told = Story(rig)
                for event in events:
                    await told.tell(event)
                await told.finish()
            finally:
                await rig.close()

    asyncio.run(story())


@pytest.mark.parametrize("lives", range(1, 7))
async def test_killed_after_any_write_each_object_is_made_once_and_nothing_is_left(rig: Rig, lives: int) -> None:
    run = await rig.submit_image()
    rig.cluster.lives = lives
    for _ in range(8):
        try:
            await rig.pass_over(run)
            if rig.cluster.job_pods_of.get(run) and run not in rig.cluster.started:
                rig.cluster.run_pod(run)
            elif rig.cluster.job_pods_of.get(run):
                await rig.terminate("job-1")
        except Killed:
            await rig.restart()
    assert await rig.state("job-1") == "terminated"
    assert (rig.cluster.made["Job"], rig.cluster.started, rig.cluster.objects) == (1, [run], {})


@pytest.mark.req("WK-006", "DP-032")
@pytest.mark.parametrize("step", STEPS)
async def test_a_killed_submission_leaves_both_job_and_hold_or_neither(rig: Rig, step: str) -> None:
    await killed_at(rig, step, rig.submit_image())
    found = await rig.store.read(image_jobs.unclean)
    assert len(found) == len(rig.holds.held) == (1 if step == "after publishing" else 0)
    await rig.submit_image()
    assert len(rig.holds.held) == 1


@pytest.mark.parametrize("step", STEPS)
async def test_a_killed_resubmission_is_one_or_none(rig: Rig, step: str) -> None:
    run = await rig.submit_image()
    await rig.terminate("job-1")
    await rig.pass_over(run)
    await settle(rig)
    await killed_at(rig, step, rig.resubmit("job-1"))
    job = (await rig.image_job("job-1")).job
    begun = step == "after publishing"
    assert (job.submission_revision, len(rig.holds.held)) == ((1, 1) if begun else (0, 0))
    assert (job.run == run) is not begun
    assert job.state == ("queued" if begun else "terminated")
