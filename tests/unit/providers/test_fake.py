"""The cloud in memory keeps the contract, so tests that stand on it stand on what clouds do."""

from __future__ import annotations

import pytest
from anycloud_providers.protocol import ErrorKind, Machine, Provider

from tests.support.fake_provider import FakeCloud
from tests.unit.providers.contract import Contract, World, machine, network


class FakeWorld:
    def __init__(self) -> None:
        self.cloud = FakeCloud()

    def provider(self, account: str = "account", *, revoked: bool = False) -> Provider:
        if revoked:
            self.cloud.revoked.add(account)
        return self.cloud.provider(account)

    async def settled(self, provider: Provider, machine: Machine) -> Machine:
        self.cloud.settle(await provider.identity.account())
        return await provider.machines.describe(machine.id)

    def fail(self, action: str, kind: ErrorKind) -> None:
        self.cloud.fail(action, kind)

    def lose(self, action: str) -> None:
        self.cloud.lose(action)


class TestFake(Contract):
    @pytest.fixture
    def world(self) -> World:
        return FakeWorld()


async def test_a_machine_may_end_by_itself() -> None:
    cloud = FakeCloud()
    provider = cloud.provider()
    made = await provider.machines.create(machine((await provider.networks.create(network())).id))
    cloud.end(made.id, "Server.InternalError")
    ended = await provider.machines.describe(made.id)
    assert (ended.state, ended.failure) == ("terminated", "Server.InternalError")
    assert cloud.calls[-1] == ("account", "describe_machine")
