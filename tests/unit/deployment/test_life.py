"""One Deployment and its Jobs, from create to delete, through the real servicers and reconcilers."""

from __future__ import annotations

from anycloud_common.reconcile import Done
from anycloudapi.deployment.v1 import states_pb2

from tests.unit.deployment.rig import Rig, execution


async def test_the_whole_life_of_a_deployment_and_a_job(rig: Rig) -> None:
    deployment_id, pod = await rig.running()
    assert (await rig.get("voice")).status.ready
    admission = await rig.submit("voice", "job-1")
    assert (admission.id, admission.submission_revision) == ("job-1", 0)
    assert await rig.pick_up(deployment_id, pod, execution(1)) == "job-1"
    await rig.report(deployment_id, pod, "job-1", execution(1))
    await rig.clean_up(deployment_id, pod, "job-1", execution(1))
    status = await rig.status("job-1")
    assert status.workload.state == states_pb2.WORKLOAD_STATE_COMPLETED
    assert status.workload.HasField("cleaned_at")
    await rig.delete("voice")
    assert await rig.reconcile(deployment_id) == Done()
    assert (await rig.get(deployment_id)).deleted_at
    assert rig.cluster.objects == {}
