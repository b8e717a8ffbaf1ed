from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from anycloud_common import calls
from anycloud_common.calls import Call, Principal
from anycloud_common.server import ServerKit, serving
from google.protobuf.empty_pb2 import Empty

from tests.unit.server import probe_api
from tests.unit.server.probe_api import Probe


async def nothing(kit: ServerKit) -> None:
    """A service without a servicer."""


@pytest.fixture
async def ask(probe: Probe, runtime_dir: Path) -> AsyncIterator[Any]:
    """The probe's internal method, asked by a service named `nodepool`; answers what it was told."""
    async with serving("nodepool", probe_api.settings(runtime_dir), nothing) as kit:
        yield probe_api.internal_stubs.SiblingsStub(kit.channel("probe")).Ask


def on_behalf_of(principal: Principal | None) -> None:
    calls.enter(Call(principal, "r-1", None, None, None, "/m", False, {}))


async def test_a_call_outside_of_a_request_is_the_services_own(ask: Any) -> None:
    kind, who, request_id, build, _ = (await ask(Empty())).text.split()
    assert (kind, who, build) == ("service", "nodepool", probe_api.VERSION)
    assert request_id


async def test_a_call_inside_a_request_is_made_for_its_caller_with_its_request_id(ask: Any) -> None:
    on_behalf_of(Principal("u-9", "demo", "user"))
    assert (await ask(Empty())).text.split()[:3] == ["user", "u-9", "r-1"]


async def test_the_install_tokens_account_stays_local(ask: Any) -> None:
    on_behalf_of(Principal("local", "local", "local", owner=True))
    assert (await ask(Empty())).text.split()[:2] == ["local", "local"]


async def test_a_call_for_a_sibling_stays_a_services_call(ask: Any) -> None:
    on_behalf_of(Principal("deployment", "deployment", "service"))
    assert (await ask(Empty())).text.split()[:3] == ["service", "nodepool", "r-1"]


async def test_a_unary_call_has_five_seconds_unless_it_says_otherwise(ask: Any) -> None:
    assert (await ask(Empty())).text.split()[4] == "5"
    assert (await ask(Empty(), timeout=60)).text.split()[4] == "60"


async def test_own_metadata_is_kept(ask: Any) -> None:
    on_behalf_of(None)
    assert (await ask(Empty(), metadata=(("x-request-id", "mine"),))).text.split()[2] == "mine"


async def test_a_stream_has_no_deadline(probe: Probe, runtime_dir: Path) -> None:
    async with serving("nodepool", probe_api.settings(runtime_dir), nothing) as kit:
        stream = probe_api.internal_stubs.SiblingsStub(kit.channel("probe")).Follow(Empty())
        assert (await stream.read()).text == "here -"
        stream.cancel()


async def test_one_channel_a_sibling_closed_with_the_process(runtime_dir: Path) -> None:
    async with serving("nodepool", probe_api.settings(runtime_dir), nothing) as kit:
        channel = kit.channel("cluster")
        assert kit.channel("cluster") is channel
        assert kit.channel("release") is not channel
    assert channel.get_state() == grpc.ChannelConnectivity.SHUTDOWN


async def test_a_sibling_that_is_away_is_told_at_once(runtime_dir: Path) -> None:
    async with serving("nodepool", probe_api.settings(runtime_dir), nothing) as kit:
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await probe_api.internal_stubs.SiblingsStub(kit.channel("probe")).Ask(Empty())
    assert failed.value.code() == grpc.StatusCode.UNAVAILABLE
