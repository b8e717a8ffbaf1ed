"""A TCP relay in front of an API server, which cuts connections and loses answers on demand, TLS untouched."""

from __future__ import annotations

import asyncio
import contextlib
from types import TracebackType
from typing import Self

_CHUNK = 65536


class Relay:
    """`async with Relay(host, port) as relay`: clients connect to `relay.port` of the same host."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, 0
        self.closed = False  # while true, connections are refused
        self._target = port
        self._connections: set[asyncio.StreamWriter] = set()
        self._lose = False
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, self.host, 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()

    def cut(self) -> None:
        """Breaks all connections, as a network does."""
        for writer in self._connections:
            writer.transport.abort()
        self._connections.clear()

    def lose_next_answer(self) -> None:
        """The next bytes that a server sends are lost with their connection: the work was done, nobody hears of it.

        The connection must have been used before, or it is the TLS handshake that breaks."""
        self._lose = True

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self.closed:
                raise ConnectionRefusedError
            upstream, downstream = await asyncio.open_connection(self.host, self._target)
        except OSError:
            writer.transport.abort()
            return
        pair = {writer, downstream}
        self._connections |= pair
        with contextlib.suppress(OSError):
            async with asyncio.TaskGroup() as both:
                both.create_task(self._copy(reader, downstream, answers=False))
                both.create_task(self._copy(upstream, writer, answers=True))
        self._connections -= pair

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answers: bool) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(_CHUNK):
                if answers and self._lose:
                    self._lose = False
                    self.cut()
                    return
                writer.write(data)
                await writer.drain()
        writer.close()
