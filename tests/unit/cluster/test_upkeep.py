"""What goes on beside requests: reachability, the sweep, and who may hold a cluster when."""

from __future__ import annotations

from typing import Any

import pytest
from anycloud_cluster.domain.cluster import State
from anycloud_cluster.reconcile.sweep import EVERY_S, Sweep
from anycloud_cluster.rpc.facts import ClusterFactsServicer
from anycloud_cluster.rpc.policy import Policy
from anycloud_cluster.store import clusters, refs
from anycloud_common.errors import ApiError
from anycloud_common.holds import Owner, Parent
from anycloud_providers.protocol import MachineSpec, NetworkSpec
from anycloudapi.cluster.internal.v1 import cluster_pb2

from tests.unit.cluster.fakes import World
from tests.unit.cluster.installation import IDENTITY, Installation, at_rest

POOL = Owner("node-pool", "np-1")


@pytest.mark.req("CL-127", "OPEN-013")
async def test_a_cluster_that_doesnt_answer_keeps_its_state_and_identity(running: Installation, world: World) -> None:
    cluster = await running.cluster()
    world.kube_down = True
    await running.reachability.handle(cluster.id)
    lost = await running.cluster()
    assert (lost.state, lost.connected) == (State.RUNNING, False)
    assert "connection refused" in (lost.last_error or "")
    assert lost.kubernetes_identity == cluster.kubernetes_identity
    world.kube_down = False
    await running.reachability.handle(cluster.id)
    found = await running.cluster()
    assert (found.connected, found.last_error) == (True, None)


async def test_another_control_plane_behind_the_endpoint_isnt_connected(running: Installation, world: World) -> None:
    world.uid = "uid-of-a-stranger"
    await running.reachability.handle((await running.cluster()).id)
    cluster = await running.cluster()
    assert not cluster.connected
    assert "uid-of-a-stranger" in (cluster.last_error or "")


async def test_a_look_that_finds_nothing_new_writes_nothing(running: Installation) -> None:
    before = await running.cluster()
    await running.reachability.handle(before.id)
    assert await running.cluster() == before


async def orphan(world: World, name: str = "orphan") -> str:
    cloud = world.cloud.provider()
    tags = {"anycloud_ledger": IDENTITY.ledger}
    [network, *_] = await cloud.networks.list({})
    spec = MachineSpec(name, name, "us-east-1", None, "t3.large", "default", network.id, tags, "")
    return (await cloud.machines.create(spec)).id


def sweep_of(installation: Installation) -> Sweep:
    return Sweep(installation.store, installation.worlds, IDENTITY, installation.clock)


async def swept(installation: Installation, sweep: Sweep, times: int = 3) -> None:
    for _ in range(times):
        await sweep.handle("all")
        await installation.clock.advance(EVERY_S)


async def test_an_orphan_is_reported_first_and_ended_a_sweep_later(running: Installation, world: World) -> None:
    found = await orphan(world)
    sweep = sweep_of(running)
    await sweep.handle("all")
    assert world.machines_alive == 2
    await running.clock.advance(EVERY_S)
    await sweep.handle("all")
    world.cloud.settle()
    assert world.machines_alive == 1
    assert [m.state for m in world.cloud.machines() if m.id == found] == ["terminated"]


async def test_things_of_other_ledgers_are_never_seen(running: Installation, world: World) -> None:
    cloud = world.cloud.provider()
    await cloud.networks.create(NetworkSpec("t", "hosted", "us-east-1", {"anycloud_ledger": "hosted"}))
    await swept(running, sweep_of(running))
    assert "cloud.delete_network" not in world.calls


async def test_a_list_that_lacks_what_runs_ends_nothing(running: Installation, world: World) -> None:
    await orphan(world)
    cluster = await running.cluster()
    row = await running.store.read(lambda conn: refs_row(conn, cluster.token("machine")))
    world.cloud.made("account").items.pop(row.provider_id)
    await swept(running, sweep_of(running))
    assert "cloud.delete_machine" not in world.calls


async def test_an_error_ends_nothing(running: Installation, world: World) -> None:
    await orphan(world)
    world.cloud.fail("list_networks", "unreachable", times=10)
    await swept(running, sweep_of(running))
    assert "cloud.delete_machine" not in world.calls


