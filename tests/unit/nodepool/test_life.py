"""A pool from its creation until it runs, and what each of its VMs is bought with."""

from __future__ import annotations

import hashlib

import pytest
from anycloud_common.holds import Owner
from anycloud_common.kube import names
from anycloud_nodepool.domain.model import ResourceState, Stage
from anycloud_nodepool.store.tables import ATTEMPT, METADATA
from anycloud_release.migrate import schema_differences
from sqlalchemy import select

from tests.unit.nodepool.fakes import CLUSTER, agent_config, unavailable
from tests.unit.nodepool.rig import Rig


async def test_the_migrated_schema_is_the_declared_one(rig: Rig) -> None:
    assert schema_differences(rig.directory / "nodepool.sqlite", "nodepool", METADATA) == []


@pytest.mark.req("NP-017", "NP-046")
async def test_creation_answers_before_any_vm_exists_and_the_pool_runs_once_all_nodes_are_ready(rig: Rig) -> None:
    made = await rig.create(count=2)
    assert not rig.world.orders
    rig.world.ready = False
    await rig.run(made.id)
    first, second = rig.world.node_facts
    rig.world.set_node(first, ready=True)
    await rig.run(made.id)
    assert (await rig.pool(made.id)).state == "creating"
    rig.world.set_node(second, ready=True)
    await rig.run(made.id)
    assert (await rig.pool(made.id)).state == "running"
    assert len(rig.world.machines()) == 2


@pytest.mark.req("NP-017")
async def test_a_pool_is_built_after_a_kill_right_behind_the_answer(rig: Rig) -> None:
    pool_id = (await rig.create()).id
    rig.stop()
    await rig.start()
    await rig.run(pool_id)
    assert (await rig.pool(pool_id)).state == "running"


@pytest.mark.req("NP-001", "NP-018", "NP-029", "NP-030", "NP-031")
async def test_each_vm_is_one_purchase_with_its_pools_own_credential_place_and_labels(rig: Rig) -> None:
    aws = await rig.running("one", zone="us-east-1b")
    gcp = await rig.running("two", credential_name="gcp", region="us-central1", vm_types=["e2-standard-2"])
    first, second = rig.world.orders.values()
    assert (first.pool_id, first.credential_id, first.region, first.zone) == (
        aws,
        "cred-aws",
        "us-east-1",
        "us-east-1b",
    )
    assert (second.pool_id, second.credential_id, second.region, second.zone) == (gcp, "cred-gcp", "us-central1", None)
    assert first.vm_type == "m5.large"
    assert first.labels["anycloud_node_pool"] == aws
    assert first.network_token != second.network_token


@pytest.mark.req("NP-020", "NP-021")
async def test_user_data_has_no_ssh_key_and_nothing_secret_but_the_vms_own_token(rig: Rig) -> None:
    await rig.running(count=2)
    one, other = rig.world.orders.values()
    for order in (one, other):
        text = order.user_data.decode()
        assert "ssh" not in text.lower()
        for word in ("accessKey", "secretAccessKey", "cred-aws", "credential", "role"):
            assert word not in text
    assert agent_config(one)["token"] not in other.user_data.decode()


@pytest.mark.req("NP-023", "NP-024", "NP-040", "NP-042")
async def test_the_agent_is_configured_with_pinned_token_labels_and_taint(rig: Rig) -> None:
    pool_id = await rig.running()
    [order] = rig.world.orders.values()
    config = agent_config(order)
    assert config["server"] == CLUSTER.endpoint
    assert config["token"].startswith(f"K10{hashlib.sha256(CLUSTER.ca.encode()).hexdigest()}::")
    assert config["node-name"] == order.name
    assert sorted(config["node-label"]) == sorted(
        [
            "anycloud.sh/cluster=cl-1",
            f"anycloud.sh/node-pool={pool_id}",
            "anycloud.sh/provider=AWS",
            f"anycloud.sh/attempt={order.token}",
        ]
    )
    assert config["node-taint"] == [f"anycloud.sh/node-pool={pool_id}:NoSchedule"]


