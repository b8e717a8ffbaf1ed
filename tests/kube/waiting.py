"""Waiting for what a server does by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

Found = TypeVar("Found")


async def until(ask: Callable[[], Awaitable[Found | None]], seconds: float = 30) -> Found:
    """The first true answer, asked ten times a second. Raises TimeoutError."""
    async with asyncio.timeout(seconds):
        while not (found := await ask()):  # noqa: ASYNC110  (a server can only be asked)
            await asyncio.sleep(0.1)
    return found