async def test_above_the_cap_nothing_is_ended(running: Installation, world: World) -> None:
    for number in range(6):
        await orphan(world, f"orphan-{number}")
    await swept(running, sweep_of(running))
    assert world.machines_alive == 7


async def test_an_empty_ledger_ends_nothing(installer: Installation, world: World) -> None:
    cloud = world.cloud.provider()
    await cloud.networks.create(NetworkSpec("t", "n", "us-east-1", {"anycloud_ledger": IDENTITY.ledger}))
    await swept(installer, sweep_of(installer))
    assert "cloud.delete_network" not in world.calls


@pytest.mark.req("OPEN-033")
async def test_pools_are_taken_by_a_running_cluster_only_and_the_refusal_names_its_state(
    installer: Installation, world: World
) -> None:
    async def refusal() -> str | None:
        cluster = await installer.cluster()
        parent = Parent("cluster", cluster.id)
        found = await installer.store.read(lambda conn: Policy().check(conn, parent, POOL, 0))
        return None if found is None else found.code

    await installer.create()
    assert await refusal() == "NODE_POOLS_UNAVAILABLE"
    await installer.drive(at_rest)
    assert await refusal() is None
    await installer.delete()
    assert await refusal() == "CLUSTER_NOT_ACCEPTING"
    for parent, code in (
        (Parent("cluster", "cl-absent"), "CLUSTER_NOT_FOUND"),
        (Parent("credential", "cred-absent"), "NODE_POOL_CREDENTIAL_NOT_FOUND"),
    ):
        found = await installer.store.read(lambda conn, p=parent: Policy().check(conn, p, POOL, 0))  # type: ignore[misc]
        assert found is not None
        assert found.code == code


async def test_facts_are_found_by_id_by_name_and_as_the_only_one(running: Installation) -> None:
    facts = ClusterFactsServicer(running.store)
    cluster = await running.cluster()
    for wanted in (cluster.id, "prod", "PROD", ""):
        found = await facts.GetCluster(cluster_pb2.GetClusterFactsRequest(id_or_name=wanted), None)
        assert (found.id, found.state, found.accepting) == (cluster.id, "running", True)
        assert (found.management_api_url, found.api_url) == (cluster.api_url, "")
    with pytest.raises(ApiError) as caught:
        await facts.GetCluster(cluster_pb2.GetClusterFactsRequest(id_or_name="absent"), None)
    assert caught.value.code == "CLUSTER_NOT_FOUND"
    credential = await facts.GetCredential(cluster_pb2.GetCredentialFactRequest(name="aws"), None)
    assert (credential.id, credential.account) == ("cred-aws", "account")


async def test_the_feed_lists_what_is_there(running: Installation) -> None:
    cluster = await running.cluster()
    kinds = ["cluster", "credential", "resource", "token"]
    found = await running.store.read(lambda conn: list(refs.listed(conn, kinds)))
    assert ("cluster", cluster.id) in found
    assert ("credential", "cred-aws") in found
    assert ("resource", cluster.token("machine")) in found
    assert {kind for kind, _ in found} == {"cluster", "credential", "resource"}


async def test_an_interrupted_creation_may_be_deleted(installer: Installation, world: World) -> None:
    await installer.create()
    await installer.step()
    with pytest.raises(ApiError):
        await installer.delete()
    await installer.start()
    await installer.delete()
    ended = await installer.drive(at_rest)
    assert (ended.state, world.machines_alive) == (State.TERMINATED, 0)


async def test_after_a_restart_an_open_question_is_taken_back(running: Installation, world: World) -> None:
    cluster = await running.cluster()
    sealed = clusters.seal(running.cipher, cluster.id, "sealed_github_token", "ghs_sandbox_demo")
    asked: dict[str, Any] = {"delete_id": "del-9", "delete_stage": "fencing", "sealed_github_token": sealed}
    await running.store.write(lambda tx: clusters.change(tx, cluster, asked))
    await running.start()
    await running.drive(lambda c: not c.delete_stage)
    assert world.withdrawn == ["del-9"]


def refs_row(conn: Any, token: str) -> Any:
    from anycloud_cluster.store import ledger

    return ledger.find(conn, token)
