"""SSH access to workloads: containers of a Deployment have none."""

from __future__ import annotations

import pytest
from anycloud_common.errors import ApiError, NotAvailable
from anycloud_common.rest import Invalid
from anycloudapi.deployment.v1 import ssh_access_pb2

from tests.support.operations import Operation
from tests.unit.deployment.rig import NO_CONTEXT, Rig

GET = Operation(ssh_access_pb2.DESCRIPTOR.services_by_name["SshAccess"], "GetSshAccess")


async def test_a_job_on_a_deployment_has_no_ssh_access(rig: Rig) -> None:
    deployment_id, _ = await rig.running()
    await rig.submit("voice", "job-1")
    with pytest.raises(NotAvailable) as refused:
        await rig.service.ssh_rpc.GetSshAccess(GET.request(id="job-1", mode="exec"), NO_CONTEXT)
    assert "SSH access to Job job-1 isn't available" in str(refused.value)
    assert deployment_id in str(refused.value)


async def test_an_unknown_workload_is_not_found(rig: Rig) -> None:
    with pytest.raises(ApiError, match="job-9") as refused:
        await rig.service.ssh_rpc.GetSshAccess(GET.request(id="job-9", mode="exec"), NO_CONTEXT)
    assert refused.value.code == "WORKLOAD_MANAGEMENT_NOT_FOUND"


def test_the_mode_has_to_be_said() -> None:
    with pytest.raises(Invalid, match="mode: is required"):
        GET.request(id="job-1")
