"""Losing VMs: what is replaced, when, how often, and when a pool is given up."""

from __future__ import annotations

import itertools

import pytest
from anycloud_common.errors import ApiError
from anycloud_nodepool.domain.model import ResourceState, Stage

from tests.unit.nodepool.rig import Rig

MINUTE = 60.0


async def replacements(rig: Rig, pool_id: str) -> list[int]:
    return [attempt.replacement for attempt in await rig.attempts(pool_id)]


@pytest.mark.req("NP-047")
async def test_a_vm_that_never_joins_is_replaced_after_ten_minutes(rig: Rig) -> None:
    rig.world.joining = False
    pool_id = (await rig.create()).id
    await rig.run(pool_id)
    await rig.wait(pool_id, 10 * MINUTE - 1)
    assert await replacements(rig, pool_id) == [0]
    await rig.wait(pool_id, 2)
    assert await replacements(rig, pool_id) == [0, 1]
    assert len(rig.world.machines()) == 1


@pytest.mark.req("NP-048")
async def test_a_vm_whose_node_stays_not_ready_is_replaced_after_fifteen_minutes(rig: Rig) -> None:
    pool_id = await rig.running()
    name = next(iter(rig.world.node_facts))
    rig.world.set_node(name, ready=False)
    await rig.run(pool_id)
    await rig.wait(pool_id, 15 * MINUTE - 1)
    assert await replacements(rig, pool_id) == [0]
    await rig.wait(pool_id, 2)
    assert await replacements(rig, pool_id) == [0, 1]
    assert (await rig.pool(pool_id)).counts.ready == 1


@pytest.mark.req("NP-049", "NP-054")
async def test_three_replacements_in_a_row_are_bought_and_the_fourth_loss_parks_for_good(rig: Rig) -> None:
    rig.world.joining = False
    pool_id = (await rig.create()).id
    await rig.run(pool_id)
    await rig.wait(pool_id, 45 * MINUTE)
    assert await replacements(rig, pool_id) == [0, 1, 2, 3]
    pool = await rig.pool(pool_id)
    assert pool.state == "failed"
    assert "TCP 6443 reachable" in (pool.last_error or "")
    assert rig.world.machines() == []
    rig.world.joining = True
    await rig.wait(pool_id, 60 * MINUTE, step=600)
    assert len(await rig.attempts(pool_id)) == 4
    assert (await rig.pool(pool_id)).state == "failed"


@pytest.mark.req("NP-050", "OPEN-038")
async def test_a_ready_sibling_does_not_break_a_series_and_the_replacement_itself_does(rig: Rig) -> None:
    pool_id = await rig.running(count=2)
    rig.world.joining = False
    first = (await rig.attempts(pool_id))[0]
    rig.world.turn(first.id, ResourceState.LOST)
    await rig.run(pool_id)
    await rig.wait(pool_id, 11 * MINUTE)
    assert [a.replacement for a in await rig.attempts(pool_id) if a.place == 0] == [0, 1, 2]
    rig.world.joining = True
    await rig.run(pool_id)
    rig.lose_all()
    await rig.run(pool_id)
    assert [a.replacement for a in await rig.attempts(pool_id) if a.place == 0] == [0, 1, 2, 1]


@pytest.mark.req("NP-052", "NP-053", "NP-054", "OPEN-039")
async def test_refused_purchases_back_off_and_the_fifth_parks(rig: Rig) -> None:
    rig.world.booting = False
    pool_id = (await rig.create()).id
    await rig.step(pool_id)
    rig.world.turn(next(iter(rig.world.resource_facts)), ResourceState.RUNNING)  # the network
    bought_at = []
    for _ in range(400):
        await rig.step(pool_id)
        for token in rig.world.machines(ResourceState.PENDING):
            bought_at.append(rig.clock.monotonic())
            rig.world.turn(token, ResourceState.FAILED, failure="capacity: no m5.large left")
        await rig.step(pool_id)
        await rig.step(pool_id)
        await rig.clock.advance(10)
    waits = [round((later - earlier) / 60) for earlier, later in itertools.pairwise(bought_at)]
    assert waits == [1, 2, 4, 8]
    pool = await rig.pool(pool_id)
    assert pool.state == "failed"
    assert "no m5.large left" in (pool.last_error or "")
    assert rig.world.tokens() == []


@pytest.mark.req("NP-052", "NP-053")
async def test_a_refused_network_backs_off_and_parks_alike(rig: Rig) -> None:
    rig.world.booting = False
    pool_id = (await rig.create()).id
    asked = []
    for _ in range(300):
        await rig.step(pool_id)
        for token, fact in list(rig.world.resource_facts.items()):
            if fact.state is ResourceState.PENDING:
                asked.append(rig.clock.monotonic())
                now = rig.clock.now_ms()
                rig.world.turn(token, ResourceState.FAILED, failure="quota: 5 networks", failed_at=now)
        await rig.clock.advance(10)
    assert [round((b - a) / 60) for a, b in itertools.pairwise(asked)] == [1, 2, 4, 8]
    assert "quota: 5 networks" in ((await rig.pool(pool_id)).parked or "")
    assert not rig.world.orders


