"""Notifications: there is no channel, and none can be made."""

from __future__ import annotations

from typing import Any

import pytest
from anycloud_common.errors import ApiError, NotAvailable
from anycloud_common.rest import Invalid
from anycloud_deployment.rpc.notifications import NotificationsService
from anycloudapi.deployment.v1 import notifications_pb2

from tests.support.operations import Answer, Operation
from tests.unit.deployment.rig import NO_CONTEXT

SERVICE = notifications_pb2.DESCRIPTOR.services_by_name["Notifications"]
HOOK = "https://hooks.example/secret"


async def call(method: str, body: Any = None, **params: str) -> Answer:
    operation = Operation(SERVICE, method)
    handler = getattr(NotificationsService(), method)
    return operation.answer(await handler(operation.request(body, **params), NO_CONTEXT))


async def test_no_channel_is_configured() -> None:
    assert await call("ListChannels") == (200, [])


async def test_removing_what_is_not_there_removes_nothing() -> None:
    assert await call("DeleteChannel", channel="slack") == (200, {"removed": False})


async def test_a_channel_cannot_be_made_and_its_webhook_is_not_repeated() -> None:
    with pytest.raises(NotAvailable, match="Notifications aren't available") as refused:
        await call("SaveChannel", {"webhook": HOOK}, channel="slack")
    assert "hooks" not in str(refused.value)


@pytest.mark.parametrize("body", [None, {}])
async def test_a_channel_that_is_not_configured_cannot_be_tested(body: Any) -> None:
    with pytest.raises(ApiError, match="slack") as refused:
        await call("TestChannel", body, channel="slack")
    assert refused.value.code == "CHANNEL_NOT_CONFIGURED"


async def test_nothing_is_sent_to_a_webhook_either() -> None:
    with pytest.raises(NotAvailable) as refused:
        await call("TestChannel", {"webhook": HOOK}, channel="slack")
    assert "hooks" not in str(refused.value)


async def test_other_channels_are_none() -> None:
    with pytest.raises(Invalid, match="channel: must be one of slack"):
        await call("DeleteChannel", channel="pager")
    with pytest.raises(Invalid, match="webhook: is required"):
        await call("SaveChannel", {}, channel="slack")
