"""Image Jobs through the API and their reconciler, on a faked cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from anycloud_common.errors import ApiError
from anycloud_common.kube import KubeError
from anycloud_common.reconcile import Blocked, Done, Requeue
from anycloud_deployment.reconcile.image_jobs import ending
from anycloud_deployment.store import events, image_jobs, tables
from anycloudapi.common.v1 import types_pb2
from anycloudapi.deployment.v1 import deployments_pb2, secrets_pb2, states_pb2
from anycloudapi.deployment.v1 import workloads_pb2 as pb

from tests.unit.deployment.fakes import GPU_POOL, NODE, POOL, FakeHolds
from tests.unit.deployment.rig import NO_CONTEXT, Rig
from tests.unit.deployment.test_admission import settle

Submit = pb.SubmitWorkloadRequest
CloudConfig = Submit.CloudConfig
REJECTED = "WORKLOAD_ADMISSION_REJECTED"
CONFLICT = "WORKLOAD_MANAGEMENT_CONFLICT"


def words(*values: str) -> types_pb2.StringList:
    return types_pb2.StringList(values=values)


async def refused(call: Any, code: str = REJECTED) -> str:
    with pytest.raises(ApiError) as error:
        await call
    assert error.value.code == code
    return error.value.message


async def save_secret(rig: Rig, name: str, **values: str) -> None:
    rig.act_as()
    request = secrets_pb2.SaveSecretRequest(name=name, secret=secrets_pb2.SecretValues(values=values))
    await rig.service.secrets_rpc.SaveSecret(request, NO_CONTEXT)


async def delete_secret(rig: Rig, name: str, *, force: bool = False) -> None:
    rig.act_as()
    request = secrets_pb2.DeleteSecretRequest(name=name, force=force)
    await rig.service.secrets_rpc.DeleteSecret(request, NO_CONTEXT)


async def listed(rig: Rig, **filters: Any) -> list[pb.ListedWorkload]:
    rig.act_as()
    answer = await rig.service.workloads_rpc.ListWorkloads(pb.ListWorkloadsRequest(**filters), NO_CONTEXT)
    return list(answer.workloads)


async def running(rig: Rig, job_id: str = "job-1", **more: Any) -> str:
    """A Job whose container runs; gives its run."""
    run = await rig.submit_image(job_id=job_id, **more)
    await rig.pass_over(run)
    rig.cluster.run_pod(run)
    await rig.pass_over(run)
    assert await rig.state(job_id) == "running"
    return run


async def ended(rig: Rig, job_id: str = "job-1", exit_code: int = 0, **more: Any) -> str:
    run = await running(rig, job_id, **more)
    rig.cluster.end_pod(run, exit_code)
    assert await rig.pass_over(run) == Done()
    return run


def no_objects(rig: Rig, run: str) -> bool:
    return not [key for key in rig.cluster.objects if key[2] == run] and not rig.cluster.job_pods_of.get(run)


# Admission


@pytest.mark.req("WK-001", "WK-003", "WK-005")
async def test_a_job_is_a_workload_like_the_others_with_its_image_and_without_a_vm(rig: Rig) -> None:
    command, binds = words("python", "-c", "a b"), words("/data")
    await rig.submit_image(
        command=command,
        env={"KEY": "secret-value"},
        docker_options=types_pb2.DockerOptions(cpus="2", binds=binds),
        session="s",
        node_pool="training",
    )
    status = await rig.status("job-1")
    [found] = await listed(rig)
    assert found.workload == status.workload
    seen = found.workload
    assert seen.workload_type == states_pb2.WORKLOAD_TYPE_JOB
    assert (seen.image, list(seen.command.values), seen.docker_command) == (
        "acme/batch:v1",
        list(command.values),
        "python -c 'a b'",
    )
    assert seen.docker_options == types_pb2.DockerOptions(cpus="2", binds=binds)
    assert (seen.node_pool_id, seen.node_pool_name, seen.session) == (POOL.id, POOL.name, "s")
    assert not seen.HasField("deployment_id")
    assert (seen.vm_count, seen.HasField("vm_type"), seen.HasField("total_cost")) == (0, False, False)
    assert status.status == pb.WorkloadStatus.LIVENESS_NONE and not status.HasField("jobs_ahead")
    assert found.is_owned_by_caller
    assert "secret-value" not in str(status) + str(found)


@pytest.mark.req("WK-006")
@pytest.mark.parametrize(
    ("pool", "said"),
    [
        ({"state": "provisioning"}, "Node pool training is provisioning; a Job needs a running one."),
        ({"state": "deleting"}, "Node pool training is deleting"),
        ({"state": "failed"}, "Node pool training is failed"),
        ({"ready_nodes": 0}, "none of its Nodes is ready"),
        ({"vm_type": "nosuch.type"}, "isn't in the catalog"),
    ],
)
async def test_the_pool_must_run_with_a_ready_node_and_known_supply(rig: Rig, pool: dict[str, Any], said: str) -> None:
    rig.pools.pools[POOL.id] = replace(POOL, **pool)
    assert said in await refused(rig.submit_image())
    assert not await listed(rig) and not rig.holds.held


@pytest.mark.req("WK-006", "OPEN-076", "OPEN-077")
async def test_devices_are_taken_beside_live_reservations_in_the_write_that_stores_the_job(rig: Rig) -> None:
    two = types_pb2.DockerOptions(gpus="2")
    await rig.create("voice", node_pool="np-gpu", docker_options=types_pb2.DockerOptions(gpus="6"))
    run = await rig.submit_image(node_pool="np-gpu", docker_options=two)
    assert "0 free devices" in await refused(rig.submit_image(job_id="job-2", node_pool="np-gpu", docker_options=two))
    assert await rig.store.read(lambda conn: image_jobs.find(conn, "job-2")) is None
    assert sorted(one.devices for one in rig.holds.held.values()) == [2, 6]
    rig.pools.pools[GPU_POOL.id] = GPU_POOL
    await rig.pass_over(run)
    assert (await rig.status("job-1")).workload.docker_options.gpus == "2"


@pytest.mark.req("WK-006", "NP-063")
async def test_a_refused_hold_is_a_rejection_in_nodepools_words(rig: Rig) -> None:
    rig.holds.refusal = ("NODE_POOL_DELETING", "Node pool 'training' is deleting.")
    assert await refused(rig.submit_image()) == "Node pool 'training' is deleting."
    rig.holds.refusal = None
    await rig.submit_image()
    [held] = rig.holds.held.values()
    assert (held.owner.kind, held.owner.id, held.parents[0].id) == ("job", "job-1", POOL.id)


@pytest.mark.req("WK-002", "CLI-015")
@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"node_pool": None}, "nodePool is missing"),
        ({"node_pool": "nosuch"}, "Node pool nosuch doesn't exist, or you have no access to it."),
        ({"image": "UPPER CASE"}, "image 'UPPER CASE' isn't a reference"),
        ({"cloud_config": CloudConfig(region="us-east-1")}, "cloudConfig.region can't be given together with nodePool"),
        ({"cloud_config": CloudConfig(vm_type=types_pb2.StringOrList(one="x"))}, "cloudConfig.vmType can't be given"),
        ({"credential_name": "aws"}, "credentialName can't be given together with nodePool np-1"),
        ({"gpu_type": types_pb2.StringOrList(one="h100")}, "gpuType can't be given"),
        ({"workload_type": states_pb2.WORKLOAD_TYPE_SERVICE}, "workloadType is service, which this API doesn't run"),
        ({"nodes": 2}, "nodes isn't supported"),
        ({"launch": Submit.LAUNCH_DISTRIBUTED}, "launch isn't supported"),
        ({"resumable": True}, "resumable isn't supported"),
        ({"gpus_per_node": 1}, "gpusPerNode isn't supported"),
        ({"mounts": [Submit.Mount(name="state", path="/s")]}, "mounts isn't supported"),
        ({"time_limit": 2**31}, "timeLimit is 2147483648; it must be 1 to 2147483647 seconds."),
        ({"env": {"1A": "x"}}, "env: '1A' can't be a variable"),
        ({"command": words("a\0b")}, "command has a word with a zero byte"),
        ({"secrets": ["nosuch"]}, "secrets names nosuch, and there is no such Secret"),
        ({"docker_options": types_pb2.DockerOptions(gpus="0")}, "dockerOptions.gpus is '0'"),
        ({"docker_options": types_pb2.DockerOptions(gpus="1")}, "has no NVIDIA GPUs"),
        ({"docker_options": types_pb2.DockerOptions(runtime="")}, "dockerOptions.runtime is empty"),
        ({"docker_options": types_pb2.DockerOptions(ipc="host")}, "dockerOptions.ipc isn't supported on a node pool"),
        ({"docker_options": types_pb2.DockerOptions(binds=words("/a:/b"))}, "has a `:`"),
        ({"job_id": "a b"}, "id 'a b' isn't allowed"),
    ],
)  # fmt: skip
async def test_what_no_job_on_a_pool_can_be_is_rejected_with_the_fields_name_before_anything_is_stored(
    rig: Rig, settings: dict[str, Any], said: str
) -> None:
    assert said in await refused(rig.submit_image(**settings))
    assert not rig.holds.held and await rig.store.read(image_jobs.unclean) == []


async def test_variables_that_anycloud_gives_to_deployments_are_free_for_a_jobs_own_use(rig: Rig) -> None:
    run = await rig.submit_image(env={"ANYCLOUD_API_URL": "http://x"})
    await rig.pass_over(run)
    [container] = rig.cluster.body("Job", run)["spec"]["template"]["spec"]["containers"]
    assert container["env"] == [{"name": "ANYCLOUD_API_URL", "value": "http://x"}]


async def test_the_same_submission_gets_the_same_job_and_any_other_use_of_its_id_is_a_conflict(rig: Rig) -> None:
    first = await rig.submit_image(env={"A": "1"}, command=words())
    assert await rig.submit_image(env={"A": "1"}, command=words()) == first
    assert await rig.submit_image(env={"A": "1"}, command=words(), node_pool="training") == first
    for other in ({"env": {"A": "2"}, "command": words()}, {"env": {"A": "1"}}, {"image": "b", "env": {"A": "1"}}):
        assert "belongs to another submission" in await refused(rig.submit_image(**other), "WORKLOAD_ID_CONFLICT")
    await rig.running()
    await refused(rig.submit("voice", "job-1"), "WORKLOAD_ID_CONFLICT")
    await rig.submit("voice", "job-2")
    await refused(rig.submit_image(job_id="job-2"), "WORKLOAD_ID_CONFLICT")
    assert len(rig.holds.held) == 2, "the Deployment's and one Job's"


async def test_an_id_that_is_just_being_taken_in_is_uncertain_not_a_conflict(rig: Rig) -> None:
    seen: list[str] = []
    acquire = FakeHolds.AcquireHolds

    async def again(holds: FakeHolds, request: Any, **more: Any) -> Any:
        seen.append(await refused(rig.submit_image(), "WORKLOAD_ADMISSION_UNAVAILABLE"))
        assert await listed(rig) == []
        return await acquire(holds, request, **more)

    rig.holds.AcquireHolds = again.__get__(rig.holds)  # type: ignore[method-assign]
    await rig.submit_image()
    assert seen == ["Job job-1 is just being taken in; ask again."]


# Life


@pytest.mark.req("WK-008", "WK-010")
async def test_states_follow_the_pod_from_the_queue_to_completion_and_cleanup(rig: Rig) -> None:
    run = await rig.submit_image()
    assert await rig.state("job-1") == "queued"
    await rig.pass_over(run)
    rig.cluster.set_pod(run, unschedulable="0/3 nodes are available")
    await rig.pass_over(run)
    [seen] = await listed(rig)
    assert seen.latest_message == "Kubernetes can't place the Pod: 0/3 nodes are available"
    rig.cluster.set_pod(run, node=NODE.name, unschedulable=None)
    await rig.pass_over(run)
    assert await rig.state("job-1") == "starting"
    rig.cluster.set_pod(run, waiting="ErrImagePull", waiting_message="no such image")
    await rig.pass_over(run)
    assert await rig.state("job-1") == "downloading"
    rig.cluster.run_pod(run)
    await rig.pass_over(run)
    status = await rig.status("job-1")
    assert (status.status, status.workload.claimed) == (pb.WorkloadStatus.LIVENESS_UP, True)
    rig.cluster.end_pod(run)
    assert await rig.pass_over(run) == Done()
    over = (await rig.status("job-1")).workload
    assert over.state == states_pb2.WORKLOAD_STATE_COMPLETED and over.cleaned_at >= over.completed_at > 0
    assert no_objects(rig, run)
    log, _ = await rig.store.read(lambda conn: events.newest(conn, "job", "job-1", 50))
    assert [one.state for one in reversed(log)] == [
        "queued", "queued", "queued", "starting", "downloading", "running", "completed", "completed",
    ]  # fmt: skip
    await settle(rig)
    assert not rig.holds.held, "the pool is free again"


@pytest.mark.req("WK-008")
async def test_another_exit_code_is_an_error_of_the_program_with_code_and_reason(rig: Rig) -> None:
    await ended(rig, exit_code=3)
    assert await rig.state("job-1") == "errored"
    status = await rig.status("job-1")
    ending_event = next(one for one in status.events if one.metadata["reason"] == "ended")
    assert ending_event.metadata["exitCode"] == 3
    assert ending_event.metadata["message"] == "The container ended with exit code 3 (Error)."


async def test_the_jobs_own_end_is_read_from_the_pod_when_the_watch_of_pods_is_late(rig: Rig) -> None:
    run = await running(rig)
    late = list(rig.cluster.job_pods_of[run])
    rig.cluster.end_pod(run, 3)
    view = rig.service._job_view
    view.pods = lambda run: late  # type: ignore[method-assign]
    await rig.pass_over(run)
    assert await rig.state("job-1") == "errored"


async def test_a_job_whose_end_nobody_saw_has_failed_and_is_not_run_again(rig: Rig) -> None:
    run = await running(rig)
    rig.cluster.remove_job(run)
    await rig.pass_over(run)
    assert await rig.state("job-1") == "failed"
    assert (await listed(rig))[0].latest_message == "Its Kubernetes Job was removed by somebody else."
    assert rig.cluster.writes.count(("create", "Job")) == 1


async def test_a_job_that_no_watch_shows_yet_is_not_taken_for_removed(rig: Rig) -> None:
    run = await rig.submit_image()
    rig.service._job_view.job = lambda run: None  # type: ignore[method-assign]
    await rig.pass_over(run)
    assert await rig.state("job-1") == "queued"
    rig.cluster.run_pod(run)
    await rig.pass_over(run)
    assert await rig.state("job-1") == "running"


async def test_a_silent_node_ends_nothing_until_its_job_is_over(rig: Rig) -> None:
    run = await running(rig)
    rig.cluster.nodes[NODE.name] = replace(NODE, ready=False)
    rig.service.nodes_changed()
    await rig.pass_over(run)
    assert await rig.state("job-1") == "running"
    assert "isn't heard of" in (await listed(rig))[0].latest_message
    rig.cluster.set_pod(run, failed="PodGC: node no longer exists", deleting=True)
    rig.cluster.set_job(run, over="failed", why="BackoffLimitExceeded")
    await rig.pass_over(run)
    assert await rig.state("job-1") == "failed"
    assert (await listed(rig))[0].latest_message.startswith("PodGC: node no longer exists. Before that: Node node-1")


async def test_nothing_is_said_while_the_watches_are_behind(rig: Rig) -> None:
    run = await running(rig)
    rig.cluster.synced = False
    rig.cluster.remove_job(run)
    assert await rig.pass_over(run) == Requeue(1.0)
    assert await rig.state("job-1") == "running"


async def test_a_pool_without_its_namespace_is_waited_for_and_nothing_is_made(rig: Rig) -> None:
    rig.pools.pools[POOL.id] = replace(POOL, namespace="", namespace_uid="")
    run = await rig.submit_image()
    assert isinstance(await rig.pass_over(run), Blocked)
    rig.pools.pools[POOL.id] = replace(POOL, namespace_error="Namespace x isn't ours.")
    await rig.pass_over(run)
    assert (await listed(rig))[0].latest_message == "Namespace x isn't ours."
    assert rig.cluster.writes == []
    rig.pools.pools[POOL.id] = POOL
    rig.service.wake([f"job/{run}"])
    await rig.pass_over(run)
    assert ("create", "Job") in rig.cluster.writes


async def test_a_foreign_job_of_that_name_is_left_alone_and_named(rig: Rig) -> None:
    run = await rig.submit_image()
    uid = rig.cluster.replace_object("Job", run)
    await rig.pass_over(run)
    assert await rig.state("job-1") == "queued"
    assert f"kubectl -n {POOL.namespace} delete jobs.batch {run}" in (await listed(rig))[0].latest_message
    await rig.terminate("job-1")
    await rig.pass_over(run)
    assert await rig.state("job-1") == "terminated"
    assert rig.cluster.objects["Job", POOL.namespace, run].uid == uid


async def test_what_kubernetes_refuses_is_said_and_tried_again(rig: Rig) -> None:
    run = await rig.submit_image()
    rig.cluster.error = KubeError("forbidden", "exceeded quota")
    assert await rig.pass_over(run) == Blocked("Kubernetes refuses: exceeded quota", 30.0)
    assert (await listed(rig))[0].latest_message == "Kubernetes refuses: exceeded quota"
    rig.cluster.error = KubeError("unreachable", "no route")
    assert await rig.pass_over(run) == Requeue(2.0)
    rig.pools.away = True
    assert await rig.pass_over(run) == Requeue(2.0)


# Termination


@pytest.mark.req("WK-013")
@pytest.mark.parametrize("started", [False, True])
async def test_a_terminated_job_ends_with_its_objects(rig: Rig, started: bool) -> None:
    run = await running(rig) if started else await rig.submit_image()
    rig.cluster.controllers = False  # the Pod takes its time
    assert (await rig.terminate("job-1")).message == "Job job-1 is being stopped."
    assert await rig.state("job-1") == "finalizing"
    outcome = await rig.pass_over(run)
    if started:
        assert outcome == Requeue(10.0) and await rig.state("job-1") == "finalizing"
        assert ("delete", "Pod") in rig.cluster.writes, "no owner takes it along here"
        rig.cluster.job_pods_of.pop(run)
        assert await rig.pass_over(run) == Done()
    assert await rig.state("job-1") == "terminated"
    assert (await rig.terminate("job-1")).message == "Job job-1 is terminated."
    assert no_objects(rig, run)


async def test_a_container_that_ended_before_it_was_stopped_has_ended_by_itself(rig: Rig) -> None:
    run = await running(rig)
    rig.cluster.end_pod(run)
    await rig.terminate("job-1")
    await rig.pass_over(run)
    assert await rig.state("job-1") == "completed"


async def test_one_that_ends_as_it_is_being_stopped_is_terminated(rig: Rig) -> None:
    run = await running(rig)
    rig.cluster.controllers = False
    await rig.terminate("job-1")
    await rig.pass_over(run)
    rig.cluster.set_pod(run, running=False, ended=True, exit_code=0, deleting=True)
    await rig.pass_over(run)
    rig.cluster.job_pods_of.pop(run)
    await rig.pass_over(run)
    assert await rig.state("job-1") == "terminated"


async def test_a_termination_that_the_cluster_does_not_take_is_repeated_and_its_reason_shown(rig: Rig) -> None:
    run = await running(rig)
    rig.cluster.error = KubeError("unreachable", "no route")
    await rig.terminate("job-1")
    assert await rig.pass_over(run) == Requeue(2.0)
    seen = (await rig.status("job-1")).workload
    assert (seen.cleanup_error, seen.state) == ("no route", states_pb2.WORKLOAD_STATE_FINALIZING)
    rig.cluster.error = None
    await rig.pass_over(run)
    assert not (await rig.status("job-1")).workload.HasField("cleanup_error")


async def test_a_session_that_is_not_its_own_does_not_end_a_job(rig: Rig) -> None:
    await rig.submit_image(session="mine")
    rig.act_as()
    request = pb.TerminateWorkloadRequest(id="job-1", session="other")
    await refused(rig.service.workloads_rpc.TerminateWorkload(request, NO_CONTEXT), "WORKLOAD_MANAGEMENT_NOT_FOUND")


async def test_a_job_is_stopped_when_its_time_is_over(rig: Rig) -> None:
    run = await rig.submit_image(time_limit=60)
    await rig.pass_over(run)
    await rig.clock.advance(100)
    rig.cluster.run_pod(run)
    assert await rig.pass_over(run) == Requeue(60.0), "waiting for a Node doesn't count"
    await rig.clock.advance(60)
    assert await rig.pass_over(run) == Done()
    assert await rig.state("job-1") == "failed"
    assert (await listed(rig))[0].latest_message == "It ran longer than its time limit of 60 s."
    assert no_objects(rig, run)


async def test_a_job_that_appears_after_its_run_was_cleaned_up_is_deleted(rig: Rig) -> None:
    """The request that made it had been given up as unanswered."""
    run = await rig.submit_image()
    rig.cluster.error = KubeError("unreachable", "timeout")
    await rig.pass_over(run)
    rig.cluster.error = None
    await rig.terminate("job-1")
    await rig.pass_over(run)
    body = {"metadata": {"name": run, "namespace": POOL.namespace, "labels": {"anycloud.sh/job": run}, "annotations": {"anycloud.sh/intent": f"{run}/Job"}}}  # fmt: skip  # noqa: E501
    await rig.store.write(lambda tx: tx.conn.execute(tables.image_jobs.update().values(namespace=POOL.namespace)))
    await rig.cluster.create("Job", body)
    await rig.pass_over(run)
    assert ("Job", POOL.namespace, run) not in rig.cluster.objects


# Again


@pytest.mark.req("WK-014")
async def test_a_finished_job_runs_again_as_it_was_on_the_same_pool(rig: Rig) -> None:
    first = await ended(rig, exit_code=1, env={"A": "1"}, command=words("x"), time_limit=9)
    answer = await rig.resubmit("job-1", session="again")
    assert answer.message and not answer.HasField("submission_revision")
    job = await rig.image_job("job-1")
    assert (job.job.submission_revision, job.job.state, job.submission.session) == (1, "queued", "again")
    assert job.job.run != first
    second = job.job.run
    await rig.pass_over(second)
    body = rig.cluster.body("Job", second)["spec"]["template"]["spec"]
    assert body["nodeSelector"] == {"anycloud.sh/node-pool": POOL.id}
    assert body["containers"][0]["args"] == ["x"] and body["containers"][0]["env"][0]["value"] == "1"
    rig.cluster.run_pod(second)
    rig.cluster.end_pod(second)
    await rig.pass_over(second)
    assert await rig.state("job-1") == "completed"
    assert (await rig.image_job("job-1")).job.exit_code == 0
    assert await rig.pass_over(first) == Done(), "the earlier run is nobody's any more"


@pytest.mark.req("WK-014")
async def test_only_a_finished_and_cleaned_up_job_runs_again(rig: Rig) -> None:
    run = await running(rig)
    assert "is running" in await refused(rig.resubmit("job-1"), CONFLICT)
    rig.cluster.error = KubeError("unreachable", "no route")
    rig.cluster.end_pod(run)
    await rig.pass_over(run)
    assert "isn't cleaned up yet" in await refused(rig.resubmit("job-1"), CONFLICT)
    rig.cluster.error = None
    await rig.pass_over(run)
    assert "timeout is for Jobs" in await refused(
        rig.resubmit("job-1", timeout=5), "WORKLOAD_MANAGEMENT_REQUEST_INVALID"
    )
    rig.pools.pools[POOL.id] = replace(POOL, state="deleting")
    assert "is deleting; a Job needs a running one" in await refused(rig.resubmit("job-1"), CONFLICT)
    rig.pools.pools[POOL.id] = POOL
    rig.holds.refusal = ("NO_FREE_DEVICES", "Nothing is free.")
    assert await refused(rig.resubmit("job-1"), CONFLICT) == "Nothing is free."
    assert await rig.state("job-1") == "completed", "nothing has changed"


async def test_of_two_resubmissions_at_once_one_counts(rig: Rig) -> None:
    await ended(rig)
    acquire, rivals = FakeHolds.AcquireHolds, [True]

    async def slower(holds: FakeHolds, request: Any, **more: Any) -> Any:
        if rivals.pop() if rivals else False:
            await rig.resubmit("job-1")
        return await acquire(holds, request, **more)

    rig.holds.AcquireHolds = slower.__get__(rig.holds)  # type: ignore[method-assign]
    assert "came between" in await refused(rig.resubmit("job-1"), CONFLICT)
    await settle(rig)
    assert (await rig.image_job("job-1")).job.submission_revision == 1
    assert len(rig.holds.held) == 1


# Secrets


@pytest.mark.req("SC-001", "SC-006", "SC-010")
async def test_secrets_reach_the_container_by_a_kubernetes_secret_that_goes_with_it(rig: Rig) -> None:
    await save_secret(rig, "a", URL="first", KEY="k")
    await save_secret(rig, "b", URL="second")
    run = await rig.submit_image(secrets=["a", "b"])
    await rig.pass_over(run)
    assert rig.cluster.body("Secret", run)["data"] == {"URL": "c2Vjb25k", "KEY": "aw=="}
    assert "c2Vjb25k" not in str(rig.cluster.body("Job", run))
    seen = (await rig.status("job-1")).workload
    assert list(seen.secret_names.values) == ["a", "b"]
    rig.cluster.run_pod(run)
    rig.cluster.end_pod(run)
    await rig.pass_over(run)
    assert no_objects(rig, run)


async def test_a_secret_is_in_use_until_its_job_is_over(rig: Rig) -> None:
    await save_secret(rig, "db", URL="x")
    run = await running(rig, secrets=["db"])
    assert "is used by job-1" in await refused(delete_secret(rig, "db"), "SECRET_IN_USE")
    rig.cluster.end_pod(run)
    await rig.pass_over(run)
    await delete_secret(rig, "db")
    assert "there is no such Secret" in await refused(rig.resubmit("job-1"), CONFLICT)


async def test_a_job_whose_secret_was_deleted_by_force_waits_until_it_is_saved_again(rig: Rig) -> None:
    await save_secret(rig, "db", URL="x")
    run = await rig.submit_image(secrets=["db"])
    await delete_secret(rig, "db", force=True)
    await rig.pass_over(run)
    assert (await listed(rig))[0].latest_message == "Secret db doesn't exist; save it again."
    assert ("create", "Job") not in rig.cluster.writes
    rig.run_reconcilers()
    await save_secret(rig, "db", URL="y")
    await rig.until(lambda: ("create", "Job") in rig.cluster.writes)


# Output


@pytest.mark.req("WK-011")
async def test_the_end_of_the_output_is_kept_sealed_when_the_pod_goes(rig: Rig) -> None:
    run = await running(rig)
    [pod] = rig.cluster.job_pods_of[run]
    rig.cluster.logs[pod.name, False] = ["one", "zwei ü", "three"]
    assert await rig.job_logs("job-1", tail=2) == ["zwei ü", "three"]
    rig.cluster.end_pod(run)
    await rig.pass_over(run)
    assert not rig.cluster.job_pods_of.get(run)
    assert await rig.job_logs("job-1") == ["one", "zwei ü", "three"]
    assert await rig.job_logs("job-1", tail=1, follow=True) == ["three"]
    assert await rig.job_logs("job-1", tail=0) == []
    stored = await rig.store.read(lambda conn: conn.execute(tables.image_jobs.select()).one())
    assert b"three" not in stored.output


async def test_no_more_than_the_last_whole_lines_are_kept(rig: Rig) -> None:
    run = await running(rig)
    [pod] = rig.cluster.job_pods_of[run]
    rig.cluster.logs[pod.name, False] = [f"{number:07}" for number in range(20_000)]
    rig.cluster.end_pod(run)
    await rig.pass_over(run)
    kept = await rig.job_logs("job-1")
    assert kept[-1] == "0019999" and len(kept) == ending.KEPT_LINES
    rig.cluster.logs.clear()
    again = await running(rig, "job-2")
    [pod] = rig.cluster.job_pods_of[again]
    rig.cluster.logs[pod.name, False] = ["x" * ending.KEPT_BYTES * 2, "y" * 1000]
    rig.cluster.end_pod(again)
    await rig.pass_over(again)
    assert await rig.job_logs("job-2") == ["y" * 1000]


async def test_a_node_that_gives_no_output_is_asked_for_half_a_minute(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await running(rig)

    def unreachable(*args: Any, **more: Any) -> Any:
        raise KubeError("unreachable", "kubelet")

    monkeypatch.setattr(rig.cluster, "lines", unreachable)
    rig.cluster.end_pod(run)
    assert await rig.pass_over(run) == Requeue(2.0)
    assert await rig.state("job-1") == "completed"
    await rig.clock.advance(31)
    assert await rig.pass_over(run) == Done()
    assert await rig.job_logs("job-1") == []


async def test_output_is_forgotten_with_the_events_of_its_time(rig: Rig) -> None:
    run = await running(rig)
    [pod] = rig.cluster.job_pods_of[run]
    rig.cluster.logs[pod.name, False] = ["x"]
    rig.cluster.end_pod(run)
    await rig.pass_over(run)
    await rig.service.housekeeping.step("*")
    assert await rig.job_logs("job-1") == ["x"]
    await rig.clock.advance(31 * 24 * 3600)
    await rig.service.housekeeping.step("*")
    assert await rig.job_logs("job-1") == []


async def test_logs_before_the_start_are_refused_or_waited_for(rig: Rig) -> None:
    run = await rig.submit_image()
    assert "is queued; its container hasn't started" in await refused(rig.job_logs("job-1"), CONFLICT)
    rig.act_as()
    request = pb.StreamWorkloadLogsRequest(id="job-1", follow=True)
    stream = rig.service.workloads_rpc.StreamWorkloadLogs(request, NO_CONTEXT)
    rig.run_reconcilers()
    await rig.until(lambda: run in rig.cluster.job_pods_of)
    [pod] = rig.cluster.job_pods_of[run]
    rig.cluster.logs[pod.name, False] = ["hello"]
    rig.cluster.run_pod(run)
    assert await anext(stream) == deployments_pb2.LogLine(text="hello", pod_name=pod.name)
    assert [line async for line in stream] == []


async def test_a_job_that_ends_without_having_run_has_no_output_and_nobody_waits_for_it(rig: Rig) -> None:
    run = await rig.submit_image()
    await rig.pass_over(run)
    rig.cluster.slow_kubelets = True
    await rig.terminate("job-1")
    await rig.pass_over(run)
    assert await rig.state("job-1") == "finalizing"
    assert await rig.job_logs("job-1") == []


async def test_output_that_is_kept_between_two_looks_is_told(rig: Rig) -> None:
    run = await running(rig)
    [pod] = rig.cluster.job_pods_of[run]
    rig.cluster.logs[pod.name, False] = ["hello"]
    rig.cluster.end_pod(run)
    meanwhile = [True]

    async def ends() -> None:
        if meanwhile and meanwhile.pop():
            await rig.pass_over(run)

    rig.cluster.before_read = ends
    assert await rig.job_logs("job-1") == ["hello"]
    assert no_objects(rig, run)


async def test_logs_of_a_deployments_job_are_refused_by_name(rig: Rig) -> None:
    await rig.running()
    await rig.submit("voice", "job-1")
    assert "has no logs of its own" in await refused(rig.job_logs("job-1"), CONFLICT)
    await refused(rig.job_logs("nosuch"), "WORKLOAD_MANAGEMENT_NOT_FOUND")


# The other operations


async def test_nobody_claims_a_job_with_its_own_image(rig: Rig) -> None:
    await rig.submit_image()
    rig.act_as()
    asked = pb.ObserveSubmissionRequest(id="job-1", observation=pb.ObservationSpec(submission_revision=0))
    call = rig.service.workloads_rpc.ObserveSubmission(asked, NO_CONTEXT)
    assert "no worker claims it" in await refused(call, CONFLICT)


@pytest.mark.req("WK-003")
async def test_lists_hold_jobs_of_both_kinds_newest_first_and_filter_them_alike(rig: Rig) -> None:
    deployment_id, _ = await rig.running()
    for number in range(3):
        await rig.clock.advance(1)
        await rig.submit_image(job_id=f"own-{number}", session="s" if number else None)
        await rig.clock.advance(1)
        await rig.submit("voice", f"for-{number}")

    async def ids(**filters: Any) -> list[str]:
        return [one.workload.id for one in await listed(rig, **filters)]

    assert await ids() == ["for-2", "own-2", "for-1", "own-1", "for-0", "own-0"]
    assert await ids(deployment_id=deployment_id) == ["for-2", "for-1", "for-0"]
    assert await ids(session_exact="s") == ["own-2", "own-1"]
    assert await ids(filter="acme/BATCH") == ["own-2", "own-1", "own-0"]
    await rig.terminate("own-1")
    await rig.pass_over((await rig.image_job("own-1")).job.run)
    assert await ids(status=states_pb2.WORKLOAD_STATE_TERMINATED) == ["own-1"]
    assert await ids(state_class=pb.ListWorkloadsRequest.STATE_CLASS_TERMINAL) == ["own-1"]
    rig.act_as()
    first = await rig.service.workloads_rpc.ListWorkloads(pb.ListWorkloadsRequest(limit=4), NO_CONTEXT)
    assert (first.total_count, len(first.workloads)) == (6, 4)
    rest = await ids(cursor=first.next_cursor)
    assert rest == ["for-0", "own-0"]


@pytest.mark.req("WK-004")
async def test_idle_jobs_cost_nothing(rig: Rig) -> None:
    """Nothing is asked of Kubernetes or the database while nothing changes."""
    runs = [await running(rig, f"job-{number}") for number in range(10)]
    assert [await rig.pass_over(run) for run in runs] == [Done()] * 10
    reads: list[int] = []

    async def counted() -> None:
        reads.append(1)

    rig.cluster.before_read = counted
    rig.run_reconcilers()
    await rig.clock.advance(3600)
    assert reads == []


async def test_at_the_start_every_run_that_may_have_objects_is_looked_at(rig: Rig) -> None:
    run = await running(rig)
    rig.cluster.job_changed = lambda run: None  # it ends while no process is there
    rig.cluster.end_pod(run)
    await rig.restart()
    await rig.service.mark_all()
    rig.run_reconcilers()
    await rig.until(lambda: no_objects(rig, run))
