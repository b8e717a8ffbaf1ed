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
    life = asyncio.ensure_future(_live(name, settings, build))
    _cancel_on_signal(life)
    try:
        await life
        crashed = True
    except asyncio.CancelledError:
        crashed = False
    except Exception:
        log.critical("the service can't start", exc_info=True)
        crashed = True
    log.info("stopped")
    if crashed:
        raise SystemExit(1)


async def _live(name: str, settings: Settings, build: Callable[[ServerKit], Awaitable[None]]) -> None:
    """Ends by cancellation, or when a background task has crashed."""
    close_metrics = metrics.serve(settings.metrics_port)
    try:
        async with serving(name, settings, build) as kit:
            await kit.crashed.wait()
    finally:
        close_metrics()


def _cancel_on_signal(life: asyncio.Future[None]) -> None:
    """At the first signal only: Ctrl-C reaches the process from the terminal and again from its supervisor, and the
    second must not cut the orderly end."""
    loop = asyncio.get_running_loop()
    signals = (signal.SIGTERM, signal.SIGINT)

    def end() -> None:
        for each in signals:
            loop.add_signal_handler(each, lambda: None)
        life.cancel()

    for each in signals:
        loop.add_signal_handler(each, end)
