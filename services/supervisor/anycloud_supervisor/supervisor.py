"""Carries out a plan: step after step, then watching, then everything back in reverse order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any

from anycloud_common.clock import Clock

from anycloud_supervisor.logs import LogFile
from anycloud_supervisor.plan import ProcessSpec, Step
from anycloud_supervisor.record import Record
from anycloud_supervisor.watch import Watched

Tell = Callable[[str, str, str], None]
"""Progress: the process, `starting`, `done` or `failed`, and a word about it."""


class Supervisor:
    """The processes of one installation. Without `logs` they write where the supervisor writes, and are killed with
    it when it is killed."""

    def __init__(
        self, steps: Sequence[Step], record: Record, clock: Clock, logs: Path | None = None, tell: Tell | None = None
    ) -> None:
        self._steps = steps
        self._record = record
        self._clock = clock
        self._logs = logs
        self._tell = tell or (lambda name, state, text: None)
        self._watched: list[list[Watched]] = []

    async def start(self) -> None:
        """Returns when everything is ready. Raises SupervisorError of the first process that isn't to be had; what
        was started by then goes on until `stop`."""
        for step in self._steps:
            watched = [self._watch(spec) for spec in step.processes]
            self._watched.append(watched)
            await _all(self._start(process) for process in watched)
            if step.then is not None:
                await step.then()

    async def stop(self) -> None:
        """Ends the processes, the last step's first, those of one step together."""
        for watched in reversed(self._watched):
            await asyncio.gather(*(process.stop() for process in watched))

    def _watch(self, spec: ProcessSpec) -> Watched:
        log_file = None if self._logs is None else LogFile(self._logs / f"{spec.name}.log")
        return Watched(spec, self._record, self._clock, log_file)

    async def _start(self, process: Watched) -> None:
        name = process.spec.name
        self._tell(name, "starting", "starting")
        try:
            await process.start()
        except Exception:
            self._tell(name, "failed", "failed")
            raise
        self._tell(name, "done", "done" if process.spec.ready is None else "ready")


async def _all(starts: Iterable[Coroutine[Any, Any, None]]) -> None:
    """All at once; the first failure ends the waiting for the others, and is raised."""
    tasks = [asyncio.ensure_future(start) for start in starts]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
