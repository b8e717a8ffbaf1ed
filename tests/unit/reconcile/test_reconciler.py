"""What a reconciler does with outcomes and errors."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from anycloud_common.clock import ManualClock
from anycloud_common.reconcile import Blocked, Done, Outcome, Reconciler, Requeue


@asynccontextmanager
async def running(reconciler: Reconciler) -> AsyncIterator[None]:
    task = asyncio.create_task(reconciler.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


def recorder(
    clock: ManualClock, *outcomes: Outcome | Exception
) -> tuple[list[float], Callable[[str], Awaitable[Outcome]]]:
    """A handler that goes through the outcomes, then answers Done, and the times of its passes."""
    times: list[float] = []
    script = list(outcomes)

    async def handle(_key: str) -> Outcome:
        times.append(clock.monotonic())
        outcome = script.pop(0) if script else Done()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return times, handle


async def test_a_pass_follows_a_mark_and_nothing_else() -> None:
    clock = ManualClock()
    times, handle = recorder(clock)
    reconciler = Reconciler("things", handle, clock)
    async with running(reconciler):
        await clock.advance(3600)
        assert times == []
        reconciler.mark("a")
        await clock.advance(3600)
        assert times == [3600]


async def test_requeue_comes_again_after_its_time() -> None:
    clock = ManualClock()
    times, handle = recorder(clock, Requeue(5), Requeue(0.5))
    reconciler = Reconciler("things", handle, clock)
    async with running(reconciler):
        reconciler.mark("a")
        await clock.advance(100)
    assert times == [0, 5, 5.5]


async def test_a_mark_comes_before_the_time_that_was_asked_for() -> None:
    clock = ManualClock()
    times, handle = recorder(clock, Requeue(60))
    reconciler = Reconciler("things", handle, clock)
    async with running(reconciler):
        reconciler.mark("a")
        await clock.advance(10)
        reconciler.mark("a")
        await clock.advance(300)
    assert times == [0, 10]


async def test_a_blocked_key_keeps_its_reason_until_it_goes_on() -> None:
    clock = ManualClock()
    times, handle = recorder(clock, Blocked("no sign-in"), Blocked("no quota", retry=30))
    reconciler = Reconciler("things", handle, clock)
    async with running(reconciler):
        reconciler.mark("a")
        await clock.advance(3600)
        assert times == [0] and reconciler.blocked == {"a": "no sign-in"}
        reconciler.mark("a")
        await clock.advance(29)
        assert times == [0, 3600] and reconciler.blocked == {"a": "no quota"}
        await clock.advance(1)
        assert times == [0, 3600, 3630] and reconciler.blocked == {}


async def test_a_mark_during_a_pass_causes_another_after_it() -> None:
    clock = ManualClock()
    go_on = asyncio.Event()
    passes: list[str] = []

    async def handle(_key: str) -> Outcome:
        passes.append("begun")
        await go_on.wait()
        passes.append("ended")
        return Done()

    reconciler = Reconciler("things", handle, clock)
    async with running(reconciler):
        reconciler.mark("a")
        await clock.advance(0)
        reconciler.mark("a")
        reconciler.mark("a")
        await clock.advance(10)
        assert passes == ["begun"]
        go_on.set()
        await clock.advance(0)
    assert passes == ["begun", "ended", "begun", "ended"]


async def test_a_failing_key_backs_off_from_one_second_to_sixty_and_others_go_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock()
    times: dict[str, list[float]] = {"bad": [], "good": []}

    async def handle(key: str) -> Outcome:
        times[key].append(clock.monotonic())
        if key == "bad":
            raise ValueError("broken")
        return Requeue(50)

    reconciler = Reconciler("things", handle, clock, workers=1)
    with caplog.at_level(logging.ERROR):
        async with running(reconciler):
            reconciler.mark("bad")
            reconciler.mark("good")
            await clock.advance(200)
    assert times["bad"] == [0, 1, 3, 7, 15, 31, 63, 123, 183]
    assert times["good"] == [0, 50, 100, 150, 200]
    assert "things: the pass over bad failed; the next one is in 1 s" in caplog.text


async def test_a_success_ends_the_back_off() -> None:
    clock = ManualClock()
    broken = ValueError("broken")
    times, handle = recorder(clock, broken, broken, Done(), broken)
    reconciler = Reconciler("things", handle, clock)
    async with running(reconciler):
        reconciler.mark("a")
        await clock.advance(10)
        reconciler.mark("a")
        await clock.advance(100)
    assert times == [0, 1, 3, 10, 11]


async def test_as_many_keys_are_handled_at_once_as_there_are_workers() -> None:
    clock = ManualClock()
    active: set[str] = set()
    most = 0

    async def handle(key: str) -> Outcome:
        nonlocal most
        active.add(key)
        most = max(most, len(active))
        await clock.sleep(1)
        active.discard(key)
        return Done()

    reconciler = Reconciler("things", handle, clock, workers=3)
    async with running(reconciler):
        for n in range(10):
            reconciler.mark(str(n))
        await clock.advance(3.5)
        assert most == 3 and len(active) == 1
        await clock.advance(1)
        assert not active


async def test_each_pass_is_reported_with_its_outcome_and_seconds() -> None:
    clock = ManualClock()
    seen: list[tuple[str, str, float]] = []
    script: list[Outcome | Exception] = [Requeue(1), Blocked("x", retry=1), ValueError("broken"), Done()]

    async def handle(_key: str) -> Outcome:
        await clock.sleep(0.25)
        outcome = script.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    reconciler = Reconciler("things", handle, clock, observe=lambda *args: seen.append(args))
    async with running(reconciler):
        reconciler.mark("a")
        await clock.advance(10)
    assert seen == [("things", outcome, 0.25) for outcome in ("requeue", "blocked", "error", "done")]


async def test_step_makes_one_pass_and_raises_its_error() -> None:
    clock = ManualClock()
    times, handle = recorder(clock, Requeue(5), ValueError("broken"))
    reconciler = Reconciler("things", handle, clock)
    reconciler.mark("a")
    assert await reconciler.step("a") == Requeue(5)
    with pytest.raises(ValueError, match="broken"):
        await reconciler.step("a")
    assert await reconciler.step("a") == Done()
    assert times == [0, 0, 0]


async def test_cancelling_the_reconciler_cancels_its_passes() -> None:
    clock = ManualClock()
    ended: list[str] = []

    async def handle(_key: str) -> Outcome:
        try:
            await clock.sleep(100)
        finally:
            ended.append("ended")
        return Done()

    reconciler = Reconciler("things", handle, clock)
    async with running(reconciler):
        reconciler.mark("a")
        await clock.advance(1)
    assert ended == ["ended"]
