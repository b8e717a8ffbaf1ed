"""A cluster as HTTP clients get it: the contract's keys, each of them always there."""

from __future__ import annotations

import json
from typing import Any

import pytest
from anycloud_cluster.domain.cluster import State
from anycloud_cluster.rpc.cluster_messages import message
from anycloud_common.rest import Codec

from tests.unit.cluster.fakes import IMAGE, World
from tests.unit.cluster.installation import Installation, at_rest

KEYS = {
    "activeNodePoolCount",
    "address",
    "apiImage",
    "apiVersion",
    "chartVersion",
    "cloudProvider",
    "connected",
    "connectionRevision",
    "createdAt",
    "id",
    "k3sVersion",
    "kubernetesIdentity",
    "lastError",
    "managementApiUrl",
    "name",
    "region",
    "release",
    "releasing",
    "state",
    "updatedAt",
    "vmType",
    "zone",
}


async def shown(installer: Installation) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(Codec().json(message(await installer.cluster(), 0)))
    assert document.keys() == KEYS
    return document


@pytest.mark.req("CL-124", "CL-125", "CL-126", "CL-129", "CL-130", "CL-131", "CL-132", "OPEN-003", "CL-056")
async def test_facts_appear_as_they_become_true(installer: Installation, world: World) -> None:
    world.version = "0.0.1"
    await installer.create()
    fresh = await shown(installer)
    assert (fresh["state"], fresh["releasing"], fresh["connected"]) == ("provisioning", False, False)
    assert (fresh["cloudProvider"], fresh["region"], fresh["vmType"]) == ("AWS", "us-east-1", "t3.large")
    assert fresh["connectionRevision"] == 1
    unknown = ("address", "apiImage", "apiVersion", "kubernetesIdentity", "lastError", "managementApiUrl", "release")
    assert {key: fresh[key] for key in (*unknown, "zone", "chartVersion")} == dict.fromkeys(
        (*unknown, "zone", "chartVersion")
    )
    await installer.drive(lambda c: c.phase == "serve")
    starting = await shown(installer)
    assert starting["state"] == "starting"
    assert starting["release"] == {"apiImage": IMAGE, "apiVersion": "0.1.70", "chartVersion": "0.1.70"}
    assert starting["managementApiUrl"] is None
    world.version = "0.1.70"
    await installer.drive(at_rest)
    running = await shown(installer)
    assert (running["state"], running["connected"]) == ("running", True)
    assert running["managementApiUrl"] == f"https://{running['id']}.anycloud.sh"
    assert running["kubernetesIdentity"] == "uid-of-kube-system"
    assert running["apiImage"] == IMAGE


@pytest.mark.req("CL-124", "CL-133", "CL-099")
async def test_a_deleted_one_keeps_its_record_and_points_nowhere(running: Installation) -> None:
    await running.delete()
    deleting = await shown(running)
    assert (deleting["state"], deleting["releasing"]) == ("terminated", True)
    await running.drive(at_rest)
    ended = await shown(running)
    assert (ended["state"], ended["releasing"], ended["connected"]) == ("terminated", False, False)
    assert ended["address"] is ended["managementApiUrl"] is ended["release"] is None


def test_there_are_the_six_states_of_a_workload_and_no_other() -> None:
    assert {state.value for state in State} == {
        "provisioning",
        "initializing",
        "starting",
        "running",
        "failed",
        "terminated",
    }
