"""The ledger: everything outside is a row first, is made once, and stays a row until its provider says it is gone."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from anycloud_cluster.domain.resource import SETTLE_MS, State, backoff
from anycloud_cluster.rpc.ledger import LedgerServicer
from anycloud_cluster.store import credentials, ledger
from anycloud_cluster.store.tables import CHANGE
from anycloud_common.errors import ApiError
from anycloudapi.cluster.internal.v1 import cluster_pb2
from sqlalchemy import select

from tests.unit.cluster.calling import Aborted, Context
from tests.unit.cluster.fakes import Killed, World
from tests.unit.cluster.installation import Installation

PENDING, RUNNING, FAILED, LOST, RELEASING, RELEASED = range(1, 7)
OWNER = cluster_pb2.Owner(kind="node-pool", id="np-1")


class Pool:
    """A service that has networks and machines made."""

    def __init__(self, installation: Installation) -> None:
        self.installation = installation
        self._servicer = LedgerServicer(installation.store, installation.book)

    async def network(self, token: str = "net") -> cluster_pb2.Resource:
        spec = cluster_pb2.NetworkSpec(name="pool network")
        return await self._ensure(token, network=spec)

    async def machine(
        self, token: str = "vm-1", attempt: int = 1, user_data: bytes = b"#cloud-config\n", **more: Any
    ) -> cluster_pb2.Resource:
        spec = cluster_pb2.MachineSpec(
            name=f"machine {token}", vm_type="t3.large", network_token="net", user_data=user_data, labels={"a": "b"}
        )
        return await self._ensure(token, attempt=attempt, machine=spec, **more)

    async def _ensure(self, token: str, **more: Any) -> cluster_pb2.Resource:
        fields = {"owner": OWNER, "credential_id": "cred-aws", "region": "us-east-1", **more}
        request = cluster_pb2.EnsureResourceRequest(token=token, **fields)
        return await self._servicer.EnsureResource(request, Context())

    async def release(self, token: str = "vm-1") -> cluster_pb2.Resource:
        return await self._servicer.ReleaseResource(cluster_pb2.ReleaseResourceRequest(token=token), Context())

    async def get(self, token: str = "vm-1") -> cluster_pb2.Resource:
        return await self._servicer.GetResource(cluster_pb2.GetResourceRequest(token=token), Context())

    async def listed(self) -> list[str]:
        request = cluster_pb2.ListResourcesRequest(owner=OWNER)
        return [row.token for row in (await self._servicer.ListResources(request, Context())).resources]

    async def until(self, state: int, token: str = "vm-1", steps: int = 30) -> cluster_pb2.Resource:
        for _ in range(steps):
            row = await self.get(token)
            if row.state == state:
                return row
            await self.installation.step()
        raise AssertionError(f"not {state} after {steps} steps: {await self.get(token)}")


@pytest.fixture
async def pool(installer: Installation) -> Pool:
    made = Pool(installer)
    await made.network()
    await made.until(RUNNING, "net")
    return made


async def test_a_resource_is_a_row_before_the_provider_is_called(pool: Pool, world: World) -> None:
    world.calls.clear()
    row = await pool.machine()
    assert (row.state, row.provider_id, world.calls) == (PENDING, "", [])
    made = await pool.until(RUNNING)
    assert made.provider_id
    assert made.address
    assert made.created_at > 0


async def test_asking_twice_gives_the_same_one(pool: Pool, world: World) -> None:
    await pool.machine()
    first = await pool.until(RUNNING)
    assert await pool.machine() == first
    await pool.installation.step()
    assert len(world.cloud.machines()) == 1
    assert await pool.listed() == ["net", "vm-1"]


async def test_a_token_stands_for_one_request_only(pool: Pool) -> None:
    await pool.machine()
    with pytest.raises(Aborted) as caught:
        await pool.machine(user_data=b"other")
    assert caught.value.code is grpc.StatusCode.INVALID_ARGUMENT


async def test_everything_bears_the_tags_of_its_ledger(pool: Pool, world: World) -> None:
    await pool.machine()
    await pool.until(RUNNING)
    [machine] = world.cloud.machines()
    assert machine.tags == {
        "a": "b",
        "anycloud_owner_api": "",
        "anycloud_ledger": "installer-0a1b2c3d",
        "anycloud_role": "pool",
        "anycloud_owner": "np-1",
        "anycloud_incarnation": "0a1b2c3d",
    }


async def test_user_data_is_stored_sealed_and_dropped_at_the_end(pool: Pool) -> None:
    await pool.machine(user_data=b"join-token K10abc")
    row = await pool.installation.store.read(lambda conn: ledger.find(conn, "vm-1"))
    assert row is not None
    assert row.sealed_user_data
    assert b"join-token" not in row.sealed_user_data
    await pool.until(RUNNING)
    await pool.release()
    await pool.until(RELEASED)
    row = await pool.installation.store.read(lambda conn: ledger.find(conn, "vm-1"))
    assert row is not None
    assert row.sealed_user_data is None


@pytest.mark.parametrize("kind", ["capacity", "quota", "auth", "invalid", "conflict"])
async def test_a_refusal_ends_the_attempt_and_the_next_one_is_for_its_owner_to_ask(
    pool: Pool, world: World, kind: Any
) -> None:
    world.cloud.fail("create_machine", kind)
    await pool.machine()
    failed = await pool.until(FAILED)
    assert (failed.failure.kind, failed.failure.count) == (kind, 1)
    assert "injected" in failed.failure.message
    for _ in range(3):
        await pool.installation.step()
    assert (await pool.get()).state == FAILED
    await pool.machine(attempt=2)
    made = await pool.until(RUNNING)
    assert made.attempt == 2
    assert not made.HasField("failure")
    assert len(world.cloud.machines()) == 1


@pytest.mark.parametrize("kind", ["unreachable", "throttled"])
async def test_without_a_refusal_the_same_attempt_goes_on(pool: Pool, world: World, kind: Any) -> None:
    world.cloud.fail("create_machine", kind, times=2)
    await pool.machine()
    made = await pool.until(RUNNING)
    assert made.attempt == 1


async def test_a_lost_answer_makes_no_second_machine(pool: Pool, world: World) -> None:
    world.cloud.lose("create_machine")
    await pool.machine()
    await pool.until(RUNNING)
    assert len(world.cloud.machines()) == 1


async def test_before_every_create_the_token_is_looked_up(pool: Pool, world: World) -> None:
    world.calls.clear()
    await pool.machine()
    await pool.until(RUNNING)
    assert world.calls.index("cloud.find_machine") < world.calls.index("cloud.create_machine")


async def test_a_refused_credential_is_marked(pool: Pool, world: World) -> None:
    world.cloud.fail("create_machine", "auth")
    await pool.machine()
    await pool.until(FAILED)
    found = await pool.installation.store.read(lambda conn: credentials.find(conn, "aws"))
    assert found is not None
    assert found.auth_failed_at is not None


async def test_release_is_final_and_confirmed_by_the_provider(pool: Pool, world: World) -> None:
    await pool.machine()
    await pool.until(RUNNING)
    assert (await pool.release()).state == RELEASING
    assert world.machines_alive == 1
    await pool.until(RELEASED)
    assert world.machines_alive == 0
    with pytest.raises(Aborted) as caught:
        await pool.machine()
    assert caught.value.code is grpc.StatusCode.FAILED_PRECONDITION


async def test_a_token_released_before_it_was_asked_for_is_never_made(pool: Pool, world: World) -> None:
    assert (await pool.release("vm-9")).state == RELEASED
    with pytest.raises(Aborted) as caught:
        await pool.machine("vm-9")
    assert caught.value.code is grpc.StatusCode.FAILED_PRECONDITION
    assert world.cloud.machines() == []


async def test_what_was_never_sent_is_released_at_once(pool: Pool, world: World) -> None:
    await pool.machine()
    assert (await pool.release()).state == RELEASED
    await pool.installation.step()
    assert world.cloud.machines() == []


async def test_a_failing_release_is_repeated_after_1_minute_doubling_and_never_given_up(
    pool: Pool, world: World
) -> None:
    await pool.machine()
    await pool.until(RUNNING)
    world.cloud.fail("delete_machine", "unreachable", times=3)
    await pool.release()
    await pool.installation.step()
    assert (await pool.get()).failure.count == 1
    for count, wait in ((1, 59), (2, 119), (3, 239)):
        await pool.installation.clock.advance(wait - 3)
        await pool.installation.step()
        assert (await pool.get()).failure.count == count
        await pool.installation.clock.advance(3)
        await pool.installation.step()
    await pool.until(RELEASED)


def test_waits_double_up_to_their_bound() -> None:
    assert [backoff((60.0, 1800.0), n) for n in (0, 1, 2, 3, 5, 6, 7, 100)] == [60, 60, 120, 240, 960, 1800, 1800, 1800]


async def test_a_network_waits_for_its_machines_whatever_was_released_first(pool: Pool, world: World) -> None:
    await pool.machine()
    await pool.until(RUNNING)
    await pool.release("net")
    for _ in range(3):
        await pool.installation.step()
    assert "cloud.delete_network" not in world.calls
    await pool.release()
    await pool.until(RELEASED, "net")
    order = [call for call in world.calls if call.startswith("cloud.delete")]
    assert order.index("cloud.delete_machine") < order.index("cloud.delete_network")


async def test_a_machine_that_ended_by_itself_is_lost_with_the_providers_reason(pool: Pool, world: World) -> None:
    await pool.machine()
    made = await pool.until(RUNNING)
    world.cloud.end(made.provider_id, "host failure")
    lost = await pool.until(LOST)
    row = await pool.installation.store.read(lambda conn: ledger.find(conn, "vm-1"))
    assert row is not None
    assert row.failure_message == "host failure"
    assert not lost.HasField("failure")
    await pool.release()
    await pool.until(RELEASED)


async def test_unreachable_is_not_gone(pool: Pool, world: World) -> None:
    await pool.machine()
    await pool.until(RUNNING)
    world.cloud.fail("list_machines", "unreachable", times=5)
    for _ in range(5):
        await pool.installation.step()
    assert (await pool.get()).state == RUNNING


async def test_a_young_machine_that_the_provider_doesnt_show_yet_isnt_lost(pool: Pool, world: World) -> None:
    await pool.machine()
    made = await pool.until(RUNNING)
    hidden = world.cloud.made("account").items.pop(made.provider_id)
    for _ in range(5):
        await pool.installation.step()
    assert (await pool.get()).state == RUNNING
    world.cloud.made("account").items[made.provider_id] = hidden
    await pool.installation.step()
    world.cloud.made("account").items.pop(made.provider_id)
    await pool.installation.clock.advance(60)
    await pool.until(LOST)


async def test_a_release_after_a_kill_looks_for_what_was_sent_and_waits_until_it_would_show(
    pool: Pool, world: World
) -> None:
    """The create was sent and its answer never heard: the machine exists, and is ended all the same."""
    world.kill_at = world.effects + 1
    await pool.machine()
    with pytest.raises(Killed):
        await pool.installation.step()
    world.dead, world.kill_at = False, None
    row = await pool.installation.store.read(lambda conn: ledger.find(conn, "vm-1"))
    assert row is not None
    assert (row.state, row.provider_id) == (State.PENDING, "")
    assert row.sent_at is not None
    assert len(world.cloud.machines()) == 1
    await pool.release()
    [machine] = world.cloud.machines()
    hidden = world.cloud.made("account").items.pop(machine.id)
    await pool.installation.store.write(_free_leases)
    for _ in range(3):
        await pool.installation.step()
    assert (await pool.get()).state == RELEASING
    world.cloud.made("account").items[machine.id] = hidden
    await pool.installation.clock.advance(SETTLE_MS / 1000)
    await pool.until(RELEASED)
    assert world.machines_alive == 0


async def test_a_release_during_the_create_finds_what_that_made(pool: Pool, world: World) -> None:
    installation = pool.installation
    await pool.machine()
    create = world.cloud.call

    released: list[Any] = []

    def releasing(account: str, action: str, work: Any) -> Any:
        if action == "create_machine" and not released:
            released.append(installation.real_store._writer.submit(lambda tx: installation.book.release(tx, "vm-1")))
        return create(account, action, work)

    world.cloud.call = releasing  # type: ignore[method-assign]
    await installation.step()
    await pool.until(RELEASED)
    assert world.machines_alive == 0


async def test_without_a_credential_of_the_very_account_nobody_is_believed(pool: Pool, world: World) -> None:
    await pool.machine()
    await pool.until(RUNNING)
    installation = pool.installation
    found = await installation.store.read(lambda conn: credentials.find(conn, "aws"))
    assert found is not None
    await installation.store.write(lambda tx: credentials.remove(tx, found))
    await installation.with_credential({**_OTHER}, "other")
    await pool.release()
    for _ in range(3):
        await installation.step()
    row = await pool.get()
    assert (row.state, row.failure.kind) == (RELEASING, "auth")
    assert "no stored credential is of AWS account account" in row.failure.message
    assert world.machines_alive == 1


async def test_an_unknown_credential_is_refused_and_nothing_is_recorded(pool: Pool) -> None:
    with pytest.raises(ApiError) as caught:
        await pool.machine("vm-5", credential_id="cred-absent")
    assert caught.value.code == "CREDENTIAL_NOT_FOUND"
    assert await pool.listed() == ["net"]


async def test_every_change_is_told(pool: Pool) -> None:
    await pool.machine()
    await pool.until(RUNNING)
    store = pool.installation.store
    rows = await store.read(lambda conn: conn.execute(select(CHANGE).where(CHANGE.c.id == "vm-1")).all())
    assert {row.kind for row in rows} == {"resource"}
    versions = [row.version for row in rows]
    assert versions == sorted(set(versions))
    assert versions[-1] == (await pool.get()).version


async def test_an_incomplete_request_is_the_callers_mistake(pool: Pool) -> None:
    with pytest.raises(Aborted, match="region missing") as caught:
        await pool.machine("vm-6", region="")
    assert caught.value.code is grpc.StatusCode.INVALID_ARGUMENT


_OTHER = {"cloudProvider": "AWS", "accessKeyId": "other.key", "secretAccessKey": "k"}


def _free_leases(tx: Any) -> None:
    """What the next process does at its start by raising its epoch."""
    from anycloud_cluster.store.tables import RESOURCE
    from sqlalchemy import update

    tx.conn.execute(update(RESOURCE).values(lock_owner=None, lock_token=None))
