"""Ending a cluster: the question to its own API, the refusals with their next commands, the order, what is left."""

from __future__ import annotations

import asyncio
import base64
import json
from dataclasses import replace
from hashlib import sha256

import pytest
from anycloud_cluster.domain.cluster import DELETE_PHASES, Cluster, DeleteStage, State
from anycloud_cluster.domain.ports import OutsideError
from anycloud_cluster.reconcile.delete import PHASES
from anycloud_cluster.store import clusters
from anycloud_common import holds
from anycloud_common.errors import ApiError
from anycloud_common.kube import KubeError
from anycloud_providers.protocol import MachineSpec

from tests.unit.cluster.fakes import SIGN_IN, World
from tests.unit.cluster.installation import TARGET, Installation, at_rest


async def refusal(installer: Installation, token: str | None = SIGN_IN) -> ApiError:
    with pytest.raises(ApiError) as caught:
        await installer.delete(token)
    return caught.value


def test_the_steps_of_the_record_are_those_of_the_reconciler() -> None:
    assert tuple(PHASES) == DELETE_PHASES


@pytest.mark.req("CL-101")
async def test_the_hosted_api_is_asked_before_any_cloud_call(running: Installation, world: World) -> None:
    world.calls.clear()
    await running.delete()
    await running.drive(at_rest)
    assert world.calls[:2] == ["hosted.exchange", "hosted.fence"]
    assert len(world.fences) == 1


@pytest.mark.req("CL-097", "CL-098", "CL-099", "CL-083", "CL-077", "CL-025", "CL-124")
async def test_all_that_was_made_is_ended_and_the_record_stays_without_secrets(
    running: Installation, world: World
) -> None:
    cluster = await running.cluster()
    objects = world.cloud.provider().objects
    for content in (b"one", b"two"):
        await objects.put(cluster.id, "anycloud-api/database.sqlite", content)
    deleting = await running.delete()
    assert (deleting.state, deleting.releasing) == (State.TERMINATED, True)
    ended = await running.drive(at_rest)
    assert (ended.state, ended.releasing, ended.last_error) == (State.TERMINATED, False, None)
    assert world.machines_alive == 0
    assert (world.cloud.buckets, world.records, world.certificates.valid) == ({}, {}, set())
    assert ended.sealed_connection is ended.sealed_keys is ended.sealed_github_token is None
    assert not ended.connected
    held = await running.store.read(lambda conn: holds.owners(conn, "cluster", "credential", "cred-aws"))
    assert held == []


async def test_the_machine_goes_first_and_network_and_address_after_it(running: Installation, world: World) -> None:
    world.calls.clear()
    await running.delete()
    await running.drive(at_rest)
    order = list(dict.fromkeys(call for call in world.calls if "delete" in call or "revoke" in call))
    assert order == [
        "cloud.delete_machine",
        "cloud.delete_bucket",
        "dns.delete",
        "dns.revoke",
        "cloud.delete_address",
        "cloud.delete_network",
    ]


@pytest.mark.req("CL-022")
async def test_a_bucket_of_the_users_is_never_touched(installer: Installation, world: World) -> None:
    await world.cloud.provider().buckets.create("mine", "us-east-1", {})
    await installer.create(target=replace(TARGET, bucket="mine"))
    await installer.drive(lambda c: c.state == "running")
    await world.cloud.provider().objects.put("mine", "kept", b"kept")
    await installer.delete()
    await installer.drive(at_rest)
    assert "kept" in world.cloud.buckets["mine"].objects


@pytest.mark.req("CL-102", "CL-100")
async def test_pools_with_deployments_refuse_and_the_steps_are_named_in_order(
    running: Installation, world: World
) -> None:
    world.pools, world.services = ["gpu"], ["job-7"]
    error = await refusal(running)
    assert error.code == "CLUSTER_REFERENCED"
    steps = [
        "anycloud deployment delete dep-gpu",
        "anycloud terminate job-7",
        "anycloud node-pool delete gpu",
        "anycloud cluster delete prod",
    ]
    places = [error.message.index(step) for step in steps]
    assert places == sorted(places)
    cluster = await running.cluster()
    assert (cluster.state, cluster.delete_stage, cluster.sealed_github_token) == (State.RUNNING, "", None)
    assert world.machines_alive == 1


@pytest.mark.req("CL-103")
async def test_a_pool_without_deployments_refuses_too(running: Installation, world: World) -> None:
    world.pools = ["empty-1"]
    error = await refusal(running)
    assert "anycloud node-pool delete empty-1" in error.message
    assert "deployment delete" not in error.message


