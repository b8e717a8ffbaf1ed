"""Deleting a pool: who may be in the way, in which order things go, and what stays."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from anycloud_common.errors import ApiError
from anycloud_common.holds import Owner
from anycloud_common.kube import KubeError, names
from anycloud_nodepool.domain.model import ResourceState

from tests.unit.nodepool.fakes import unavailable
from tests.unit.nodepool.rig import Rig


@pytest.mark.req("NP-063", "NP-064")
@pytest.mark.parametrize("kind", ["deployment", "service", "job"])
async def test_a_pool_that_anything_refers_to_is_not_deleted_and_the_answer_names_it(rig: Rig, kind: str) -> None:
    pool_id = await rig.running()
    await rig.hold(pool_id, owner=Owner(kind, "x-1"))
    with pytest.raises(ApiError) as caught:
        await rig.delete()
    assert caught.value.code == "NODE_POOL_REFERENCED"
    assert f"{kind} x-1" in caught.value.message
    assert (await rig.pool(pool_id)).state == "running"
    await rig.let_go()
    assert (await rig.delete()).releasing


@pytest.mark.req("NP-059", "NP-074")
async def test_deletion_answers_at_once_by_id_or_name_and_again_alike(rig: Rig) -> None:
    pool_id = await rig.running()
    first = await rig.delete("CPU")
    again = await rig.delete(pool_id)
    assert first.releasing
    assert again.releasing
    assert (await rig.told(pool_id)).count("deletion-requested") == 1
    with pytest.raises(ApiError) as caught:
        await rig.delete("nobody")
    assert caught.value.code == "NODE_POOL_NOT_FOUND"


@pytest.mark.req("NP-075")
async def test_everything_goes_in_its_order(rig: Rig) -> None:
    pool_id = await rig.running(count=2)
    await rig.hold(pool_id)
    await rig.run(pool_id)
    await rig.let_go()
    rig.world.calls.clear()
    await rig.delete()
    assert (await rig.pool(pool_id)).state == "deleting"
    await rig.run(pool_id)
    assert (await rig.pool(pool_id)).state == "deleted"
    kinds = ["patch Node", "release at-", "delete Node", "delete Secret", "delete Namespace", "release np-"]
    places = [[n for n, call in enumerate(rig.world.calls) if call.startswith(kind)] for kind in kinds]
    assert [len(found) for found in places] == [2, 2, 2, 2, 1, 1]
    for earlier, later in itertools.pairwise(places):
        assert max(earlier) < min(later)
    assert not rig.world.node_facts
    assert not rig.world.objects
    assert {fact.state for fact in rig.world.resource_facts.values()} == {ResourceState.RELEASED}


@pytest.mark.req("NP-075", "NP-076")
async def test_nodes_network_and_pool_wait_until_the_provider_has_confirmed_each_release(rig: Rig) -> None:
    pool_id = await rig.running(count=2)
    rig.world.ending = False
    await rig.delete()
    await rig.wait(pool_id, 24 * 3600, step=3600)
    pool = await rig.get(pool_id)
    assert pool.releasing
    assert pool.capacity.draining_vm_count == 2
    assert len(rig.world.node_facts) == 2
    first, second = rig.world.machines(ResourceState.RELEASING)
    rig.world.turn(first, ResourceState.RELEASED)
    rig.world.turn(second, ResourceState.RELEASING, failure="throttled: slow down")
    await rig.run(pool_id)
    pool = await rig.get(pool_id)
    assert len(rig.world.node_facts) == 1
    assert pool.releasing
    assert "throttled: slow down" in pool.last_error
    assert not rig.world.count("release np-")
    rig.world.turn(second, ResourceState.RELEASED)
    rig.world.ending = True
    await rig.run(pool_id)
    assert not (await rig.get(pool_id)).releasing


@pytest.mark.req("NP-068", "NP-069")
@pytest.mark.parametrize("round", range(8))
async def test_of_an_admission_and_a_deletion_at_one_moment_exactly_one_wins(rig: Rig, round: int) -> None:
    pool_id = await rig.running()
    hold = rig.hold(pool_id)
    calls = [hold, rig.delete()] if round % 2 else [rig.delete(), hold]
    results = await asyncio.gather(*calls, return_exceptions=True)
    held, deleted = results if round % 2 else reversed(results)
    refused = isinstance(deleted, ApiError) and deleted.code == "NODE_POOL_REFERENCED"
    assert (held is None) == refused
    if held is not None:
        assert "is deleting" in str(held)


@pytest.mark.req("NP-070", "NP-071")
async def test_a_namespace_to_which_something_refers_again_stays(rig: Rig) -> None:
    from anycloud_common.holds import tables
    from sqlalchemy import MetaData, insert

    pool_id = await rig.running()
    await rig.hold(pool_id)
    await rig.run(pool_id)
    await rig.let_go()
    await rig.delete()
    row = {"admission_id": "a", "parent_kind": "node-pool", "parent_id": pool_id, "service": "d"}
    row |= {"owner_kind": "job", "owner_id": "j"}
    hold = tables("nodepool", MetaData()).hold
    await rig.store.write(lambda tx: tx.conn.execute(insert(hold).values(**row, devices=0, created_at=0)))
    await rig.run(pool_id)
    assert names.pool_namespace("cl-1", pool_id) in rig.world.named("Namespace")
    assert (await rig.get(pool_id)).releasing
    await rig.let_go("a")
    await rig.run(pool_id)
    assert rig.world.named("Namespace") == []


@pytest.mark.req("NP-072")
async def test_a_foreign_namespace_survives_the_pool_and_is_noted(rig: Rig) -> None:
    pool_id = await rig.running()
    namespace = names.pool_namespace("cl-1", pool_id)
    rig.world.objects["Namespace", "", namespace] = {"metadata": {"name": namespace, "uid": "theirs"}}
    await rig.hold(pool_id)
    await rig.run(pool_id)
    await rig.let_go()
    await rig.delete()
    await rig.run(pool_id)
    pool = await rig.get(pool_id)
    assert not pool.releasing
    assert namespace in pool.last_error
    assert "left in place" in pool.last_error
    assert rig.world.named("Namespace") == [namespace]


@pytest.mark.req("NP-003", "NP-077")
async def test_a_sibling_takes_work_all_through_a_deletion(rig: Rig) -> None:
    going = await rig.running("going")
    staying = await rig.running("staying")
    rig.world.ending = False
    await rig.delete("going")
    await rig.run(going)
    assert await rig.hold(staying) is None
    rig.world.ending = True
    await rig.run(going)
    await rig.run(staying)
    assert len(rig.world.machines()) == 1
    assert (await rig.pool(staying)).counts.ready == 1


async def test_an_unreachable_cluster_does_not_keep_vms_but_their_nodes(rig: Rig) -> None:
    pool_id = await rig.running()
    rig.world.synced = False
    rig.world.refuse("patch", KubeError("unreachable", "no route"))
    await rig.delete()
    await rig.run(pool_id)
    assert rig.world.machines() == []
    assert (await rig.get(pool_id)).releasing
    rig.world.synced = True
    rig.world.allow()
    await rig.run(pool_id)
    assert not (await rig.get(pool_id)).releasing
    assert not rig.world.node_facts


async def test_a_deletion_during_creation_ends_what_was_begun(rig: Rig) -> None:
    rig.world.booting = False
    pool_id = (await rig.create(count=3)).id
    await rig.step(pool_id)
    rig.world.turn(next(iter(rig.world.resource_facts)), ResourceState.RUNNING)
    await rig.run(pool_id)
    assert len(rig.world.machines(ResourceState.PENDING)) == 3
    await rig.delete()
    await rig.run(pool_id)
    assert rig.world.machines() == []
    assert rig.world.tokens() == []
    assert not (await rig.get(pool_id)).releasing


async def test_a_pass_that_began_before_the_deletion_writes_nothing_after_it(rig: Rig) -> None:
    from anycloud_nodepool.reconcile.scope import LeaseLost, Scope, load

    pool_id = await rig.running()
    facts = await rig.store.read(lambda conn: load(conn, pool_id))
    assert facts is not None
    scope = Scope(rig.tools, facts)
    await rig.delete()
    scope.tell("too-late")
    with pytest.raises(LeaseLost):
        await scope.flush()
    assert (await rig.pool(pool_id)).state == "deleting"
    assert "too-late" not in await rig.told(pool_id)


async def test_cluster_and_credential_are_let_go_with_the_pools_last_write(rig: Rig) -> None:
    pool_id = await rig.running()
    releasing = asyncio.create_task(rig.admissions.run())
    assert len(rig.cluster_holds.held) == 1
    rig.world.refuse("release np-", unavailable())
    await rig.delete()
    await rig.run(pool_id)
    assert len(rig.cluster_holds.held) == 1
    rig.world.allow()
    await rig.run(pool_id)
    await rig.until(rig.let_go_of_parents)
    releasing.cancel()
