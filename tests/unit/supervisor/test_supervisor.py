"""Order of start and stop, restarts, and what happens to processes that misbehave."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from anycloud_common.clock import Clock, ManualClock, SystemClock
from anycloud_supervisor import leftovers
from anycloud_supervisor.failures import SupervisorError
from anycloud_supervisor.identity import Identity
from anycloud_supervisor.plan import Action, Probe, ProcessSpec, Step
from anycloud_supervisor.record import Record
from anycloud_supervisor.supervisor import Supervisor

ENV = {"PATH": os.environ["PATH"]}
PATIENCE = 10.0


class World:
    """A directory for the scripts' marks, and the supervisors made in a test."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.made: list[Supervisor] = []

    def process(
        self,
        name: str,
        script: str = "exec sleep 100",
        *,
        task: bool = False,
        stop_seconds: float = 5.0,
        before_stop: Action | None = None,
        start_seconds: float = 60.0,
        answers: Probe | None = None,
    ) -> ProcessSpec:
        """A shell script as a process: it is ready once it has made the file `<name>.ready`."""
        mark = self.directory / f"{name}.ready"

        async def ready() -> bool:
            return mark.exists()

        line = f"echo {name} >> started; {script}" if task else f"echo {name} >> started; touch {mark}; {script}"
        return ProcessSpec(
            name,
            ["/bin/sh", "-c", f"cd {self.directory}; {line}"],
            ENV,
            None if task else ready,
            start_seconds,
            stop_seconds,
            before_stop,
            answers,
        )

    def supervisor(self, *steps: Step, clock: Clock | None = None) -> Supervisor:
        clock = clock or SystemClock()
        record = Record(self.directory / "state.json", {}, clock)
        made = Supervisor(steps, record, clock, self.directory / "logs", self.tell)
        self.made.append(made)
        return made

    def tell(self, name: str, state: str, text: str) -> None:
        with (self.directory / "told").open("a") as file:
            file.write(f"{name} {state}\n")

    def lines(self, name: str) -> list[str]:
        path = self.directory / name
        return path.read_text().split("\n")[:-1] if path.exists() else []

    def facts(self, name: str) -> dict[str, Any]:
        processes = json.loads((self.directory / "state.json").read_text())["processes"]
        found: dict[str, Any] = next(process for process in processes if process["name"] == name)
        return found

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():  # noqa: ASYNC110  (a file's content tells of nothing)
                await asyncio.sleep(0.01)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    made = World(tmp_path)
    yield made
    for supervisor in made.made:
        await supervisor.stop()


async def test_a_step_begins_when_the_one_before_is_ready_and_its_action_done(world: World) -> None:
    async def act() -> None:
        (world.directory / "started").open("a").write("action\n")

    steps = [Step([world.process("a"), world.process("b")], then=act), Step([world.process("c")])]
    await world.supervisor(*steps).start()
    started = world.lines("started")
    assert sorted(started[:2]) == ["a", "b"]
    assert started[2:] == ["action", "c"]
    assert world.lines("told")[-1] == "c done"


async def test_every_running_process_is_on_record_with_pid_and_start_time(world: World) -> None:
    await world.supervisor(Step([world.process("a")])).start()
    facts = world.facts("a")
    identity = Identity.from_record(facts)
    assert identity is not None
    assert identity.alive
    assert (facts["state"], facts["restarts"], facts["lastExit"]) == ("running", 0, None)


async def test_a_task_has_to_end_well_before_the_next_step(world: World) -> None:
    steps = [Step([world.process("migrate", "sleep 0.1; echo migrated >> started", task=True)])]
    await world.supervisor(*steps, Step([world.process("a")])).start()
    assert world.lines("started") == ["migrate", "migrated", "a"]
    assert world.facts("migrate")["state"] == "done"


async def test_the_sentence_of_a_failing_task_is_passed_on(world: World) -> None:
    task = world.process("migrate", "echo The database is newer than this build. >&2; exit 1", task=True)
    with pytest.raises(SupervisorError, match=r"^migrate didn't start: The database is newer than this build\.$"):
        await world.supervisor(Step([task]), Step([world.process("a")])).start()
    assert world.lines("started") == ["migrate"]


