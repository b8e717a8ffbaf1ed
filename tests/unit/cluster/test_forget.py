"""`forget`: only of a lost cluster, without a change in its cloud, with a list of what is left there."""

from __future__ import annotations

import pytest
from anycloud_cluster.store import clusters, ledger
from anycloud_common import holds
from anycloud_common.errors import ApiError

from tests.unit.cluster.fakes import SIGN_IN, World
from tests.unit.cluster.installation import Installation, at_rest


async def forget(installer: Installation, token: str | None = SIGN_IN) -> list[str]:
    answer = await installer.forgetting.forget(await installer.cluster(), token)
    return list(answer.leftovers)


async def refused(code: str, installer: Installation, token: str | None = SIGN_IN) -> str:
    with pytest.raises(ApiError) as caught:
        await forget(installer, token)
    assert caught.value.code == code
    assert await installer.store.read(clusters.everything)
    return caught.value.message


def lose(world: World) -> None:
    """The VM was terminated by hand."""
    world.serving = False
    for machine in world.cloud.machines():
        world.cloud.end(machine.id, "terminated by its owner")


@pytest.mark.req("CL-118", "CL-121", "CL-122", "CL-123", "CL-077")
async def test_a_lost_cluster_is_forgotten_and_its_cloud_is_only_read(running: Installation, world: World) -> None:
    lose(world)
    cluster = await running.cluster()
    world.calls.clear()
    left = await forget(running)
    assert await running.store.read(clusters.everything) == []
    assert (world.records, world.certificates.valid) == ({}, set())
    reads = ("describe", "list", "find", "head", "get")
    assert all(call.startswith("dns.") or any(read in call for read in reads) for call in world.calls)
    assert cluster.id in world.cloud.buckets
    assert "network" in left[0]
    assert f"anycloud_owner_api={cluster.id}" in left[1]
    assert f"bucket {cluster.id}" in left[2]
    for _ in range(3):
        await running.step()
    assert not [call for call in world.calls if call.startswith("cloud.delete")]
    rows = await running.store.read(lambda conn: ledger.of_owner(conn, "cluster", cluster.id))
    assert {row.state for row in rows} <= {"abandoned", "lost", "released"}
    assert await running.store.read(lambda conn: holds.owners(conn, "cluster", "credential", "cred-aws")) == []


@pytest.mark.req("CL-119")
async def test_a_reachable_api_refuses(running: Installation, world: World) -> None:
    for machine in world.cloud.machines():
        world.cloud.end(machine.id, "")
    message = await refused("CLUSTER_REACHABLE", running)
    assert "anycloud cluster delete prod" in message


@pytest.mark.req("CL-120")
async def test_a_machine_that_is_there_refuses(running: Installation, world: World) -> None:
    world.serving = False
    message = await refused("CLUSTER_VM_PRESENT", running)
    assert world.cloud.machines()[0].id in message


@pytest.mark.req("CL-120")
@pytest.mark.parametrize("kind", ["unreachable", "auth", "throttled"])
async def test_a_cloud_that_cant_say_refuses(running: Installation, world: World, kind: str) -> None:
    lose(world)
    world.cloud.fail("describe_machine", kind)  # type: ignore[arg-type]
    await refused("CLUSTER_VM_PRESENT", running)


async def test_a_cluster_that_is_worked_on_isnt_forgotten(installer: Installation) -> None:
    await installer.create()
    await refused("CLUSTER_BUSY", installer)


async def test_without_a_sign_in_the_record_in_dns_would_stay(running: Installation, world: World) -> None:
    lose(world)
    await refused("GITHUB_SIGN_IN_REQUIRED", running, None)
    assert world.records


@pytest.mark.req("OPEN-006")
async def test_a_terminated_cluster_can_be_forgotten_without_any_question(running: Installation, world: World) -> None:
    await running.delete()
    await running.drive(at_rest)
    world.calls.clear()
    assert await forget(running, None) == []
    assert world.calls == []
    assert await running.store.read(clusters.everything) == []
