"""What workloads cost: nothing that runs on a node pool has a price of its own."""

from __future__ import annotations

import pytest
from anycloud_common.errors import ApiError
from anycloud_common.rest import Invalid
from anycloudapi.deployment.v1 import costs_pb2

from tests.support.operations import Answer, Operation
from tests.unit.deployment.rig import NO_CONTEXT, Rig

SERVICE = costs_pb2.DESCRIPTOR.services_by_name["Costs"]
ROWS, REPORT = Operation(SERVICE, "GetWorkloadCost"), Operation(SERVICE, "GetCostReport")


async def rows(rig: Rig, workload_id: str) -> Answer:
    return ROWS.answer(await rig.service.costs_rpc.GetWorkloadCost(ROWS.request(id=workload_id), NO_CONTEXT))


async def test_a_job_has_no_cost_rows(rig: Rig) -> None:
    await rig.running()
    await rig.submit("voice", "job-1")
    assert await rows(rig, "job-1") == (200, [])
    await rig.terminate("job-1")
    assert await rows(rig, "job-1") == (200, [])


async def test_an_unknown_workload_has_none_either_and_that_is_said(rig: Rig) -> None:
    with pytest.raises(ApiError, match="job-9") as refused:
        await rows(rig, "job-9")
    assert refused.value.code == "WORKLOAD_MANAGEMENT_NOT_FOUND"


@pytest.mark.parametrize(("ago_ms", "period_ms"), [(3_600_000, 3_600_000), (-5, 0)])
async def test_a_report_is_all_zeros_over_the_time_that_was_asked_for(rig: Rig, ago_ms: int, period_ms: int) -> None:
    await rig.running()
    await rig.submit("voice", "job-1")
    asked = REPORT.request(since_ms=str(rig.clock.now_ms() - ago_ms), user="alice")
    assert REPORT.answer(await rig.service.costs_rpc.GetCostReport(asked, NO_CONTEXT)) == (
        200,
        {
            "periodMs": period_ms,
            "totalCost": 0,
            "totalDurationMs": 0,
            "totalJobs": 0,
            "totalServices": 0,
            "totalVms": 0,
            "workloadsWithoutPrice": 0,
            "includesOtherUsers": False,
            "byAgent": {},
            "byUser": {},
            "byProvider": {},
        },
    )


@pytest.mark.parametrize(
    ("params", "text"),
    [({}, "sinceMs: is required"), ({"since_ms": "yesterday"}, "sinceMs: must be an integer")],
)
def test_a_report_needs_its_start(params: dict[str, str], text: str) -> None:
    with pytest.raises(Invalid) as refused:
        REPORT.request(**params)
    assert str(refused.value).startswith(text)