@pytest.mark.req("NP-023", "NP-025")
async def test_a_token_lives_half_an_hour_at_most_and_is_gone_once_its_node_exists(rig: Rig) -> None:
    rig.world.joining = False
    rig.world.ready = False
    pool_id = (await rig.create()).id
    await rig.run(pool_id)
    [name] = rig.world.tokens()
    data = rig.world.objects["Secret", "kube-system", name]["stringData"]
    assert data["usage-bootstrap-authentication"] == "true"
    [attempt] = await rig.attempts(pool_id)
    assert 0 < attempt.token_expires_at - rig.clock.now_ms() <= 30 * 60_000
    rig.world.joining = True
    await rig.run(pool_id)
    assert rig.world.tokens() == []
    assert (await rig.pool(pool_id)).counts.ready == 0


async def test_what_was_sealed_for_a_vm_is_forgotten_with_its_token_and_readable_nowhere_before(rig: Rig) -> None:
    rig.world.joining = False
    pool_id = (await rig.create()).id
    await rig.run(pool_id)
    token = agent_config(next(iter(rig.world.orders.values())))["token"]
    secret = token.rpartition(".")[2].encode()
    for file in rig.directory.iterdir():
        assert secret not in file.read_bytes()
    rig.world.joining = True
    await rig.run(pool_id)
    columns = select(ATTEMPT.c.sealed_token, ATTEMPT.c.sealed_user_data)
    rows = await rig.store.read(lambda conn: [tuple(row) for row in conn.execute(columns)])
    assert rows == [(None, None)]


async def test_a_pass_with_nothing_to_do_calls_nothing_and_writes_nothing(rig: Rig) -> None:
    pool_id = await rig.running(count=3)
    await rig.run(pool_id)
    calls = len(rig.world.calls)
    stored = (await rig.pool(pool_id)).updated_at
    await rig.clock.advance(60)
    await rig.handle(pool_id)
    assert rig.world.calls[calls:] == []
    assert (await rig.pool(pool_id)).updated_at == stored


@pytest.mark.req("NP-019")
async def test_the_pools_network_is_asked_for_once_and_before_any_vm(rig: Rig) -> None:
    pool_id = await rig.running(count=3)
    await rig.run(pool_id)
    asked = [call for call in rig.world.calls if call.startswith(("network", "machine"))]
    assert [call.split()[0] for call in asked] == ["network", "machine", "machine", "machine"]


async def test_an_absent_cluster_service_holds_everything_up_and_breaks_nothing(rig: Rig) -> None:
    pool_id = (await rig.create()).id
    for call in ("network", "machine", "resources", "find"):
        rig.world.refuse(call, unavailable())
        await rig.run(pool_id)
        assert (await rig.pool(pool_id)).state == "creating"
    rig.world.allow()
    await rig.run(pool_id)
    assert (await rig.pool(pool_id)).state == "running"


async def test_a_vm_that_the_ledger_refuses_is_given_up_and_bought_anew_after_the_pause(rig: Rig) -> None:
    from anycloud_nodepool.domain.ports import LedgerRefused

    rig.world.refuse("machine", LedgerRefused("the credential is gone"))
    pool_id = (await rig.create()).id
    await rig.run(pool_id)
    assert "the credential is gone" in ((await rig.pool(pool_id)).last_error or "")
    rig.world.allow()
    await rig.wait(pool_id, 61)
    assert (await rig.pool(pool_id)).state == "running"
    assert rig.world.tokens() == []