@pytest.mark.req("CL-104", "CL-107", "CL-108")
async def test_an_api_that_served_and_is_silent_refuses_and_names_what_to_end_by_hand(
    running: Installation, world: World
) -> None:
    world.serving = False
    error = await refusal(running)
    assert error.code == "CLUSTER_UNREACHABLE"
    [machine] = world.cloud.machines()
    cluster = await running.cluster()
    for part in (machine.id, f"anycloud_owner_api={cluster.id}", "anycloud cluster forget prod", "holds no backup"):
        assert part in error.message
    assert world.machines_alive == 1
    assert cluster.id in world.cloud.buckets


@pytest.mark.req("CL-105", "CL-106", "CL-104")
@pytest.mark.parametrize("zone", [None, "us-east-1a"])
async def test_with_a_backup_the_refusal_is_the_command_that_restores_it(
    installer: Installation, world: World, zone: str | None
) -> None:
    await installer.create(target=replace(TARGET, zone=zone))
    cluster = await installer.drive(lambda c: c.state == "running")
    await back_up(world, cluster.id)
    world.serving = False
    error = await refusal(installer)
    place = "--region us-east-1 --zone us-east-1a" if zone else "--region us-east-1"
    assert (
        f"`anycloud cluster create prod --credentials aws {place} --vm-type t3.large --checkpoint-bucket {cluster.id}`"
    ) in error.message
    assert "terminate that VM first" in error.message


@pytest.mark.req("CL-107")
@pytest.mark.parametrize(
    ("damage", "text"),
    [
        ("digest", "is not complete"),
        ("newer", "newer version 0.2.0"),
        ("denied", "can't be read"),
        ("garbage", "is not complete"),
    ],
)
async def test_a_backup_that_cant_be_restored_counts_as_none(
    running: Installation, world: World, damage: str, text: str
) -> None:
    cluster = await running.cluster()
    await back_up(world, cluster.id, damage)
    if damage == "denied":
        world.cloud.fail("list_objects", "auth")
    world.serving = False
    error = await refusal(running)
    assert text in error.message
    assert "anycloud cluster forget prod" in error.message


@pytest.mark.req("CL-011")
async def test_an_api_that_never_served_and_has_no_pools_doesnt_hold_up_the_deletion(
    installer: Installation, world: World
) -> None:
    await made_but_not_serving(installer, world)
    await installer.delete()
    ended = await installer.drive(at_rest)
    assert ended.state is State.TERMINATED


async def test_an_api_that_never_served_but_has_pool_machines_does(installer: Installation, world: World) -> None:
    cluster = await made_but_not_serving(installer, world)
    tags = {"anycloud_owner_api": cluster.id, "anycloud_role": "pool"}
    [network] = await world.cloud.provider().networks.list({})
    spec = MachineSpec("t", "pool-vm", "us-east-1", None, "t3.large", "default", network.id, tags, "")
    pool = await world.cloud.provider().machines.create(spec)
    error = await refusal(installer)
    assert error.code == "CLUSTER_UNREACHABLE"
    assert pool.id in error.message


@pytest.mark.req("CL-116")
@pytest.mark.parametrize("phase", ["bucket", "machine", "k3s", "release", "serve"])
async def test_a_cluster_that_is_being_made_isnt_deleted(installer: Installation, world: World, phase: str) -> None:
    world.version = "0.0.1"
    world.fault("kube.ensure", *[KubeError("unreachable", "connection refused")] * 3)
    await installer.create()
    await installer.drive(lambda c: c.phase == phase)
    error = await refusal(installer)
    assert error.code == "CLUSTER_BUSY"
    assert "anycloud cluster status prod --watch" in error.message


async def test_without_a_sign_in_the_hosted_api_cant_be_asked(running: Installation, world: World) -> None:
    world.calls.clear()
    assert (await refusal(running, None)).code == "GITHUB_SIGN_IN_REQUIRED"
    assert world.calls == []


async def test_an_account_that_the_hosted_api_doesnt_let_in_deletes_nothing(
    running: Installation, world: World
) -> None:
    world.fault("hosted.exchange", OutsideError("auth", "eve may not use this API"))
    error = await refusal(running)
    assert error.code == "FORBIDDEN"
    assert (await running.cluster()).delete_stage is DeleteStage.NONE


async def test_a_question_without_answer_is_taken_back_until_that_is_answered(
    running: Installation, world: World
) -> None:
    lost = OutsideError("unreachable", "no answer within 10 s")
    world.fault("hosted.fence", lost)
    assert (await refusal(running)).code == "CLUSTER_UNREACHABLE"
    asked = await running.cluster()
    assert asked.delete_stage is DeleteStage.WITHDRAWING
    world.fault("hosted.withdraw", lost, lost)
    cluster = await running.drive(lambda c: not c.delete_stage)
    assert world.withdrawn == [asked.delete_id]
    assert cluster.sealed_github_token is None
    assert cluster.state is State.RUNNING


