from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from anycloud_common.kube import Kube

from tests.unit.kube.api_server import ApiServer


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    yield ApiServer()


@pytest.fixture
async def kube(server: ApiServer) -> AsyncIterator[Kube]:
    runner = web.AppRunner(server.app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    kube = Kube.from_token(f"http://{host}:{port}", "", "the-token", deadline_s=5.0)
    yield kube
    await kube.close()
    await server.cut_watches()
    await runner.cleanup()
