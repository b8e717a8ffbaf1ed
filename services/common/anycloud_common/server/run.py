"""The life of a service process."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable

from anycloud_common.server.kit import ServerKit, serving
from anycloud_common.settings import Settings
from anycloud_common.telemetry import logs, metrics

log = logging.getLogger(__name__)


async def run(name: str, settings: Settings, build: Callable[[ServerKit], Awaitable[None]]) -> None:
    """Serves until SIGTERM or SIGINT, and then returns.

    SystemExit(1) when the service can't start or a background task crashes; the reason is in the log.
    """
    logs.configure(name)
    close_metrics = metrics.serve(settings.metrics_port)
    life = asyncio.ensure_future(_live(name, settings, build))
    loop = asyncio.get_running_loop()
    for ending in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(ending, life.cancel)
    try:
        crashed = await life
    except asyncio.CancelledError:
        crashed = False
    except Exception:
        log.critical("the service can't start", exc_info=True)
        crashed = True
    finally:
        close_metrics()
    log.info("stopped")
    if crashed:
        raise SystemExit(1)


async def _live(name: str, settings: Settings, build: Callable[[ServerKit], Awaitable[None]]) -> bool:
    """Ends by cancellation, or with True when a background task has crashed."""
    async with serving(name, settings, build) as kit:
        await kit.crashed.wait()
    return True