async def test_a_caller_who_leaves_cuts_no_question_in_two(running: Installation, world: World) -> None:
    asked = asyncio.create_task(running.delete())
    while not world.questions:  # noqa: ASYNC110 - the question is asked by a task of its own
        await asyncio.sleep(0)
    asked.cancel()
    await running.drive(lambda c: c.state is State.TERMINATED and not c.releasing)
    assert world.machines_alive == 0


async def test_an_error_after_the_question_takes_it_back(running: Installation, world: World) -> None:
    world.fault("hosted.fence", RuntimeError("out of memory"))
    with pytest.raises(RuntimeError):
        await running.delete()
    assert (await running.cluster()).delete_stage is DeleteStage.WITHDRAWING


async def test_a_delete_after_an_open_question_takes_that_back_first(running: Installation, world: World) -> None:
    world.fault("hosted.fence", OutsideError("unreachable", "no answer within 10 s"))
    await refusal(running)
    first = (await running.cluster()).delete_id
    await running.delete()
    assert world.withdrawn == [first]
    assert world.fences != [first]
    await running.drive(at_rest)
    assert world.machines_alive == 0


@pytest.mark.req("CL-114", "CL-134", "CL-068", "CL-115", "CL-135")
async def test_a_step_that_fails_leaves_the_cluster_failed_and_delete_goes_on_there(
    running: Installation, world: World
) -> None:
    world.cloud.fail("delete_bucket", "auth")
    await running.delete()
    failed = await running.drive(at_rest)
    assert failed.state is State.FAILED
    assert (failed.last_error or "").startswith("Delete failed: ")
    assert failed.releasing
    with pytest.raises(ApiError) as caught:
        await running.create()
    assert caught.value.code == "CLUSTER_DESTROY_FAILED"
    assert "anycloud cluster delete prod" in caught.value.message
    world.calls.clear()
    await running.delete()
    ended = await running.drive(at_rest)
    assert ended.state is State.TERMINATED
    assert "cloud.delete_machine" not in world.calls
    assert "hosted.fence" not in world.calls


async def test_a_sign_in_that_is_refused_meanwhile_fails_the_step_and_delete_brings_a_fresh_one(
    running: Installation, world: World
) -> None:
    await running.delete()
    world.refused = {SIGN_IN}
    failed = await running.drive(at_rest)
    assert "GITHUB_SIGN_IN_REQUIRED" in (failed.last_error or "")
    world.refused = set()
    await running.delete()
    ended = await running.drive(at_rest)
    assert (ended.state, world.records) == (State.TERMINATED, {})


@pytest.mark.req("CL-096")
async def test_a_cluster_is_found_by_id_and_by_name_the_live_one_first(running: Installation) -> None:
    await running.delete()
    first = await running.drive(at_rest)
    assert (await running.store.read(lambda conn: clusters.find(conn, "PROD"))) == first
    await running.create()
    second = await running.cluster()
    assert second.id != first.id
    assert (await running.store.read(lambda conn: clusters.find(conn, "prod"))).id == second.id  # type: ignore[union-attr]
    assert (await running.store.read(lambda conn: clusters.find(conn, first.id))) == first


async def test_deleting_what_is_deleted_answers_the_record(running: Installation, world: World) -> None:
    await running.delete()
    ended = await running.drive(at_rest)
    world.calls.clear()
    assert await running.delete(None) == ended
    assert world.calls == []


async def made_but_not_serving(installer: Installation, world: World) -> Cluster:
    """The release is applied, and creating has failed before the API ever answered."""
    world.foreign = {("HelmChart", "anycloud-traefik")}
    await installer.create()
    failed = await installer.drive(at_rest)
    assert failed.released
    assert not failed.served
    world.serving = False
    return failed


async def back_up(world: World, bucket: str, damage: str = "") -> None:
    objects = world.cloud.provider().objects
    database = b"database"
    digest = sha256(b"other" if damage == "digest" else database).hexdigest()
    manifest = {"databaseSha256": digest, "apiVersion": "0.2.0" if damage == "newer" else "0.1.70"}
    await objects.put(bucket, "anycloud-api/database.sqlite", database)
    await objects.put(bucket, "anycloud-api/cipher.key", base64.b64encode(b"key"))
    content = b"{" if damage == "garbage" else json.dumps(manifest).encode()
    await objects.put(bucket, "anycloud-api/backup.json", content)