@pytest.mark.req("NP-026")
async def test_a_retried_purchase_replaces_its_token(rig: Rig) -> None:
    rig.world.booting = False
    pool_id = (await rig.create()).id
    await rig.step(pool_id)
    rig.world.turn(next(iter(rig.world.resource_facts)), ResourceState.RUNNING)
    most = 0
    for _ in range(20):
        await rig.step(pool_id)
        most = max(most, len(rig.world.tokens()))
        for token in rig.world.machines(ResourceState.PENDING):
            rig.world.turn(token, ResourceState.FAILED, failure="capacity: none")
        await rig.clock.advance(30)
    assert len(rig.world.orders) > 2
    assert most == 1


@pytest.mark.req("OPEN-037")
async def test_an_outage_of_the_cluster_replaces_nothing(rig: Rig) -> None:
    rig.world.joining = False
    pool_id = (await rig.create(count=2)).id
    await rig.run(pool_id)
    await rig.wait(pool_id, 5 * MINUTE)
    rig.world.synced = False
    await rig.wait(pool_id, 60 * MINUTE, step=60)
    rig.world.synced = True
    await rig.run(pool_id)
    await rig.wait(pool_id, 4 * MINUTE)
    assert await replacements(rig, pool_id) == [0, 0]
    await rig.wait(pool_id, 2 * MINUTE)
    assert sorted(await replacements(rig, pool_id)) == [0, 0, 1, 1]


@pytest.mark.req("OPEN-037")
async def test_time_goes_on_where_it_stood_when_the_api_was_down(rig: Rig) -> None:
    rig.world.joining = False
    pool_id = (await rig.create()).id
    await rig.run(pool_id)
    await rig.wait(pool_id, 8 * MINUTE)
    rig.stop()
    await rig.clock.advance(3600)
    await rig.start()
    await rig.wait(pool_id, 60)
    assert await replacements(rig, pool_id) == [0]
    await rig.wait(pool_id, 3 * MINUTE)
    assert await replacements(rig, pool_id) == [0, 1]


async def test_a_replacement_is_bought_only_after_the_end_of_its_predecessor_is_confirmed(rig: Rig) -> None:
    pool_id = await rig.running()
    rig.world.ending = False
    rig.lose_all()
    await rig.run(pool_id)
    await rig.wait(pool_id, 30 * MINUTE, step=300)
    assert len(await rig.attempts(pool_id)) == 1
    assert (await rig.pool(pool_id)).counts.draining == 1
    rig.world.ending = True
    await rig.run(pool_id)
    assert (await rig.pool(pool_id)).counts.ready == 1


async def test_a_lost_vm_is_cordoned_and_its_node_and_password_go_only_after_its_provider_confirmed(rig: Rig) -> None:
    pool_id = await rig.running()
    name = next(iter(rig.world.node_facts))
    rig.world.set_node(name, ready=False)
    rig.world.ending = False
    await rig.run(pool_id)
    await rig.wait(pool_id, 16 * MINUTE)
    assert rig.world.node_facts[name].cordoned
    assert f"{name}.node-password.k3s" in rig.world.named("Secret")
    rig.world.ending = True
    await rig.run(pool_id)
    assert name not in rig.world.node_facts
    assert f"{name}.node-password.k3s" not in rig.world.named("Secret")
    first = (await rig.attempts(pool_id))[0]
    assert first.stage is Stage.CLOSED


@pytest.mark.req("OPEN-036", "DP-029")
async def test_a_running_pool_stays_running_when_a_node_turns_not_ready_and_takes_no_work_without_one(
    rig: Rig,
) -> None:
    pool_id = await rig.running()
    rig.world.set_node(next(iter(rig.world.node_facts)), ready=False)
    await rig.run(pool_id)
    assert (await rig.pool(pool_id)).state == "running"
    assert "none of its Nodes is Ready" in (await rig.hold(pool_id) or "")


async def test_a_parked_pool_keeps_the_vms_that_work_and_can_be_deleted(rig: Rig) -> None:
    pool_id = await rig.running(count=2)
    rig.world.joining = False
    first = (await rig.attempts(pool_id))[0]
    rig.world.turn(first.id, ResourceState.LOST)
    await rig.run(pool_id)
    await rig.wait(pool_id, 45 * MINUTE)
    pool = await rig.pool(pool_id)
    assert pool.state == "failed"
    assert pool.counts.ready == 1
    await rig.delete()
    await rig.run(pool_id)
    assert (await rig.pool(pool_id)).state == "deleted"
    with pytest.raises(ApiError):
        await rig.get("cpu")


async def test_the_token_of_a_vm_that_still_has_to_join_is_renewed_before_it_expires(rig: Rig) -> None:
    rig.world.joining = False
    pool_id = (await rig.create()).id
    await rig.run(pool_id)
    rig.world.synced = False
    await rig.wait(pool_id, 60 * MINUTE, step=60)
    rig.world.synced = True
    await rig.run(pool_id)
    assert len(rig.world.tokens()) == 1
    [attempt] = await rig.attempts(pool_id)
    assert attempt.token_expires_at > rig.clock.now_ms()
    rig.world.joining = True
    await rig.run(pool_id)
    assert (await rig.pool(pool_id)).state == "running"
