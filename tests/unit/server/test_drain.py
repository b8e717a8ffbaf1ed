from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc
import pytest
from anycloud_common import errors
from anycloud_common.server import Draining, ServerKit, serving
from google.protobuf.empty_pb2 import Empty
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.unit.server import probe_api
from tests.unit.server.probe_api import GRPC, Probe, method, pb, rest_stream

SIBLING = (("anycloud-caller", "nodepool"),)


async def test_a_held_long_poll_answers_nothing_yet(runtime_dir: Path) -> None:
    probe = Probe()
    async with probe_api.channel(runtime_dir) as channel:
        async with serving("probe", probe_api.settings(runtime_dir), probe.build):
            call = probe_api.stubs.WorkStub(channel).Next(pb.NextRequest(wait_ms=20_000), metadata=GRPC)
            await probe.work.entered.wait()
        answer = await call
    assert not answer.HasField("thing")


async def test_short_calls_finish_before_the_process_ends(runtime_dir: Path) -> None:
    closed: list[str] = []
    go = asyncio.Event()

    class Slow(probe_api.Things):
        async def GetThing(self, request: Any, context: Any) -> Any:
            self.entered.set()
            await go.wait()
            assert closed == []
            return pb.Thing(name="done")

    things = Slow()

    async def build(kit: ServerKit) -> None:
        kit.authenticator = probe_api.OneToken()
        kit.add(probe_api.stubs.add_ThingsServicer_to_server, things)
        kit.on_close(note(closed, "store"))

    async with probe_api.channel(runtime_dir) as channel:
        async with serving("probe", probe_api.settings(runtime_dir), build) as kit:
            call = probe_api.stubs.ThingsStub(channel).GetThing(pb.GetThingRequest(name="a"), metadata=GRPC)
            await things.entered.wait()
            asyncio.get_running_loop().create_task(after_drain(kit, go))
        assert (await call).name == "done"
    assert closed == ["store"]


async def after_drain(kit: ServerKit, go: asyncio.Event) -> None:
    await kit.draining.wait()
    go.set()


async def test_streams_end_with_unavailable_so_that_clients_come_back(runtime_dir: Path) -> None:
    probe = Probe()
    async with probe_api.channel(runtime_dir) as channel:
        async with serving("probe", probe_api.settings(runtime_dir), probe.build):
            internal = probe_api.internal_stubs.SiblingsStub(channel).Follow(Empty(), metadata=SIBLING)
            assert (await internal.read()).text == "here -"
            lines = asyncio.create_task(rest_stream(channel, method("Things", "WatchThings"), prefix=["hold"]))
            await asyncio.sleep(0.1)
            began = asyncio.get_running_loop().time()
        assert asyncio.get_running_loop().time() - began < 5, "an open stream must not use up the grace of short calls"
        with pytest.raises(grpc.aio.AioRpcError) as ended:
            await internal.read()
        assert ended.value.code() == grpc.StatusCode.UNAVAILABLE
        first, last = await lines
    assert first.body["name"] == "first"
    assert last.body["error"]["code"] == "API_RESTARTING"


async def test_health_says_not_serving_while_calls_finish(runtime_dir: Path) -> None:
    seen: list[int] = []
    probe = Probe()
    async with probe_api.channel(runtime_dir) as channel:
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
        async with serving("probe", probe_api.settings(runtime_dir), probe.build) as kit:
            seen.append((await watch.read()).status)
            draining = asyncio.create_task(kit.stop())
            seen.append((await watch.read()).status)
            watch.cancel()
            await draining
    assert seen == [health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING]


def note(log: list[str], what: str) -> Any:
    async def write() -> None:
        log.append(what)

    return write


async def test_tasks_end_before_what_they_use_is_closed_last_opened_first(runtime_dir: Path) -> None:
    log: list[str] = []

    async def loop() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            log.append("task")

    async def build(kit: ServerKit) -> None:
        kit.on_close(note(log, "store"))
        kit.on_close(note(log, "cloud client"))
        kit.spawn(loop, "loop")

    async with serving("probe", probe_api.settings(runtime_dir), build) as kit:
        await asyncio.sleep(0)
    assert log == ["task", "cloud client", "store"]
    assert not kit.crashed.is_set()


async def test_what_was_opened_is_closed_when_the_start_fails(runtime_dir: Path) -> None:
    log: list[str] = []

    async def build(kit: ServerKit) -> None:
        kit.on_close(note(log, "store"))
        raise RuntimeError("no cloud")

    with pytest.raises(RuntimeError, match="no cloud"):
        async with serving("probe", probe_api.settings(runtime_dir), build):
            pass
    assert log == ["store"]


async def test_one_close_that_fails_does_not_keep_the_others(
    runtime_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log: list[str] = []

    async def broken() -> None:
        raise OSError("disk full")

    async def build(kit: ServerKit) -> None:
        kit.on_close(note(log, "store"))
        kit.on_close(broken)

    async with serving("probe", probe_api.settings(runtime_dir), build):
        pass
    assert log == ["store"]
    assert "disk full" in caplog.text


async def test_a_task_that_returns_does_not_end_the_process(runtime_dir: Path) -> None:
    async def build(kit: ServerKit) -> None:
        kit.spawn(note([], "once"), "once")

    async with serving("probe", probe_api.settings(runtime_dir), build) as kit:
        await asyncio.sleep(0)
        assert not kit.crashed.is_set()


async def test_a_race_gives_the_result_or_nothing_when_draining_is_first() -> None:
    draining = Draining()
    assert await draining.race(asyncio.sleep(0, "found")) == "found"
    cancelled = asyncio.Event()

    async def wait() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return "never"

    racing = asyncio.create_task(draining.race(wait()))
    await asyncio.sleep(0)
    assert not draining.started
    draining.begin()
    assert await racing is None
    await cancelled.wait()
    assert draining.started


async def test_a_race_passes_its_own_cancellation_on() -> None:
    cancelled = asyncio.Event()

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    racing = asyncio.create_task(Draining().race(wait()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    racing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await racing
    await asyncio.wait_for(cancelled.wait(), 5)


async def test_an_error_in_a_race_is_the_callers() -> None:
    async def fail() -> None:
        raise errors.ApiError("API_RESTARTING", "x")

    with pytest.raises(errors.ApiError):
        await Draining().race(fail())
