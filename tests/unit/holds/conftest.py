from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest
from anycloud_common.clock import ManualClock

from tests.unit.holds.caller import CallerService
from tests.unit.holds.parent import ParentService, add_pool

Eventually = Callable[[Callable[[], Awaitable[bool]]], Awaitable[None]]


async def soon(condition: Callable[[], Awaitable[bool]]) -> None:
    """Waits for threads and sockets, while the clock stands still."""
    async with asyncio.timeout(10):
        while not await condition():  # noqa: ASYNC110 - what is waited for is in a database
            await asyncio.sleep(0.005)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def parent(tmp_path: Path, clock: ManualClock) -> AsyncIterator[ParentService]:
    """Pools np-1 with 4 devices, and np-2 that doesn't count devices."""
    service = ParentService(tmp_path, clock)
    await service.start()
    await service.store.write(partial(add_pool, pool_id="np-1", devices=4))
    await service.store.write(partial(add_pool, pool_id="np-2", name="cpu"))
    yield service
    await service.close()


@pytest.fixture
async def caller(tmp_path: Path, clock: ManualClock, parent: ParentService) -> AsyncIterator[CallerService]:
    service = CallerService(tmp_path, clock, parent.stub)
    yield service
    await service.stop()


@pytest.fixture
def eventually(clock: ManualClock) -> Eventually:
    """Lets background work go on, a second of its clock at a time, until the condition holds."""

    async def wait(condition: Callable[[], Awaitable[bool]]) -> None:
        async def a_second_later() -> bool:
            await clock.advance(1)
            return await condition()

        await soon(a_second_later)

    return wait