async def test_a_process_that_refuses_to_start_ends_the_start_with_its_sentence(world: World) -> None:
    refusing = ProcessSpec("a", ["/bin/sh", "-c", "echo Real credentials are here. >&2; exit 3"], ENV, _never)
    with pytest.raises(SupervisorError, match=r"^a didn't start: Real credentials are here\.$"):
        await world.supervisor(Step([refusing, world.process("b")])).start()


async def test_a_program_that_is_not_there_ends_the_start(world: World) -> None:
    with pytest.raises(SupervisorError, match=r"^a didn't start: .*not found"):
        await world.supervisor(Step([ProcessSpec("a", ["/no/such/program"], ENV, _never)])).start()


async def test_a_process_that_is_never_ready_ends_the_start_in_time(world: World) -> None:
    clock = ManualClock()
    silent = ProcessSpec("a", ["/bin/sleep", "100"], ENV, _never, start_seconds=20)
    start = asyncio.ensure_future(world.supervisor(Step([silent]), clock=clock).start())
    await clock.sleeping(2)
    await clock.advance(20)
    with pytest.raises(SupervisorError, match="a isn't ready after 20 s"):
        await start


async def _never() -> bool:
    return False


async def test_a_process_killed_while_it_starts_is_started_again(world: World) -> None:
    script = "test -e again || { touch again; kill -9 $$; }; touch up; exec sleep 100"

    async def ready() -> bool:
        return (world.directory / "up").exists()

    spec = ProcessSpec("a", ["/bin/sh", "-c", f"cd {world.directory}; {script}"], ENV, ready)
    await world.supervisor(Step([spec])).start()
    assert world.facts("a")["restarts"] == 1


async def test_a_process_that_dies_is_started_again_after_pauses_that_double(world: World) -> None:
    clock = ManualClock()
    supervisor = world.supervisor(Step([world.process("a")]), clock=clock)
    start = asyncio.ensure_future(supervisor.start())
    while not start.done():
        await clock.sleeping(1)
        await clock.advance(0.05)
        await asyncio.sleep(0.01)
    for restarts, pause in enumerate((0.5, 1.0, 2.0), start=1):
        former = world.facts("a")["pid"]
        os.kill(former, signal.SIGKILL)
        await world.until(lambda: world.facts("a")["state"] == "backing off")
        await clock.sleeping(1)
        assert world.facts("a")["lastExit"]["reason"] == "killed by SIGKILL"
        await clock.advance(pause - 0.01)
        assert world.facts("a")["pid"] is None
        await clock.advance(0.01)
        await world.until(lambda: world.facts("a")["state"] == "running")
        assert world.facts("a")["pid"] != former
        assert world.facts("a")["restarts"] == restarts


async def test_a_process_that_hangs_is_killed_and_started_again(world: World) -> None:
    """Four health checks in a row without an answer; any answer before begins the count anew."""
    clock, said = ManualClock(), iter([False, False, False, True, False, False, False, False])

    async def answers() -> bool:
        return next(said, True)

    start = asyncio.ensure_future(world.supervisor(Step([world.process("a", answers=answers)]), clock=clock).start())
    while not start.done():
        await clock.sleeping(1)
        await clock.advance(0.05)
        await asyncio.sleep(0.01)
    former = world.facts("a")["pid"]
    for _ in range(8):
        assert world.facts("a")["pid"] == former
        await clock.sleeping(1)
        await clock.advance(10)
    await world.until(lambda: world.facts("a")["state"] == "backing off")
    assert world.facts("a")["lastExit"]["reason"] == "hung: no answer to 4 health checks"
    await clock.sleeping(1)
    await clock.advance(0.5)
    await world.until(lambda: world.facts("a")["restarts"] == 1)


async def test_stopping_goes_backwards_and_waits_for_each_step(world: World) -> None:
    script = "trap 'sleep 0.1; echo {0} >> stopped; exit 0' TERM; while :; do sleep 0.02; done"
    steps = [Step([world.process(name, script.format(name))]) for name in ("sandbox", "agent", "service")]
    supervisor = world.supervisor(*steps)
    await supervisor.start()
    await supervisor.stop()
    assert world.lines("stopped") == ["service", "agent", "sandbox"]
    assert {world.facts(name)["pid"] for name in ("sandbox", "agent", "service")} == {None}


