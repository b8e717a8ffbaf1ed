"""Lists of Deployments and Jobs: how much they show, and their pages."""

from __future__ import annotations

from typing import Any

import pytest
from anycloud_common.rest import Invalid
from anycloudapi.deployment.v1 import deployments_pb2, workloads_pb2

from tests.support.operations import Operation
from tests.unit.deployment.rig import NO_CONTEXT, Rig, execution

DEPLOYMENTS = Operation(deployments_pb2.DESCRIPTOR.services_by_name["Deployments"], "ListDeployments")
WORKLOADS = Operation(workloads_pb2.DESCRIPTOR.services_by_name["Workloads"], "ListWorkloads")


async def deployments(rig: Rig, **params: str) -> deployments_pb2.ListDeploymentsResponse:
    rig.act_as()
    return await rig.service.deployments_rpc.ListDeployments(DEPLOYMENTS.request(**params), NO_CONTEXT)


async def jobs(rig: Rig, **params: str) -> workloads_pb2.ListWorkloadsResponse:
    rig.act_as()
    return await rig.service.workloads_rpc.ListWorkloads(WORKLOADS.request(**params), NO_CONTEXT)


def ids(answer: workloads_pb2.ListWorkloadsResponse) -> list[str]:
    return [one.workload.id for one in answer.workloads]


async def finish(rig: Rig, deployment_id: str, number: int) -> None:
    """The next Job is over and cleaned up."""
    [pod] = rig.cluster.seen_pods(deployment_id)
    job_id = await rig.pick_up(deployment_id, pod, execution(number))
    await rig.report(deployment_id, pod, job_id, execution(number))
    await rig.clean_up(deployment_id, pod, job_id, execution(number))


@pytest.mark.req("DP-070")
async def test_deployments_are_listed_whole_unless_a_limit_is_given(rig: Rig) -> None:
    for name in ("one", "two", "three"):
        await rig.create(name)
        await rig.clock.advance(1)
    whole = await deployments(rig)
    assert [one["name"] for one in DEPLOYMENTS.answer(whole).body["deployments"]] == ["three", "two", "one"]
    assert (whole.total_count, whole.HasField("next_cursor")) == (3, False)
    first = await deployments(rig, limit="2", node_pool="np-1")
    assert [one.name for one in first.deployments] == ["three", "two"]
    assert DEPLOYMENTS.answer(first).body.keys() == {"deployments"}
    last = await deployments(rig, limit="2", node_pool="np-1", cursor=first.next_cursor)
    assert [one.name for one in last.deployments] == ["one"]
    assert (first.total_count, last.total_count, last.HasField("next_cursor")) == (3, 3, False)


async def test_jobs_come_in_pages_that_together_are_the_list(rig: Rig) -> None:
    deployment_id, _ = await rig.running()
    for number in range(6):
        await rig.submit("voice", f"job-{number}")
        if number % 2:
            await rig.clock.advance(1)  # of two made in the same moment, the later one is the newer
    for number in (1, 2):
        await finish(rig, deployment_id, number)
    pages = [await jobs(rig, limit="4")]
    while pages[-1].HasField("next_cursor"):
        pages.append(await jobs(rig, limit="4", cursor=pages[-1].next_cursor))
    assert [ids(page) for page in pages] == [["job-5", "job-4", "job-3", "job-2"], ["job-1", "job-0"]]
    assert {page.total_count for page in pages} == {6}


async def test_what_is_submitted_or_finished_meanwhile_moves_no_job_to_another_page(rig: Rig) -> None:
    deployment_id, _ = await rig.running()
    for number in range(4):
        await rig.submit("voice", f"job-{number}")
        await rig.clock.advance(1)
    first = await jobs(rig, limit="2")
    await rig.submit("voice", "job-new")
    await finish(rig, deployment_id, 1)
    last = await jobs(rig, limit="2", cursor=first.next_cursor)
    assert ids(first) + ids(last) == ["job-3", "job-2", "job-1", "job-0"]
    assert (first.total_count, last.total_count, last.HasField("next_cursor")) == (4, 5, False)


async def test_the_total_counts_what_the_filters_let_through(rig: Rig) -> None:
    await rig.running()
    for number in range(5):
        await rig.submit("voice", f"job-{number}", session="odd" if number % 2 else "even")
    page = await jobs(rig, limit="1", session_exact="even")
    assert (len(page.workloads), page.total_count, page.HasField("next_cursor")) == (1, 3, True)
    none = await jobs(rig, workload_type="vm")
    assert (WORKLOADS.answer(none).body, none.total_count) == ([], 0)


async def test_200_jobs_are_listed_by_default_and_1000_at_most(rig: Rig) -> None:
    await rig.running()
    rig.act_as()
    asked = [workloads_pb2.SubmitJobsRequest.Job(id=f"job-{number:03}") for number in range(201)]
    request = workloads_pb2.SubmitJobsRequest(deployment="voice", jobs=asked)
    await rig.service.workloads_rpc.SubmitJobs(request, NO_CONTEXT)
    page = await jobs(rig)
    assert (len(page.workloads), page.total_count) == (200, 201)
    assert ids(page)[0] == "job-200"
    assert ids(await jobs(rig, cursor=page.next_cursor)) == ["job-000"]
    assert len((await jobs(rig, limit="1000")).workloads) == 201
    for wrong in ("0", "1001", "-1", "1.5"):
        with pytest.raises(Invalid, match="limit: must be an integer from 1 to 1000"):
            await jobs(rig, limit=wrong)


@pytest.mark.parametrize("listed", [deployments, jobs])
async def test_a_cursor_of_another_list_is_refused(rig: Rig, listed: Any) -> None:
    other: Any = jobs if listed is deployments else deployments
    for name in ("one", "two"):
        await rig.running(name)
        await rig.submit(name)
    cursor = (await other(rig, limit="1")).next_cursor
    assert cursor
    with pytest.raises(Invalid, match="cursor: is none that this list gave"):
        await listed(rig, cursor=cursor)
