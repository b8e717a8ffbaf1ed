"""A server that answers as a test tells it, and a running sandbox."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from aiohttp import web

from tests.support.sandbox import Sandbox


class Outside:
    """`answer` is (status, body, headers) of every call; `seen` are the requests."""

    def __init__(self) -> None:
        self.answer: tuple[int, Any, dict[str, str]] = (200, {}, {})
        self.seen: list[web.Request] = []
        self.url = ""

    async def handle(self, request: web.Request) -> web.Response:
        self.seen.append(request)
        status, body, headers = self.answer
        if isinstance(body, str):
            return web.Response(status=status, text=body, headers=headers)
        return web.json_response(body, status=status, headers=headers)


@pytest.fixture
async def outside() -> AsyncIterator[Outside]:
    outside = Outside()
    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", outside.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    outside.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield outside
    await runner.cleanup()


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    sandbox = Sandbox(tmp_path_factory.mktemp("world"), agent=False)
    sandbox.start_world()
    yield sandbox
    sandbox.stop()
