"""The batch Jobs of a cluster and their Pods, as watches report them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from anycloud_common.clock import Clock
from anycloud_common.kube import EventType, Kube, Object, Reflector, names

from anycloud_deployment.domain import facts
from anycloud_deployment.domain.model import JobFact, JobPodFact, NodeFact
from anycloud_deployment.domain.ports import View

_OF_JOBS = f"{names.LABEL_MANAGED_BY}={names.MANAGED_BY},{names.LABEL_JOB}"


class JobWorld:
    """Implements `JobView`. Nodes are those of the other view, which watches them already."""

    def __init__(self, kube: Kube, nodes: View, clock: Clock) -> None:
        self._nodes = nodes
        self._changed: Callable[[str], None] = lambda run: None
        self._jobs = Reflector(kube, "Job", None, _OF_JOBS, self._told, clock=clock)
        self._pods = Reflector(kube, "Pod", None, _OF_JOBS, self._pod_told, clock=clock)
        self._found: dict[str, JobFact] = {}
        self._by_run: dict[str, dict[str, JobPodFact]] = {}

    @property
    def synced(self) -> bool:
        return self._jobs.synced and self._pods.synced and self._nodes.synced

    def listen(self, changed: Callable[[str], None]) -> None:
        """From now on `changed` is called on the event loop with the run for each change of its objects."""
        self._changed = changed

    async def run(self) -> None:
        """Watches until cancelled."""
        async with asyncio.TaskGroup() as watching:
            watching.create_task(self._jobs.run())
            watching.create_task(self._pods.run())

    def job(self, run: str) -> JobFact | None:
        return self._found.get(run)

    def pods(self, run: str) -> list[JobPodFact]:
        return list(self._by_run.get(run, {}).values())

    def runs(self) -> list[str]:
        return list(self._by_run)

    def node(self, name: str) -> NodeFact | None:
        return self._nodes.node(name)

    def _told(self, _: EventType, old: Object | None, new: Object | None) -> None:
        run = _run_of(new or old)
        if new is None:
            self._found.pop(run, None)
        else:
            self._found[run] = facts.job(new)
        self._changed(run)

    def _pod_told(self, _: EventType, old: Object | None, new: Object | None) -> None:
        run = _run_of(new or old)
        pods = self._by_run.setdefault(run, {})
        if new is None:
            pods.pop((old or {})["metadata"]["uid"], None)
        else:
            pods[new["metadata"]["uid"]] = facts.job_pod(new)
        if not pods:
            del self._by_run[run]
        self._changed(run)


def _run_of(obj: Any) -> str:
    return str(obj["metadata"]["labels"][names.LABEL_JOB])
