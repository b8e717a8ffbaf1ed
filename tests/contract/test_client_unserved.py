"""Families of the contract that this API doesn't serve: what is empty is told so, all else is refused with a reason."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.operations import OPERATIONS
from tests.contract.sdk import Judge
from tests.contract.world import Api, World

BY_NAME = {one.name: one for one in OPERATIONS}


@pytest.fixture(scope="module")
def job(world: World, parked: dict[str, Any]) -> Iterator[str]:
    made = world.hosted.ask("POST", "/workloads", {"deployment": parked["id"]})["id"]
    yield made
    world.hosted.ask("DELETE", f"/workloads/{made}")


@pytest.mark.parametrize(
    "operation",
    [
        "list_buckets",
        "bucket_exists",
        "create_bucket",
        "delete_bucket",
        "list_bucket_objects",
        "delete_bucket_object",
        "get_quota_status",
    ],
)
def test_what_is_not_available_says_so(hosted: Api, judge: Judge, operation: str) -> None:
    error = judge.operation(hosted, operation, **BY_NAME[operation].arguments).refused(
        403, "NOT_AVAILABLE", defined=False
    )
    assert "isn't available" in error["message"]


@pytest.mark.parametrize(
    ("operation", "args"),
    [
        ("save_notification_channel", {"channel": "slack", "save_notification_body": {"webhook": "https://x"}}),
        (
            "test_notification_channel",
            {"channel": "slack", "test_notification_body": {"webhook": "https://x"}},
        ),
        ("set_budget", {"period": "day", "scope": "account", "spend_cap_input": {"capUsd": 5}}),
        ("set_throttle", {"scope": "agent-session", "spend_cap_input": {"capUsd": 5}}),
    ],
)
def test_what_cannot_be_set_says_so(hosted: Api, judge: Judge, operation: str, args: dict[str, Any]) -> None:
    error = judge.operation(hosted, operation, **args).refused(403, "NOT_AVAILABLE", defined=False)
    assert "aren't available" in error["message"]


def test_what_is_empty_is_answered_as_empty(hosted: Api, judge: Judge) -> None:
    def value(operation: str, kind: str, **args: str) -> Any:
        return judge.operation(hosted, operation, **args).value(kind, 200)

    assert value("list_notification_channels", "list") == []
    assert value("delete_notification_channel", "RemoveNotificationResponse", channel="slack") == {"removed": False}
    assert value("get_canceled_quota_submissions", "QuotaStatusResponse") == {"entries": []}
    assert value("list_budgets", "ListBudgetsResponse") == {"entries": [], "spend": []}
    throttles = value("list_throttles", "ListThrottlesResponse")
    assert throttles == {"burnRate": {"account": {"currentUsd": 0}}, "entries": []}
    report = value("get_workload_cost_report", "WorkloadCostReport", since_ms="0")
    assert (report["totalCost"], report["totalJobs"], report["byUser"]) == (0, 0, {})


def test_unsetting_what_is_not_set_is_a_success(hosted: Api, judge: Judge) -> None:
    judge.operation(hosted, "unset_budget", period="week", scope="account").value("NoneType", 204)
    judge.operation(hosted, "unset_throttle", scope="account").value("NoneType", 204)


def test_a_channel_that_is_not_configured(hosted: Api, judge: Judge) -> None:
    judge.operation(hosted, "test_notification_channel", channel="slack", test_notification_body={}).refused(
        404, "CHANNEL_NOT_CONFIGURED"
    )


@pytest.mark.parametrize(
    ("operation", "changed", "code"),
    [
        ("list_buckets", {"page_size": "0"}, "BUCKET_REQUEST_INVALID"),
        ("list_bucket_objects", {"recursive": "perhaps"}, "BUCKET_REQUEST_INVALID"),
        ("get_quota_status", {"cloud": "Moon"}, "QUOTA_STATUS_INVALID"),
        ("get_workload_cost_report", {"since_ms": "yesterday"}, "WORKLOAD_MANAGEMENT_REQUEST_INVALID"),
    ],
)
def test_what_is_not_served_is_checked_all_the_same(
    hosted: Api, judge: Judge, operation: str, changed: dict[str, str], code: str
) -> None:
    judge.operation(hosted, operation, **{**BY_NAME[operation].arguments, **changed}).refused(400, code)


def test_what_a_job_on_a_deployment_does_not_have(hosted: Api, judge: Judge, job: str) -> None:
    assert judge.operation(hosted, "get_workload_cost", id=job).value("list", 200) == []
    error = judge.operation(hosted, "get_workload_ssh_access", id=job, mode="ssh").refused(
        403, "NOT_AVAILABLE", defined=False
    )
    assert job in error["message"]
    judge.operation(hosted, "upgrade_service", id=job, service_upgrade_body={"image": "i:1"}).refused(
        404, "SERVICE_NOT_FOUND"
    )


@pytest.mark.parametrize(
    ("operation", "code"),
    [
        ("get_workload_cost", "WORKLOAD_MANAGEMENT_NOT_FOUND"),
        ("get_workload_ssh_access", "WORKLOAD_MANAGEMENT_NOT_FOUND"),
        ("upgrade_service", "SERVICE_NOT_FOUND"),
    ],
)
def test_a_workload_that_there_is_not(hosted: Api, judge: Judge, operation: str, code: str) -> None:
    judge.operation(hosted, operation, **BY_NAME[operation].arguments).refused(404, code)
