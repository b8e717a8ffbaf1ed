"""What stands before the APIs on real control planes: a record's URL leads to the machine that the record names."""

import asyncio
import contextlib
import logging
from typing import Any
from urllib.parse import urlsplit

log = logging.getLogger(__name__)
API_PORT, CHUNK = 8080, 1 << 16


class Doors:
    """One listener a record (`url`, `address`), which copies bytes in both directions."""

    def __init__(self) -> None:
        self._addresses: dict[str, str] = {}
        self._open: dict[str, asyncio.Server] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def follow(self, name: str, record: dict[str, Any] | None) -> None:
        """A record came, changed or went."""
        if record:
            self._addresses[name] = record["address"]
        task = asyncio.create_task(self._set(name, record))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _set(self, name: str, record: dict[str, Any] | None) -> None:
        if record is None:
            if server := self._open.pop(name, None):
                server.close()
        elif name not in self._open:
            at = urlsplit(record["url"])
            try:
                self._open[name] = await asyncio.start_server(
                    lambda *ends: self._pass(name, *ends), at.hostname, at.port
                )
            except OSError as error:
                log.error("%s is not served: %s", record["url"], error)

    async def _pass(self, name: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            inner, outer = await asyncio.open_connection(self._addresses[name], API_PORT)
            await asyncio.gather(_copy(reader, outer), _copy(inner, writer))
        writer.close()

    def close(self) -> None:
        for server in self._open.values():
            server.close()


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    try:
        while chunk := await source.read(CHUNK):
            target.write(chunk)
            await target.drain()
    except OSError:
        pass
    finally:
        target.close()