async def test_an_attempts_numbers_and_names_are_never_used_twice(rig: Rig) -> None:
    one = await rig.running("one", 2)
    for _ in range(3):
        rig.lose_all()
        await rig.run(one)
    two = await rig.running("two", 2)
    attempts = [*await rig.attempts(one), *await rig.attempts(two)]
    assert len({attempt.number for attempt in attempts}) == len(attempts) == 10
    assert len({attempt.node_name for attempt in attempts}) == 10
    assert all(attempt.id.endswith("-1a2b3c4d") for attempt in attempts)


@pytest.mark.req("NP-060", "OPEN-042")
async def test_counts_follow_each_vm_from_purchase_to_release(rig: Rig) -> None:
    rig.world.booting = False
    pool_id = (await rig.create()).id
    await rig.step(pool_id)
    rig.world.turn(next(iter(rig.world.resource_facts)), ResourceState.RUNNING)
    await rig.run(pool_id)
    seen = [await counts(rig)]
    rig.world.booting = True
    await rig.run(pool_id)
    seen.append(await counts(rig))
    rig.world.ending = False
    rig.lose_all()
    await rig.run(pool_id)
    seen.append(await counts(rig))
    assert seen == [(0, 1, 0), (1, 0, 0), (0, 0, 1)]


async def counts(rig: Rig) -> tuple[int, int, int]:
    capacity = (await rig.get()).capacity
    return capacity.ready_vm_count, capacity.starting_vm_count, capacity.draining_vm_count


async def test_events_tell_the_life_of_a_vm_in_order(rig: Rig) -> None:
    pool_id = await rig.running()
    told = await rig.told(pool_id)
    assert told[0] == "created"
    assert [reason for reason in told if reason.startswith("vm-")] == ["vm-buying", "vm-joining", "vm-joined"]
    assert told[-1] == "state-running"


async def test_a_node_that_came_before_the_ledgers_news_is_taken(rig: Rig) -> None:
    rig.world.booting = False
    pool_id = (await rig.create()).id
    await rig.step(pool_id)
    rig.world.turn(next(iter(rig.world.resource_facts)), ResourceState.RUNNING)
    await rig.run(pool_id)
    [order] = rig.world.orders.values()
    labels = dict(text.split("=", 1) for text in agent_config(order)["node-label"])
    rig.world.add_node(order.name, labels)
    await rig.run(pool_id)
    [attempt] = await rig.attempts(pool_id)
    assert attempt.stage is Stage.JOINED
    assert (await rig.pool(pool_id)).state == "running"


@pytest.mark.req("AU-022", "OPEN-035")
async def test_the_connection_is_checked_again_every_hour_and_a_problem_stops_purchases_until_it_is_mended(
    rig: Rig,
) -> None:
    pool_id = await rig.running()
    before = rig.world.count("problems")
    await rig.wait(pool_id, 3599, step=600)
    assert rig.world.count("problems") == before
    rig.world.problem_list = ["The cluster denies Anycloud: patch nodes."]
    await rig.wait(pool_id, 2)
    pool = await rig.pool(pool_id)
    assert (pool.state, pool.last_error) == ("failed", "The cluster denies Anycloud: patch nodes.")
    rig.lose_all()
    await rig.run(pool_id)
    assert len(await rig.attempts(pool_id)) == 1
    rig.world.problem_list = []
    await rig.wait(pool_id, 31)
    assert (await rig.pool(pool_id)).state == "running"
    assert len(await rig.attempts(pool_id)) == 2


async def test_references_are_counted_by_owner_in_the_summary(rig: Rig) -> None:
    pool_id = await rig.running()
    await rig.hold(pool_id, "adm-1")
    await rig.hold(pool_id, "adm-2")
    await rig.hold(pool_id, "adm-3", owner=Owner("job", "job-1"))
    assert (await rig.get()).live_references == 2


async def test_labels_that_pods_select_by_are_those_that_nodes_join_with(rig: Rig) -> None:
    pool_id = await rig.running()
    [node] = rig.world.node_facts.values()
    assert names.pool_placement(pool_id)["nodeSelector"].items() <= node.labels.items()
