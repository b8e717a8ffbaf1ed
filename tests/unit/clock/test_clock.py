"""Stepped time: wakes in order, exactly, and only when stepped."""

from __future__ import annotations

import asyncio
import time

from anycloud_common.clock import ManualClock, SystemClock


async def test_sleepers_wake_in_order_of_their_time_and_each_sees_its_own_as_now() -> None:
    clock = ManualClock(start_ms=1_000)
    woken: list[tuple[str, int]] = []

    async def sleeper(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append((name, clock.now_ms()))

    tasks = [asyncio.create_task(sleeper(*args)) for args in (("c", 3), ("a", 1), ("b1", 2), ("b2", 2))]
    await clock.advance(2)
    assert woken == [("a", 2_000), ("b1", 3_000), ("b2", 3_000)]
    await clock.advance(0.999)
    assert len(woken) == 3
    await clock.advance(0.001)
    assert woken[3:] == [("c", 4_000)]
    await asyncio.gather(*tasks)


async def test_one_step_wakes_a_loop_as_often_as_it_falls_asleep_within_it() -> None:
    clock = ManualClock()
    ticks: list[float] = []

    async def loop() -> None:
        while True:
            await clock.sleep(10)
            ticks.append(clock.monotonic())

    task = asyncio.create_task(loop())
    await clock.advance(35)
    assert ticks == [10, 20, 30] and clock.monotonic() == 35
    task.cancel()


async def test_ten_steps_of_a_tenth_are_one_second() -> None:
    clock = ManualClock()
    task = asyncio.create_task(clock.sleep(1))
    for _ in range(10):
        assert not task.done()
        await clock.advance(0.1)
    await asyncio.wait_for(task, 1)


async def test_a_cancelled_sleeper_is_forgotten() -> None:
    clock = ManualClock()
    task = asyncio.create_task(clock.sleep(5))
    await clock.sleeping(1)
    task.cancel()
    await asyncio.wait([task])
    assert clock.sleepers == 0
    await clock.advance(10)
    assert clock.monotonic() == 10


async def test_a_sleeper_that_comes_by_way_of_a_thread_can_be_waited_for() -> None:
    clock = ManualClock()

    async def works_then_sleeps() -> None:
        await asyncio.to_thread(time.sleep, 0.02)
        await clock.sleep(5)

    task = asyncio.create_task(works_then_sleeps())
    await clock.sleeping(1)
    await clock.advance(5)
    await asyncio.wait_for(task, 1)


async def test_to_sleep_for_nothing_lets_others_run() -> None:
    for clock in (ManualClock(), SystemClock()):
        ran: list[bool] = []
        asyncio.get_running_loop().call_soon(ran.append, True)
        await clock.sleep(0)
        await clock.sleep(-1)
        assert ran == [True]


def test_the_system_clock_is_the_machines_time_in_milliseconds() -> None:
    assert abs(SystemClock().now_ms() - time.time() * 1000) < 1000
