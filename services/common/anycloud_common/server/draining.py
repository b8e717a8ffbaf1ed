"""The end of a process, as handlers see it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


class Draining:
    """Begins once, when the process is told to stop, and never ends. Long-polls race it and answer "nothing yet"."""

    def __init__(self) -> None:
        self._begun = asyncio.Event()

    def begin(self) -> None:
        self._begun.set()

    @property
    def started(self) -> bool:
        return self._begun.is_set()

    async def wait(self) -> None:
        """Returns when draining begins."""
        await self._begun.wait()

    async def race(self, awaited: Awaitable[T]) -> T | None:
        """The result of `awaited`, or None when draining begins first; `awaited` is cancelled then, and when the
        caller is."""
        task = asyncio.ensure_future(awaited)
        drain = asyncio.ensure_future(self._begun.wait())
        try:
            await asyncio.wait({task, drain}, return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            drain.cancel()
            task.cancel()
