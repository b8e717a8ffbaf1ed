"""Budgets and throttles: none is set, none can be, and removing one is done already."""

from __future__ import annotations

from typing import Any

import pytest
from anycloud_common.errors import NotAvailable
from anycloud_common.rest import Invalid
from anycloud_deployment.rpc.spend import SpendService
from anycloudapi.deployment.v1 import spend_pb2

from tests.support.operations import Answer, Operation
from tests.unit.deployment.rig import NO_CONTEXT

SERVICE = spend_pb2.DESCRIPTOR.services_by_name["Spend"]


async def call(method: str, body: Any = None, **params: str) -> Answer:
    operation = Operation(SERVICE, method)
    return operation.answer(await getattr(SpendService(), method)(operation.request(body, **params), NO_CONTEXT))


async def test_there_are_no_budgets() -> None:
    assert await call("ListBudgets") == (200, {"entries": [], "spend": []})


async def test_there_are_no_throttles_and_nothing_burns() -> None:
    burning = {"account": {"currentUsd": 0}}
    assert await call("ListThrottles") == (200, {"entries": [], "burnRate": burning})


@pytest.mark.parametrize("period", ["day", "week", "month"])
@pytest.mark.parametrize("scope", ["account", "agent-session"])
async def test_removing_is_done_and_setting_is_not_available(period: str, scope: str) -> None:
    assert await call("UnsetBudget", period=period, scope=scope) == (204, None)
    assert await call("UnsetThrottle", scope=scope) == (204, None)
    with pytest.raises(NotAvailable, match="Budgets aren't available"):
        await call("SetBudget", {"capUsd": 10}, period=period, scope=scope)
    with pytest.raises(NotAvailable, match="Throttles aren't available"):
        await call("SetThrottle", {"capUsd": 10}, scope=scope)


@pytest.mark.parametrize(
    ("method", "body", "params", "text"),
    [
        ("SetThrottle", {"capUsd": 0}, {"scope": "account"}, "capUsd: must be an integer"),
        ("SetThrottle", {}, {"scope": "account"}, "capUsd: is required"),
        ("UnsetBudget", None, {"period": "year", "scope": "account"}, "period: must be one of day, week, month"),
        ("UnsetThrottle", None, {"scope": "all"}, "scope: must be one of account, agent-session"),
    ],
)
async def test_a_misshapen_request_is_refused(method: str, body: Any, params: dict[str, str], text: str) -> None:
    with pytest.raises(Invalid) as refused:
        await call(method, body, **params)
    assert str(refused.value).startswith(text)
