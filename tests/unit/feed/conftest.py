from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from anycloud_common.clock import ManualClock

from tests.unit.feed.follower import Follower
from tests.unit.feed.source import Source

Eventually = Callable[[Callable[[], Awaitable[bool]]], Awaitable[None]]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def source(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Source]:
    service = Source(tmp_path, clock)
    await service.start()
    yield service
    await service.close()


@pytest.fixture
async def follower(tmp_path: Path, clock: ManualClock, source: Source) -> AsyncIterator[Follower]:
    service = Follower(tmp_path, clock, source.stub)
    yield service
    await service.close()


async def soon(condition: Callable[[], Awaitable[bool]]) -> None:
    """Waits for threads and sockets, while the clock stands still."""
    async with asyncio.timeout(10):
        while not await condition():  # noqa: ASYNC110 - what is waited for is in a database
            await asyncio.sleep(0.005)


@pytest.fixture
def eventually(clock: ManualClock) -> Eventually:
    """Lets time pass, a second after the other, until the condition holds."""

    async def wait(condition: Callable[[], Awaitable[bool]]) -> None:
        async def a_second_later() -> bool:
            await clock.advance(1)
            return await condition()

        await soon(a_second_later)

    return wait
