"""The life of a whole process, as its supervisor sees it."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from tests.unit.server import probe_api
from tests.unit.server.probe_api import GRPC, pb

ROOT = Path(__file__).parents[3]


class Process:
    def __init__(self, made: asyncio.subprocess.Process) -> None:
        self.made = made
        self.lines: list[dict[str, Any]] = []

    async def until(self, event: str) -> dict[str, Any]:
        """Reads log lines up to one with that event."""
        assert self.made.stderr is not None
        async for raw in self.made.stderr:
            if raw.startswith(b"{"):
                self.lines.append(orjson.loads(raw))
                if self.lines[-1]["event"] == event:
                    return self.lines[-1]
        raise AssertionError(f"no line {event!r} among {self.lines}")


async def start(*args: object) -> Process:
    command = [sys.executable, "-m", "tests.unit.server.probe_service", *map(str, args)]
    return Process(await asyncio.create_subprocess_exec(*command, cwd=ROOT, stderr=asyncio.subprocess.PIPE))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_the_process_gently_with_code_0(runtime_dir: Path, ending: signal.Signals) -> None:
    process = await start(runtime_dir, 0)
    await process.until("serving")
    async with probe_api.channel(runtime_dir) as channel:
        call = probe_api.stubs.WorkStub(channel).Next(pb.NextRequest(wait_ms=20_000), metadata=GRPC)
        await process.until("held")
        process.made.send_signal(ending)
        assert not (await call).HasField("thing")
    await process.until("stopped")
    assert await process.made.wait() == 0


async def test_a_crashed_background_task_ends_the_process_with_code_1_and_its_reason(runtime_dir: Path) -> None:
    process = await start(runtime_dir, 0, "crash")
    line = await process.until("background task crashed; the process ends")
    assert (line["level"], line["task"], line["service"]) == ("critical", "reconciler", "probe")
    assert "the outcome of a commit is unknown" in line["traceback"]
    assert await process.made.wait() == 1


async def test_a_service_that_cannot_start_ends_with_code_1_and_its_reason(runtime_dir: Path) -> None:
    process = await start(runtime_dir, 0, "refuse")
    line = await process.until("the service can't start")
    assert "newer than this build" in line["traceback"]
    assert await process.made.wait() == 1


async def test_a_second_signal_does_not_cut_the_orderly_end(runtime_dir: Path) -> None:
    process = await start(runtime_dir, 0, "slow-close")
    await process.until("serving")
    process.made.terminate()
    await process.until("closing")
    process.made.terminate()
    process.made.send_signal(signal.SIGINT)
    await process.until("closed")
    assert await process.made.wait() == 0


async def test_a_port_for_metrics_that_is_taken_is_a_failed_start(runtime_dir: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        process = await start(runtime_dir, taken.getsockname()[1])
        line = await process.until("the service can't start")
        assert await process.made.wait() == 1
    assert "Address already in use" in line["traceback"]


async def test_a_signal_during_a_long_start_ends_it(runtime_dir: Path) -> None:
    process = await start(runtime_dir, 0, "hang")
    await process.until("building")
    process.made.terminate()
    assert await asyncio.wait_for(process.made.wait(), 5) == 0


async def test_metrics_count_calls_by_method_and_code(runtime_dir: Path) -> None:
    port = free_port()
    process = await start(runtime_dir, port)
    await process.until("serving")
    async with probe_api.channel(runtime_dir) as channel:
        stub = probe_api.stubs.ThingsStub(channel)
        await stub.GetThing(pb.GetThingRequest(name="a"), metadata=GRPC)
        await probe_api.rest(channel, probe_api.method("Things", "GetThing"), name=["raise-declared"])
    async with httpx.AsyncClient() as client:
        text = (await client.get(f"http://127.0.0.1:{port}/metrics")).text
    process.made.terminate()
    assert await process.made.wait() == 0
    path = "/anycloudapi.probe.v1.Things/GetThing"
    assert f'anycloud_requests_total{{code="OK",form="grpc",method="{path}"}} 1.0' in text
    assert f'anycloud_requests_total{{code="CLUSTER_NOT_FOUND",form="rest",method="{path}"}} 1.0' in text
    assert f'anycloud_requests_in_flight{{method="{path}"}} 0.0' in text
    assert f'anycloud_request_seconds_count{{method="{path}"}} 2.0' in text
