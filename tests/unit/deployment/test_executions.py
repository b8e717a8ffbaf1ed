"""When an execution counts as lost, and above all when it doesn't."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from anycloud_common.kube import KubeError
from anycloud_common.reconcile import Done, Requeue
from anycloud_deployment.domain.model import PodFact

from tests.unit.deployment.fakes import NODE
from tests.unit.deployment.rig import Rig, execution

KEY = execution(1)


async def claimed(rig: Rig) -> tuple[str, PodFact]:
    """A Deployment whose Pod runs job-1."""
    deployment_id, pod = await rig.running()
    await rig.submit("voice", "job-1")
    await rig.pick_up(deployment_id, pod, KEY)
    return deployment_id, pod


async def why(rig: Rig) -> str:
    return str((await rig.status("job-1")).events[0].metadata["message"])


async def test_a_pod_that_runs_on_is_left_alone(rig: Rig) -> None:
    deployment_id, _ = await claimed(rig)
    assert await rig.judge(deployment_id) == Done()
    assert await rig.state("job-1") == "running"


@pytest.mark.req("JB-007")
async def test_a_pod_that_its_kubelet_reports_as_over_loses_its_executions(rig: Rig) -> None:
    deployment_id, pod = await claimed(rig)
    rig.cluster.change_pod(pod.uid, ended=True, ready=False)
    assert await rig.judge(deployment_id) == Done()
    assert (await rig.state("job-1"), await why(rig)) == ("retrying", "the Pod has ended")
    other = rig.cluster.add_pod(deployment_id)
    await rig.clock.advance(1)
    assert await rig.pick_up(deployment_id, other, execution(2)) == "job-1"


async def test_a_restart_long_after_the_claim_loses_the_execution(rig: Rig) -> None:
    deployment_id, pod = await claimed(rig)
    await rig.clock.advance(30.001)
    rig.cluster.change_pod(pod.uid, restarts=1, restarts_seen_at=rig.clock.now_ms())
    await rig.judge(deployment_id)
    assert (await rig.state("job-1"), await why(rig)) == ("retrying", "the container was restarted")
    assert pod.uid in rig.cluster.all_pods


async def test_a_restart_around_the_claim_says_nothing_so_the_pod_is_deleted(rig: Rig) -> None:
    deployment_id, pod = await claimed(rig)
    await rig.clock.advance(30)
    rig.cluster.change_pod(pod.uid, restarts=1, restarts_seen_at=rig.clock.now_ms())
    await rig.judge(deployment_id)
    assert await rig.state("job-1") == "running"
    assert rig.cluster.writes[-1] == ("delete", "Pod")
    assert rig.cluster.all_pods[pod.uid].deleting
    assert isinstance(await rig.judge(deployment_id), Requeue)
    rig.cluster.change_pod(pod.uid, ended=True)
    await rig.judge(deployment_id)
    assert await rig.state("job-1") == "retrying"


async def test_a_claim_after_the_restart_is_the_new_containers(rig: Rig) -> None:
    deployment_id, pod = await rig.running()
    rig.cluster.change_pod(pod.uid, restarts=3)
    await rig.submit("voice", "job-1")
    await rig.pick_up(deployment_id, pod, KEY)
    assert await rig.judge(deployment_id) == Done()
    assert await rig.state("job-1") == "running"


@pytest.mark.req("JB-007")
async def test_a_pod_that_is_gone_loses_its_executions_once_its_kubelet_was_heard_of_again(rig: Rig) -> None:
    deployment_id, pod = await claimed(rig)
    rig.cluster.drop_pod(pod.uid)
    for _ in range(2):
        assert isinstance(await rig.judge(deployment_id), Requeue)
        assert await rig.state("job-1") == "running"
    rig.cluster.leases[NODE.name] = "t1"
    await rig.judge(deployment_id)
    assert (await rig.state("job-1"), await why(rig)) == ("retrying", "the Pod is gone")


@pytest.mark.parametrize("trouble", ["not ready", "another uid", "another attempt", "no node", "no lease"])
async def test_a_pod_that_is_gone_proves_nothing_while_its_kubelet_is_not_the_same_and_well(
    rig: Rig, trouble: str
) -> None:
    deployment_id, pod = await claimed(rig)
    rig.cluster.drop_pod(pod.uid)
    changed = {
        "not ready": replace(NODE, ready=False),
        "another uid": replace(NODE, uid="other"),
        "another attempt": replace(NODE, attempt="attempt-2"),
    }
    if trouble == "no node":
        rig.cluster.nodes.clear()
    rig.cluster.nodes |= {NODE.name: changed[trouble]} if trouble in changed else {}
    for lease in ("t1", "t2", "t3"):
        rig.cluster.leases = {} if trouble == "no lease" else {NODE.name: lease}
        assert isinstance(await rig.judge(deployment_id), Requeue)
    assert await rig.state("job-1") == "running"


@pytest.mark.parametrize("pod_gone", [True, False])
async def test_a_vm_that_is_gone_for_good_takes_its_executions_along(rig: Rig, pod_gone: bool) -> None:
    deployment_id, pod = await claimed(rig)
    rig.cluster.nodes.clear()
    if pod_gone:
        rig.cluster.drop_pod(pod.uid)
    else:
        rig.cluster.change_pod(pod.uid, deleting=True, ready=False)
    assert isinstance(await rig.judge(deployment_id), Requeue)
    assert await rig.state("job-1") == "running"
    rig.pools.closed.add(NODE.attempt)
    await rig.judge(deployment_id)
    assert (await rig.state("job-1"), await why(rig)) == ("retrying", "the Node's VM is gone")


@pytest.mark.parametrize("trouble", ["unsynced", "unreachable", "pools away"])
async def test_what_cannot_be_asked_is_not_lost(rig: Rig, trouble: str) -> None:
    deployment_id, pod = await claimed(rig)
    rig.cluster.nodes.clear()
    rig.cluster.drop_pod(pod.uid)
    rig.pools.closed.add(NODE.attempt)
    rig.cluster.synced = trouble != "unsynced"
    rig.cluster.error = KubeError("unreachable", "down") if trouble == "unreachable" else None
    rig.pools.away = trouble == "pools away"
    assert isinstance(await rig.judge(deployment_id), Requeue)
    rig.cluster.error = None
    assert await rig.state("job-1") == "running"


async def test_a_pod_whose_labels_were_taken_away_is_still_there(rig: Rig) -> None:
    deployment_id, pod = await claimed(rig)
    rig.cluster.all_pods["hidden"] = replace(rig.cluster.all_pods.pop(pod.uid), deployment_id="")
    for lease in ("t1", "t2"):
        rig.cluster.leases[NODE.name] = lease
        assert isinstance(await rig.judge(deployment_id), Requeue)
    assert await rig.state("job-1") == "running"


@pytest.mark.req("JB-006", "JB-007", "JB-008")
@pytest.mark.parametrize(("reported", "state"), [(False, "retrying"), (True, "completed")])
async def test_after_a_restart_of_the_api_jobs_without_their_pod_are_retried_or_give_their_slot_back(
    rig: Rig, reported: bool, state: str
) -> None:
    deployment_id, pod = await claimed(rig)
    if reported:
        await rig.report(deployment_id, pod, "job-1", KEY)
    await rig.close()
    rig.cluster.change_pod(pod.uid, ended=True, ready=False)
    rig.start()
    await rig.service.mark_all()
    await rig.judge(deployment_id)
    assert await rig.state("job-1") == state
    found = await rig.get("voice")
    assert found.jobs.unreleased == 0
    assert (await rig.status("job-1")).workload.HasField("cleaned_at") == reported


@pytest.mark.req("JB-006")
@pytest.mark.parametrize("phase", ["queued", "claimed", "reported", "cleaned up"])
async def test_a_job_outlives_a_restart_of_the_api_in_each_phase(rig: Rig, phase: str) -> None:
    deployment_id, pod = await rig.running()
    steps: dict[str, Callable[[], Awaitable[object]]] = {
        "queued": lambda: rig.submit("voice", "job-1"),
        "claimed": lambda: rig.pick_up(deployment_id, pod, KEY),
        "reported": lambda: rig.report(deployment_id, pod, "job-1", KEY),
        "cleaned up": lambda: rig.clean_up(deployment_id, pod, "job-1", KEY),
    }
    for name, step in steps.items():
        await step()
        if name == phase:
            await rig.restart()
            await rig.judge(deployment_id)
    assert await rig.state("job-1") == "completed"
    assert (await rig.status("job-1")).events_total == 4


async def test_a_lost_execution_of_a_job_that_was_to_end_ends_it(rig: Rig) -> None:
    deployment_id, pod = await claimed(rig)
    await rig.terminate("job-1")
    rig.cluster.change_pod(pod.uid, ended=True)
    await rig.judge(deployment_id)
    assert await rig.state("job-1") == "terminated"


async def test_a_lost_execution_on_a_deployment_that_is_deleted_ends_its_job_and_lets_it_go(rig: Rig) -> None:
    deployment_id, pod = await claimed(rig)
    await rig.delete("voice")
    await rig.reconcile(deployment_id)
    rig.cluster.change_pod(pod.uid, ended=True)
    await rig.judge(deployment_id)
    assert await rig.state("job-1") == "terminated"
    assert await rig.reconcile(deployment_id) == Done()


async def test_a_stale_worker_changes_nothing(rig: Rig) -> None:
    deployment_id, pod = await claimed(rig)
    rig.cluster.change_pod(pod.uid, ended=True)
    await rig.judge(deployment_id)
    rig.cluster.change_pod(pod.uid, ended=False)
    before = await rig.status("job-1")
    for late in (
        rig.report(deployment_id, pod, "job-1", KEY),
        rig.clean_up(deployment_id, pod, "job-1", KEY),
    ):
        with pytest.raises(Exception, match="doesn't hold Job job-1 any more"):
            await late
    assert await rig.status("job-1") == before


async def test_news_of_nodes_wakes_what_is_open(rig: Rig) -> None:
    deployment_id, pod = await claimed(rig)
    rig.cluster.nodes.clear()
    rig.cluster.drop_pod(pod.uid)
    rig.run_reconcilers()
    rig.service.mark([deployment_id])
    await rig.until(lambda: deployment_id in rig.service._judging.unsettled)
    rig.pools.closed.add(NODE.attempt)
    rig.service.nodes_changed()
    while await rig.state("job-1") == "running":
        await rig.store.write(lambda tx: None)
