"""What a starting supervisor tells whoever started it: one JSON object a line."""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any


class Reports:
    """Lines to a descriptor, until `close`; whoever reads may be gone at any time. None tells nobody."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    def step(self, name: str, state: str, text: str) -> None:
        self._send({"step": name, "state": state, "text": text})

    def serving(self, url: str, pid: int, sandbox: bool, already: bool) -> None:
        self._send({"url": url, "pid": pid, "sandbox": sandbox, "alreadyRunning": already})
        self.close()

    def failed(self, sentence: str) -> None:
        self._send({"failed": sentence})
        self.close()

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _send(self, report: dict[str, Any]) -> None:
        if self._descriptor is not None:
            with contextlib.suppress(BrokenPipeError):
                os.write(self._descriptor, (json.dumps(report) + "\n").encode())
