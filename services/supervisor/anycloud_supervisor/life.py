"""An installation from its start to the signal that ends it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable

from anycloud_supervisor.failures import SupervisorError
from anycloud_supervisor.record import Record
from anycloud_supervisor.supervisor import Supervisor

log = logging.getLogger(__name__)


async def live(supervisor: Supervisor, record: Record, serving: Callable[[], None]) -> None:
    """Starts everything, calls `serving`, and returns after SIGTERM or SIGINT, when all is stopped again.

    Raises SupervisorError when it can't start, also with nothing left running."""
    told_to_stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, told_to_stop.set)
    start = asyncio.ensure_future(supervisor.start())
    told = asyncio.ensure_future(told_to_stop.wait())
    try:
        await asyncio.wait({start, told}, return_when=asyncio.FIRST_COMPLETED)
        if not start.done():
            raise SupervisorError("The start was interrupted.")
        start.result()
        record.phase("serving")
        log.info("serving")
        serving()
        await told
    finally:
        await _stop(supervisor, record, start)
        told.cancel()


async def _stop(supervisor: Supervisor, record: Record, start: asyncio.Future[None]) -> None:
    log.info("stopping")
    if not start.done():
        start.cancel()
        await asyncio.wait({start})
    with contextlib.suppress(OSError):  # a full disk doesn't keep us from stopping
        record.phase("stopping")
    await supervisor.stop()
    with contextlib.suppress(OSError):
        record.phase("stopped")
    log.info("stopped")
