"""What `create` refuses before anything is stored, and what it says to a cluster that there is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from anycloud_cluster.domain.cluster import Target
from anycloud_cluster.domain.ports import OutsideError
from anycloud_cluster.store import clusters
from anycloud_common import holds
from anycloud_common.errors import ApiError

from tests.unit.cluster.fakes import World
from tests.unit.cluster.installation import TARGET, Installation, at_rest


async def refused(installer: Installation, **asked: Any) -> ApiError:
    before = await installer.store.read(clusters.everything)
    with pytest.raises(ApiError) as caught:
        await installer.create(**asked)
    assert await installer.store.read(clusters.everything) == before
    return caught.value


@pytest.mark.parametrize(
    ("name", "target", "text"),
    [
        ("1prod", TARGET, "Cluster name '1prod' isn't allowed"),
        ("a b", TARGET, "isn't allowed"),
        ("x" * 65, TARGET, "has 65 characters"),
        ("prod", replace(TARGET, credential_name="gcp"), "credentialName: there is no credential 'gcp'"),
        ("prod", replace(TARGET, region="mars-1"), "Region mars-1 is not a region of AWS"),
        ("prod", replace(TARGET, zone="eu-west-1a"), "Zone eu-west-1a does not belong to region us-east-1"),
        ("prod", replace(TARGET, zone="us-east-1z"), "has no zone us-east-1z"),
        ("prod", replace(TARGET, vm_type="t9.mega"), "VM type t9.mega is not a VM type of AWS"),
        ("prod", replace(TARGET, vm_type="m6g.large"), "is arm64; only x86_64 is supported"),
    ],
)
@pytest.mark.req("OPEN-010", "OPEN-016")
async def test_a_request_that_cant_work_names_the_field_and_the_rule(
    installer: Installation, name: str, target: Target, text: str
) -> None:
    error = await refused(installer, name=name, target=target)
    assert error.code == "CLUSTER_INVALID"
    assert text in error.message


@pytest.mark.req("OPEN-008")
@pytest.mark.parametrize("token", [None, "ghs_wrong"])
async def test_without_a_github_sign_in_nothing_is_recorded(
    installer: Installation, world: World, token: str | None
) -> None:
    assert (await refused(installer, token=token)).code == "GITHUB_SIGN_IN_REQUIRED"
    assert world.calls == []


async def test_an_image_that_isnt_published_is_refused(installer: Installation, world: World) -> None:
    world.fault("registry.resolve", OutsideError("not_found", "there is no image ghcr.io/anycloud-sh/api:0.1.70"))
    error = await refused(installer)
    assert error.code == "CLUSTER_INVALID"
    assert "ghcr.io/anycloud-sh/api:0.1.70" in error.message
    world.fault("registry.resolve", OutsideError("unreachable", "timeout"))
    assert (await refused(installer)).code == "CLUSTER_UNAVAILABLE"


async def test_a_bucket_with_a_backup_is_refused_rather_than_overwritten(installer: Installation, world: World) -> None:
    cloud = world.cloud.provider()
    await cloud.buckets.create("old", "us-east-1", {})
    await cloud.objects.put("old", "anycloud-api/backup.json", b"{}")
    error = await refused(installer, target=replace(TARGET, bucket="old"))
    assert "holds a backup" in error.message


@pytest.mark.req("CL-066")
@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"credential_name": "other"}, "credential (aws, not other)"),
        ({"region": "us-west-2"}, "region (us-east-1, not us-west-2)"),
        ({"zone": "us-east-1b"}, "zone (none, not us-east-1b)"),
        ({"vm_type": "t3.small"}, "VM type (t3.large, not t3.small)"),
        ({"bucket": "mine"}, "checkpoint bucket (none, not mine)"),
    ],
)
async def test_another_target_for_the_cluster_that_there_is_is_refused(
    installer: Installation, change: dict[str, str], named: str
) -> None:
    await installer.create()
    error = await refused(installer, target=replace(TARGET, **change))
    assert error.code == "CLUSTER_EXISTS"
    assert named in error.message


@pytest.mark.req("CL-067", "CL-001")
async def test_a_second_cluster_is_refused(installer: Installation) -> None:
    await installer.create()
    error = await refused(installer, name="second")
    assert error.code == "CLUSTER_EXISTS"
    assert "anycloud cluster delete prod" in error.message


async def test_the_same_request_twice_is_one_cluster(installer: Installation, world: World) -> None:
    first = await installer.create()
    second = await installer.create(name="PROD")
    assert second.id == first.id
    await installer.drive(at_rest)
    assert len(world.cloud.machines()) == 1


async def test_a_running_cluster_is_named_with_its_url(running: Installation) -> None:
    cluster = await running.cluster()
    error = await refused(running)
    assert error.code == "CLUSTER_EXISTS"
    assert f"anycloud api use {cluster.api_url}" in error.message


async def test_another_account_cant_go_on_with_it(installer: Installation, world: World) -> None:
    world.cloud.fail("create_machine", "auth")
    await installer.create()
    await installer.drive(at_rest)
    error = await refused(installer, token="ghs_sandbox_eve")
    assert error.code == "GITHUB_SIGN_IN_REQUIRED"
    assert "begun by GitHub account demo" in error.message


@pytest.mark.req("OPEN-016")
async def test_a_name_that_is_an_id_is_refused(running: Installation) -> None:
    await running.delete()
    old = await running.drive(at_rest)
    error = await refused(running, name=old.id)
    assert "is the id of another cluster" in error.message
    await running.create()  # the name of a terminated one is free


async def test_the_cluster_holds_its_credential_until_its_end(installer: Installation) -> None:
    cluster = await installer.create()
    owners = await installer.store.read(lambda conn: holds.owners(conn, "cluster", "credential", "cred-aws"))
    assert owners == [holds.Owner("cluster", cluster.id)]


async def test_while_it_is_being_deleted_a_create_waits(running: Installation) -> None:
    await running.delete()
    assert (await refused(running)).code == "CLUSTER_BUSY"
    assert (await refused(running, name="second")).code == "CLUSTER_EXISTS"
