from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import grpc
import pytest
from anycloud_common.clock import ManualClock
from anycloud_common.server import serving

from tests.unit.server import probe_api


@pytest.fixture
def runtime_dir() -> Iterator[Path]:
    """A short path: a socket's has 107 bytes at most."""
    with TemporaryDirectory(prefix="ac-") as made:
        yield Path(made) / "run"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def probe(runtime_dir: Path, clock: ManualClock) -> AsyncIterator[probe_api.Probe]:
    """The probe service on its socket."""
    made = probe_api.Probe()
    async with serving("probe", probe_api.settings(runtime_dir), made.build, clock):
        yield made


@pytest.fixture
async def channel(probe: probe_api.Probe, runtime_dir: Path) -> AsyncIterator[grpc.aio.Channel]:
    async with probe_api.channel(runtime_dir) as made:
        yield made
