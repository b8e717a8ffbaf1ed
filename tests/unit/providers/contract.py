"""What every provider must do, whichever it is. A world subclasses `Contract` and gives it the fixture `world`."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Protocol

import pytest
from anycloud_providers.protocol import (
    AddressSpec,
    ErrorKind,
    Machine,
    MachineSpec,
    NetworkSpec,
    Provider,
    ProviderError,
    Rule,
)

RULES = (Rule((22, 6443), ("0.0.0.0/0",)), Rule((443,), ("192.0.2.0/24", "198.51.100.0/24")))
_numbers = itertools.count(1)


class World(Protocol):
    """A cloud under test."""

    def provider(self, account: str = ..., *, revoked: bool = ...) -> Provider: ...

    async def settled(self, provider: Provider, machine: Machine) -> Machine:
        """The machine once it has left `pending` or `stopping`."""
        ...

    def fail(self, action: str, kind: ErrorKind) -> None:
        """The next call of that action fails before any work."""
        ...

    def lose(self, action: str) -> None:
        """The next call of that action does its work, and its answer gets lost."""
        ...


def fresh(word: str) -> str:
    """A name that no test used before: worlds are shared between tests."""
    return f"{word}-{next(_numbers)}"


def network(**changes: object) -> NetworkSpec:
    spec = NetworkSpec(fresh("token"), "net", "us-east-1", {"anycloud_owner_api": "cl-1"}, RULES)
    return replace(spec, **changes)  # type: ignore[arg-type]


def machine(network_id: str, **changes: object) -> MachineSpec:
    spec = MachineSpec(
        token=fresh("token"),
        name="vm",
        region="us-east-1",
        zone="us-east-1a",
        vm_type="m5.large",
        image="image-1",
        network=network_id,
        tags={"anycloud_owner_api": "cl-1", "anycloud_role": "pool"},
        user_data="#cloud-config\n{}\n",
    )
    return replace(spec, **changes)  # type: ignore[arg-type]


async def refused(call: object, kind: ErrorKind) -> str:
    """Awaits a call that must fail in that way; the error's text."""
    with pytest.raises(ProviderError) as caught:
        await call  # type: ignore[misc]
    assert caught.value.kind == kind
    return caught.value.message


