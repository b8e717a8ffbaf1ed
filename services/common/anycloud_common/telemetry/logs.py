"""Log lines: one JSON object a line on stderr, with the request id of the call at hand, and without secrets.

Write `log.info("pool created", extra={"pool": pool_id})`: the message names the event, `extra` carries its fields.
"""

from __future__ import annotations

import logging
import re
import sys
from datetime import UTC, datetime
from typing import Any

import orjson

from anycloud_common import calls

_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}

# The second line of defence: what looks like a credential is masked, whoever logged it.
_SECRETS = re.compile(
    r"""
      (?P<key>-----BEGIN\ [A-Z ]*PRIVATE\ KEY-----).*?-----END\ [A-Z ]*PRIVATE\ KEY-----
    | (?P<scheme>\b[Bb]earer\s+)[A-Za-z0-9._~+/=-]+
    | (?P<prefix>\b(?:acapi_|gh[opsur]_|github_pat_))[A-Za-z0-9_-]+
    | (?P<jwt>\beyJ)[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*
    | (?P<k3s>\bK10)[0-9a-f]{64}::[^\s"\\]+
    """,
    re.VERBOSE | re.DOTALL,
)


def mask(text: str) -> str:
    """The text with everything that looks like a credential replaced by `***`."""
    return _SECRETS.sub(lambda found: f"{found[found.lastgroup or 0]}***", text)


class JsonLines(logging.Formatter):
    """One log record as one line of JSON."""

    def __init__(self, service: str) -> None:
        super().__init__()
        self._service = service

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "service": self._service,
            "event": record.getMessage(),
            "logger": record.name,
        }
        if (call := calls.peek()) is not None:
            line["request_id"] = call.request_id
        line.update((key, value) for key, value in vars(record).items() if key not in _STANDARD)
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return mask(orjson.dumps(line, default=str, option=orjson.OPT_NON_STR_KEYS).decode())


def configure(service: str) -> None:
    """Sends all log records of this process, from INFO up, to stderr as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines(service))
    logging.basicConfig(handlers=[handler], level=logging.INFO, force=True)
    logging.captureWarnings(True)
