"""Upgrades of services: there are no services among the workloads."""

from __future__ import annotations

from typing import Any

import pytest
from anycloud_common.errors import ApiError
from anycloud_common.rest import Invalid
from anycloudapi.deployment.v1 import services_pb2

from tests.support.operations import Operation
from tests.unit.deployment.rig import NO_CONTEXT, Rig

UPGRADE = Operation(services_pb2.DESCRIPTOR.services_by_name["Services"], "UpgradeService")
BODY = {"image": "acme/web:v2", "command": [], "env": {"A": "1"}, "binds": ["/data"]}


async def test_nothing_is_a_service(rig: Rig) -> None:
    deployment_id, _ = await rig.running()
    for workload_id in ("svc-1", deployment_id):
        with pytest.raises(ApiError, match=workload_id) as refused:
            await rig.service.services_rpc.UpgradeService(UPGRADE.request(BODY, id=workload_id), NO_CONTEXT)
        assert refused.value.code == "SERVICE_NOT_FOUND"


async def test_a_job_is_told_apart(rig: Rig) -> None:
    await rig.running()
    await rig.submit("voice", "job-1")
    with pytest.raises(ApiError, match="job-1 is a Job") as refused:
        await rig.service.services_rpc.UpgradeService(UPGRADE.request(BODY, id="job-1"), NO_CONTEXT)
    assert refused.value.code == "SERVICE_NOT_FOUND"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (None, "body: a JSON object is required"),
        ({}, "image: is required"),
        ({"image": ""}, "image: must have"),
        ({"image": "a", "ports": []}, 'unknown key "ports"'),
        ({"image": "a", "command": "run"}, "command: must be"),
    ],
)
def test_a_misshapen_upgrade_is_refused(body: Any, text: str) -> None:
    with pytest.raises(Invalid) as refused:
        UPGRADE.request(body, id="svc-1")
    assert text.removeprefix("body: ") in str(refused.value)