class Contract:
    @pytest.fixture
    async def cloud(self, world: World) -> AsyncIterator[Provider]:
        provider = world.provider()
        yield provider
        await provider.close()

    @pytest.fixture
    async def elsewhere(self, world: World) -> AsyncIterator[Provider]:
        provider = world.provider("elsewhere")
        yield provider
        await provider.close()

    # Identity and errors

    async def test_the_account_is_asked_of_the_cloud(self, cloud: Provider, elsewhere: Provider) -> None:
        assert await cloud.identity.account() == "account"
        assert await elsewhere.identity.account() == "elsewhere"

    async def test_a_revoked_credential_is_auth_and_its_secret_untold(self, world: World) -> None:
        provider = world.provider("gone", revoked=True)
        assert "secret" not in await refused(provider.identity.account(), "auth")
        await refused(provider.machines.list({}), "auth")
        await provider.close()

    @pytest.mark.parametrize("kind", ["capacity", "quota", "throttled", "auth", "invalid", "unreachable"])
    async def test_a_failure_keeps_its_class_and_buys_nothing(
        self, world: World, cloud: Provider, kind: ErrorKind
    ) -> None:
        spec = machine((await cloud.networks.create(network())).id)
        world.fail("create_machine", kind)
        await refused(cloud.machines.create(spec), kind)
        assert await cloud.machines.find(spec.token) is None

    # Networks and addresses

    async def test_a_network_is_made_once_for_a_token(self, cloud: Provider) -> None:
        spec = network()
        made = await cloud.networks.create(spec)
        assert (made.token, made.region, made.rules, dict(made.tags)) == (spec.token, spec.region, RULES, spec.tags)
        assert (await cloud.networks.create(spec)).id == made.id

    async def test_a_network_lost_on_the_way_is_found_by_its_token(self, world: World, cloud: Provider) -> None:
        spec = network(tags={"lost": fresh("value")})
        world.lose("create_network")
        await refused(cloud.networks.create(spec), "unreachable")
        made = await cloud.networks.create(spec)
        assert [found.id for found in await cloud.networks.list(spec.tags)] == [made.id]

    async def test_rules_are_replaced(self, cloud: Provider) -> None:
        made = await cloud.networks.create(network(rules=()))
        assert made.rules == ()
        for _ in range(2):
            assert (await cloud.networks.set_rules(made.id, RULES)).rules == RULES
        assert (await cloud.networks.set_rules(made.id, ())).rules == ()
        await refused(cloud.networks.set_rules("net-none", RULES), "not_found")

    async def test_deleting_a_network_twice_is_success(self, cloud: Provider) -> None:
        spec = network(tags={"gone": fresh("value")})
        made = await cloud.networks.create(spec)
        await cloud.networks.delete(made.id)
        await cloud.networks.delete(made.id)
        assert await cloud.networks.list(spec.tags) == []

    async def test_a_network_stays_until_its_machines_are_terminated(self, world: World, cloud: Provider) -> None:
        made = await cloud.networks.create(network())
        inside = await cloud.machines.create(machine(made.id))
        await refused(cloud.networks.delete(made.id), "conflict")
        await cloud.machines.delete(inside.id)
        await world.settled(cloud, inside)
        await cloud.networks.delete(made.id)

    async def test_an_address_is_made_once_and_used_by_its_machine(self, world: World, cloud: Provider) -> None:
        tags = {"address": fresh("value")}
        spec = AddressSpec(fresh("token"), "ip", "us-east-1", tags)
        made = await cloud.addresses.create(spec)
        assert await cloud.addresses.create(spec) == made
        assert await cloud.addresses.list(tags) == [made]
        user = await cloud.machines.create(machine((await cloud.networks.create(network())).id, address=made.id))
        assert user.address == made.ip
        await refused(cloud.addresses.delete(made.id), "conflict")
        await cloud.machines.delete(user.id)
        await world.settled(cloud, user)
        for _ in range(2):
            await cloud.addresses.delete(made.id)
        assert await cloud.addresses.list(tags) == []

    # Machines

    async def test_a_machine_is_bought_once_for_a_token(self, world: World, cloud: Provider) -> None:
        spec = machine((await cloud.networks.create(network())).id)
        made = await cloud.machines.create(spec)
        assert made.state == "pending"
        assert (made.token, made.name, made.region, made.zone) == (spec.token, "vm", "us-east-1", "us-east-1a")
        assert (made.vm_type, made.image, made.network) == ("m5.large", "image-1", spec.network)
        assert made.tags == spec.tags
        assert (await cloud.machines.create(spec)).id == made.id
        assert (await world.settled(cloud, made)).state == "running"
        assert (await cloud.machines.create(spec)).id == made.id

    async def test_a_purchase_whose_answer_got_lost_is_found_by_its_token(self, world: World, cloud: Provider) -> None:
        spec = machine((await cloud.networks.create(network())).id, tags={"lost": fresh("value")})
        world.lose("create_machine")
        await refused(cloud.machines.create(spec), "unreachable")
        found = await cloud.machines.find(spec.token)
        assert found is not None
        assert (await cloud.machines.create(spec)).id == found.id
        assert len(await cloud.machines.list(spec.tags)) == 1

    async def test_a_token_with_other_arguments_is_a_conflict(self, cloud: Provider) -> None:
        spec = machine((await cloud.networks.create(network())).id)
        await cloud.machines.create(spec)
        await refused(cloud.machines.create(replace(spec, vm_type="m5.xlarge")), "conflict")
        await refused(cloud.machines.create(replace(spec, user_data="#cloud-config\n{a: b}\n")), "conflict")

    async def test_a_machine_in_an_unknown_network_is_invalid(self, cloud: Provider) -> None:
        await refused(cloud.machines.create(machine("net-none")), "invalid")

    async def test_deleting_a_machine_ends_as_terminated_and_repeats_well(self, world: World, cloud: Provider) -> None:
        made = await cloud.machines.create(machine((await cloud.networks.create(network())).id))
        await cloud.machines.delete(made.id)
        await cloud.machines.delete(made.id)
        ended = await world.settled(cloud, made)
        assert ended.state == "terminated"
        await cloud.machines.delete(made.id)
        assert (await cloud.machines.describe(made.id)).state == "terminated"

    async def test_deleting_an_unknown_machine_is_success(self, cloud: Provider) -> None:
        await cloud.machines.delete("vm-none")

    async def test_a_terminated_machine_keeps_its_token(self, world: World, cloud: Provider) -> None:
        spec = machine((await cloud.networks.create(network())).id)
        made = await cloud.machines.create(spec)
        await cloud.machines.delete(made.id)
        await world.settled(cloud, made)
        again = await cloud.machines.create(spec)
        assert (again.id, again.state) == (made.id, "terminated")

    async def test_another_accounts_not_found_says_nothing_about_ours(
        self, cloud: Provider, elsewhere: Provider
    ) -> None:
        spec = machine((await cloud.networks.create(network())).id, tags={"ours": fresh("value")})
        made = await cloud.machines.create(spec)
        await refused(elsewhere.machines.describe(made.id), "not_found")
        assert await elsewhere.machines.find(spec.token) is None
        assert await elsewhere.machines.list(spec.tags) == []
        await elsewhere.machines.delete(made.id)
        assert (await cloud.machines.describe(made.id)).state in ("pending", "running")

    async def test_the_same_token_in_two_accounts_is_two_machines(self, cloud: Provider, elsewhere: Provider) -> None:
        token = fresh("token")
        made = [
            await each.machines.create(machine((await each.networks.create(network())).id, token=token))
            for each in (cloud, elsewhere)
        ]
        assert made[0].id != made[1].id

    async def test_machines_are_listed_by_all_their_tags_in_all_regions(self, cloud: Provider) -> None:
        inside = (await cloud.networks.create(network())).id
        owner = {"anycloud_owner_api": fresh("cl")}
        here = await cloud.machines.create(machine(inside, tags={**owner, "anycloud_role": "pool"}))
        there = await cloud.machines.create(
            machine(inside, tags={**owner, "anycloud_role": "management"}, region="eu-west-1", zone="eu-west-1b")
        )
        assert {found.id for found in await cloud.machines.list(owner)} == {here.id, there.id}
        assert [found.id for found in await cloud.machines.list({**owner, "anycloud_role": "pool"})] == [here.id]
        assert [found.id for found in await cloud.machines.list(owner, region="eu-west-1")] == [there.id]
        assert await cloud.machines.list({**owner, "anycloud_role": "other"}) == []

    async def test_a_failed_list_is_an_error_and_not_an_empty_list(self, world: World, cloud: Provider) -> None:
        world.fail("list_machines", "throttled")
        await refused(cloud.machines.list({}), "throttled")

    # Buckets and objects

    async def test_a_bucket_is_made_once_and_is_managed(self, cloud: Provider) -> None:
        name = fresh("bucket")
        for _ in range(2):
            made = await cloud.buckets.create(name, "us-east-1", {"anycloud_owner_api": "cl-1"})
            assert (made.name, made.region, made.versioning, made.managed) == (name, "us-east-1", False, True)
        assert await cloud.buckets.head(name) == made

    async def test_a_name_that_another_account_has_is_a_conflict_and_denied(
        self, cloud: Provider, elsewhere: Provider
    ) -> None:
        name = fresh("bucket")
        await elsewhere.buckets.create(name, "us-east-1", {"a": "b"})
        await refused(cloud.buckets.create(name, "us-east-1", {"a": "b"}), "conflict")
        await refused(cloud.buckets.head(name), "auth")
        await refused(cloud.objects.list(name), "auth")

    async def test_an_unknown_bucket_is_not_found_and_deleting_it_is_success(self, cloud: Provider) -> None:
        await refused(cloud.buckets.head("bucket-none"), "not_found")
        await refused(cloud.objects.get("bucket-none", "k"), "not_found")
        await cloud.buckets.delete("bucket-none")

    async def test_without_versioning_a_write_replaces_the_object(self, cloud: Provider) -> None:
        name = await _bucket(cloud, versioning=False)
        await cloud.objects.put(name, "k", b"one")
        await cloud.objects.put(name, "k", b"two")
        assert (await cloud.objects.get(name, "k")).data == b"two"
        assert len(await cloud.objects.list_versions(name)) == 1

    async def test_with_versioning_earlier_versions_stay_readable(self, cloud: Provider) -> None:
        name = await _bucket(cloud, versioning=True)
        one = await cloud.objects.put(name, "a/k", b"one")
        two = await cloud.objects.put(name, "a/k", bytes(range(256)))
        await cloud.objects.put(name, "b", b"")
        assert (await cloud.objects.get(name, "a/k")).data == bytes(range(256))
        assert (await cloud.objects.get(name, "a/k", one.version)).data == b"one"
        listed = await cloud.objects.list_versions(name, "a/")
        assert [(item.version, item.latest, item.size) for item in listed] == [
            (two.version, True, 256),
            (one.version, False, 3),
        ]
        assert [item.key for item in await cloud.objects.list(name)] == ["a/k", "b"]

    async def test_conditional_writes_have_one_winner(self, cloud: Provider) -> None:
        name = await _bucket(cloud, versioning=True)
        one = await cloud.objects.put(name, "k", b"one", if_absent=True)
        await refused(cloud.objects.put(name, "k", b"other", if_absent=True), "conflict")
        await cloud.objects.put(name, "k", b"two", if_match=one.etag)
        await refused(cloud.objects.put(name, "k", b"other", if_match=one.etag), "conflict")
        await refused(cloud.objects.put(name, "absent", b"x", if_match=one.etag), "conflict")
        assert (await cloud.objects.get(name, "k")).data == b"two"

    async def test_a_bucket_goes_once_every_version_is_deleted(self, cloud: Provider) -> None:
        name = await _bucket(cloud, versioning=True)
        for data in (b"one", b"two"):
            await cloud.objects.put(name, "k", data)
        await refused(cloud.buckets.delete(name), "conflict")
        for item in await cloud.objects.list_versions(name):
            for _ in range(2):
                await cloud.objects.delete_version(name, item.key, item.version)
        await refused(cloud.objects.get(name, "k"), "not_found")
        for _ in range(2):
            await cloud.buckets.delete(name)


async def _bucket(cloud: Provider, *, versioning: bool) -> str:
    name = fresh("bucket")
    await cloud.buckets.create(name, "us-east-1", {"anycloud_owner_api": "cl-1"})
    assert (await cloud.buckets.set_versioning(name, enabled=versioning)).versioning is versioning
    return name