async def test_a_process_that_ignores_sigterm_is_killed(world: World) -> None:
    stubborn = world.process("a", "trap '' TERM; while :; do sleep 0.02; done", stop_seconds=0.1)
    supervisor = world.supervisor(Step([stubborn]))
    await supervisor.start()
    pid = world.facts("a")["pid"]
    await supervisor.stop()
    assert Identity.of(pid) is None


async def test_a_drain_comes_before_sigterm_and_its_failure_holds_nothing_up(world: World) -> None:
    async def drain() -> None:
        (world.directory / "stopped").open("a").write("drained\n")
        raise OSError("the admin is gone")

    script = "trap 'echo ended >> stopped; exit 0' TERM; while :; do sleep 0.02; done"
    supervisor = world.supervisor(Step([world.process("envoy", script, before_stop=drain)]))
    await supervisor.start()
    await supervisor.stop()
    assert world.lines("stopped") == ["drained", "ended"]


async def test_stopping_during_a_pause_starts_nothing_more(world: World) -> None:
    clock = ManualClock()
    supervisor = world.supervisor(Step([world.process("a")]), clock=clock)
    start = asyncio.ensure_future(supervisor.start())
    while not start.done():
        await clock.sleeping(1)
        await clock.advance(0.05)
        await asyncio.sleep(0.01)
    os.kill(world.facts("a")["pid"], signal.SIGKILL)
    await world.until(lambda: world.facts("a")["state"] == "backing off")
    await supervisor.stop()
    await clock.advance(60)
    assert world.lines("started") == ["a"]
    assert world.facts("a")["state"] == "stopped"


async def test_what_cannot_be_recorded_is_not_started(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Record, name: str, **facts: object) -> None:
        if "started" in facts:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(Record, "process", full)
    with pytest.raises(SupervisorError, match="a didn't start: not started: No space left on device"):
        await world.supervisor(Step([world.process("a")])).start()
    assert world.lines("started") == []


def test_in_a_container_the_processes_end_with_a_killed_supervisor(tmp_path: Path) -> None:
    program = textwrap.dedent(
        f"""
        import asyncio
        from pathlib import Path
        from anycloud_common.clock import SystemClock
        from anycloud_supervisor.plan import ProcessSpec, Step
        from anycloud_supervisor.record import Record
        from anycloud_supervisor.supervisor import Supervisor

        async def ready(): return True

        async def main():
            record = Record(Path({str(tmp_path / "state.json")!r}), {{}}, SystemClock())
            steps = [Step([ProcessSpec("a", ["/bin/sleep", "100"], {{}}, ready)])]
            await Supervisor(steps, record, SystemClock()).start()
            print("started", flush=True)
            await asyncio.sleep(100)

        asyncio.run(main())
        """
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as supervisor:
        assert supervisor.stdout is not None
        supervisor.stdout.readline()
        facts = json.loads((tmp_path / "state.json").read_text())["processes"][0]
        identity = Identity.from_record(facts)
        assert identity is not None
        assert identity.alive
        supervisor.kill()
    assert leftovers.await_end([identity], PATIENCE)


def test_a_supervisor_killed_before_it_has_recorded_a_process_leaves_nothing_running(tmp_path: Path) -> None:
    program = textwrap.dedent(
        f"""
        import asyncio, os, signal
        from anycloud_supervisor.child import Child

        def killed(identity):
            open({str(tmp_path / "pid")!r}, "w").write(str(identity.pid))
            os.kill(os.getpid(), signal.SIGKILL)

        async def main():
            Child.start(["/bin/touch", {str(tmp_path / "ran")!r}], {{}}, None, killed)

        asyncio.run(main())
        """
    )
    done = subprocess.run([sys.executable, "-c", program], check=False, env={**os.environ}, timeout=30)
    assert done.returncode == -signal.SIGKILL
    identity = Identity.of(int((tmp_path / "pid").read_text()))
    assert identity is None or leftovers.await_end([identity], PATIENCE)
    assert not (tmp_path / "ran").exists()
