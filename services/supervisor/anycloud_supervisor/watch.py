"""Keeps one process running: starts it, waits until it is ready, and starts it again when it ends."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Awaitable
from typing import Any

from anycloud_common.clock import Clock

from anycloud_supervisor.backoff import Backoff
from anycloud_supervisor.child import Child, describe_exit
from anycloud_supervisor.failures import SupervisorError
from anycloud_supervisor.identity import Identity
from anycloud_supervisor.logs import LogFile
from anycloud_supervisor.plan import Probe, ProcessSpec
from anycloud_supervisor.record import Record

log = logging.getLogger(__name__)
_LOOK_SECONDS = 0.05
_HEALTH_SECONDS = 10.0
_MISSES = 4  # health checks in a row without an answer, each with a deadline of its own
_KILLED_SECONDS = 5.0
_DRAIN_SECONDS = 10.0


class Watched:
    """One process of the plan over all its runs. Without `log_file` it writes where the supervisor writes, and is
    killed with it: so it is in a container."""

    def __init__(self, spec: ProcessSpec, record: Record, clock: Clock, log_file: LogFile | None) -> None:
        self.spec = spec
        self._record = record
        self._clock = clock
        self._log = log_file
        self._backoff = Backoff()
        self._restarts = 0
        self._child: Child | None = None
        self._stopping = False
        self._hung = False
        self._keeper: asyncio.Task[None] | None = None
        self._note(pid=None, state="waiting", restarts=0, lastExit=None)

    async def start(self) -> None:
        """Returns when the process is ready for the first time, and goes on watching it; of a task, when it is done.

        Raises SupervisorError when it refuses to run or isn't ready in time."""
        if self.spec.ready is None:
            await self._run_task()
            return
        started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._keeper = asyncio.create_task(self._keep(started), name=self.spec.name)
        if not await within(self._clock, self.spec.start_seconds, started):
            raise SupervisorError(f"{self.spec.name} isn't ready after {self.spec.start_seconds:.0f} s.")

    async def stop(self) -> None:
        """Ends the process, with SIGKILL if it must be. The rest of its life is over afterwards."""
        self._stopping = True
        child = self._child
        if child is not None and not child.ended:
            self._note(state="stopping")
            await self._drain()
            child.signal(signal.SIGTERM)
            if not await within(self._clock, self.spec.stop_seconds, child.wait()):
                log.warning("killed, since it didn't end in time", extra={"child": self.spec.name})
                child.signal(signal.SIGKILL)
                await within(self._clock, _KILLED_SECONDS, child.wait())
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait({self._keeper})
        self._note(pid=None, started=None, boot=None, state="stopped")

    async def _drain(self) -> None:
        if self.spec.before_stop is None:
            return
        try:
            await asyncio.wait_for(self.spec.before_stop(), _DRAIN_SECONDS)
        except Exception as error:
            log.warning("drain failed", extra={"child": self.spec.name, "error": type(error).__name__})

    async def _run_task(self) -> None:
        try:
            child = self._launch()
        except OSError as error:
            raise self._refusal(error.strerror or str(error)) from error
        if not await within(self._clock, self.spec.start_seconds, child.wait()):
            child.signal(signal.SIGKILL)
            raise SupervisorError(f"{self.spec.name} isn't done after {self.spec.start_seconds:.0f} s.")
        code = await child.wait()
        self._ended(describe_exit(code), state="done" if code == 0 else "failed")
        if code != 0:
            raise self._refusal(describe_exit(code))

    async def _keep(self, started: asyncio.Future[None]) -> None:
        try:
            await self._run_for_ever(started)
        except Exception as error:
            log.critical("a process is no longer watched", extra={"child": self.spec.name}, exc_info=True)
            if not started.done():
                started.set_exception(error)

    async def _run_for_ever(self, started: asyncio.Future[None]) -> None:
        """Runs the process again and again. `started` gets the first readiness, or the refusal to start at all."""
        while True:
            begun = self._clock.monotonic()
            code, reason = await self._run_once(started)
            if self._stopping:
                return
            if not started.done() and code > 0:  # it said no itself; a signal is somebody else's doing
                self._ended(reason, state="failed")
                started.set_exception(self._refusal(reason))
                return
            pause = self._backoff.after(self._clock.monotonic() - begun)
            log.warning("ended", extra={"child": self.spec.name, "reason": reason, "again_in": pause})
            self._ended(reason, state="backing off")
            await self._clock.sleep(pause)
            self._restarts += 1

    async def _run_once(self, started: asyncio.Future[None]) -> tuple[int, str]:
        try:
            child = self._launch()
        except OSError as error:  # not on record, so not started
            return 1, f"not started: {error.strerror or error}"
        self._hung = False
        prober = asyncio.create_task(self._look_after(child, started))
        try:
            code = await child.wait()
        finally:
            prober.cancel()
        return code, f"hung: no answer to {_MISSES} health checks" if self._hung else describe_exit(code)

    async def _look_after(self, child: Child, started: asyncio.Future[None]) -> None:
        await self._probe(child, started)
        if self.spec.answers is not None:
            await self._end_hung(child, self.spec.answers)

    async def _end_hung(self, child: Child, answers: Probe) -> None:
        """A process that runs and does nothing is killed, so that it starts again."""
        misses = 0
        while not child.ended and not self._stopping:
            await self._clock.sleep(_HEALTH_SECONDS)
            misses = 0 if await self._holds(answers) else misses + 1
            if misses == _MISSES and not child.ended and not self._stopping:
                self._hung = True
                child.signal(signal.SIGKILL)

    async def _probe(self, child: Child, started: asyncio.Future[None]) -> None:
        while not child.ended:
            assert self.spec.ready is not None
            if await self._holds(self.spec.ready):
                self._note(state="running")
                if not started.done():
                    started.set_result(None)
                return
            await self._clock.sleep(_LOOK_SECONDS)

    async def _holds(self, probe: Probe) -> bool:
        try:
            return await probe()
        except Exception:
            log.exception("probe failed", extra={"child": self.spec.name})
            return False

    def _launch(self) -> Child:
        output = None if self._log is None else self._log.open()
        try:
            self._child = Child.start(self.spec.argv, self.spec.env, output, self._begun, bound=output is None)
        finally:
            if output is not None:
                os.close(output)
        return self._child

    def _begun(self, identity: Identity) -> None:
        facts = {**identity._asdict(), "state": "starting", "restarts": self._restarts, "since": self._clock.now_ms()}
        self._record.process(self.spec.name, **facts)

    def _ended(self, reason: str, state: str) -> None:
        last = {"reason": reason, "at": self._clock.now_ms()}
        self._note(pid=None, started=None, boot=None, state=state, lastExit=last)

    def _note(self, **facts: Any) -> None:
        """Writes facts down. Not being able to is no reason to give up a process that runs."""
        try:
            self._record.process(self.spec.name, **facts)
        except OSError as error:
            log.warning("state file not written", extra={"child": self.spec.name, "error": error.strerror})

    def _refusal(self, reason: str) -> SupervisorError:
        words = self._log.last_words() if self._log is not None else None
        return SupervisorError(f"{self.spec.name} didn't start: {words or reason}")


async def within(clock: Clock, seconds: float, awaited: Awaitable[Any]) -> bool:
    """Whether `awaited` is done in time; it is left alone when it isn't. Its exception is raised."""
    work = asyncio.ensure_future(awaited)
    alarm = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait({work, alarm}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            return False
        work.result()
        return True
    finally:
        alarm.cancel()
