"""Waiting with an end, by the injected clock."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from anycloud_common.clock import Clock

T = TypeVar("T")


async def within(clock: Clock, seconds: float, awaited: Awaitable[T]) -> T | None:
    """The result of `awaited`, or None when it isn't there in so many seconds; `awaited` is cancelled then."""
    task = asyncio.ensure_future(awaited)
    pause = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait({task, pause}, return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        pause.cancel()
        task.cancel()
