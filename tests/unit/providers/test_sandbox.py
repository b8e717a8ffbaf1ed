"""The sandbox's gateways keep the contract, over the world API of a running sandbox."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any

import pytest
from aiohttp import web
from anycloud_providers.objects import open_objects
from anycloud_providers.opening import open_provider
from anycloud_providers.protocol import ErrorKind, Machine, Provider, ProviderError, ProviderKind

from tests.support.sandbox import Sandbox
from tests.unit.providers.contract import Contract, World, fresh, network

CREDENTIALS: Mapping[ProviderKind, Callable[[str, str], dict[str, str]]] = {
    "AWS": lambda account, secret: {"accessKeyId": f"{account}.key", "secretAccessKey": secret},
    "GCP": lambda account, secret: {"projectId": account, "clientEmail": "a@b", "privateKey": secret},
    "Azure": lambda account, secret: {
        "subscriptionId": account,
        "applicationId": "app",
        "directoryId": "dir",
        "secret": secret,
    },
}
AREAS = {"bucket": "objects", "object": "objects", "version": "objects", "versioning": "objects"}


class SandboxWorld:
    def __init__(self, sandbox: Sandbox, kind: ProviderKind) -> None:
        self.sandbox = sandbox
        self.kind = kind

    def provider(self, account: str = "account", *, revoked: bool = False) -> Provider:
        credential = CREDENTIALS[self.kind](account, "revoked" if revoked else "the-secret")
        return open_provider(self.kind, credential, self.sandbox.url)

    async def settled(self, provider: Provider, machine: Machine) -> Machine:
        async with asyncio.timeout(10):
            while True:
                found = await provider.machines.describe(machine.id)
                if found.state not in ("pending", "stopping"):
                    return found
                await asyncio.sleep(0.02)

    def fail(self, action: str, kind: ErrorKind) -> None:
        self.sandbox.fault(kind, times=1, area="cloud", action=_action(action))

    def lose(self, action: str) -> None:
        self.sandbox.fault("lost", times=1, area="cloud", action=_action(action))


def _action(name: str) -> str:
    """create_machine → CreateMachine, as the world API says it."""
    return "".join(part.capitalize() for part in name.split("_"))


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    sandbox = Sandbox(tmp_path_factory.mktemp("world"), agent=False)
    sandbox.start_world()
    yield sandbox
    sandbox.stop()


@pytest.mark.parametrize("sold_by", ["AWS", "GCP", "Azure"])
class TestSandbox(Contract):
    @pytest.fixture
    def world(self, sandbox: Sandbox, sold_by: ProviderKind) -> World:
        return SandboxWorld(sandbox, sold_by)


async def test_clouds_do_not_see_each_others_resources(sandbox: Sandbox) -> None:
    aws, gcp = (SandboxWorld(sandbox, kind).provider() for kind in ("AWS", "GCP"))
    tags = {"only": fresh("value")}
    await aws.networks.create(network(tags=tags))
    assert len(await aws.networks.list(tags)) == 1
    assert await gcp.networks.list(tags) == []
    await aws.close()
    await gcp.close()


async def test_buckets_can_be_opened_alone(sandbox: Sandbox) -> None:
    store = open_objects("AWS", CREDENTIALS["AWS"]("account", "s"), sandbox.url)
    name = fresh("alone")
    await store.buckets.create(name, "us-east-1", {"a": "b"})
    await store.objects.put(name, "k", b"v")
    assert (await store.objects.get(name, "k")).data == b"v"
    await store.close()


@pytest.mark.parametrize("kind", ["AWS", "GCP", "Azure"])
def test_a_credential_that_lacks_a_field_is_invalid_and_the_field_named(kind: ProviderKind) -> None:
    credential = CREDENTIALS[kind]("account", "the-secret")
    missing = next(iter(credential))
    del credential[missing]
    with pytest.raises(ProviderError, match=missing) as caught:
        open_provider(kind, credential, "http://127.0.0.1:1")
    assert caught.value.kind == "invalid"
    assert "the-secret" not in str(caught.value)


def test_without_a_sandbox_no_cloud_is_reached() -> None:
    with pytest.raises(ProviderError, match="--sandbox") as caught:
        open_provider("AWS", CREDENTIALS["AWS"]("account", "s"), None)
    assert caught.value.kind == "invalid"


async def test_a_sandbox_that_is_down_is_unreachable() -> None:
    provider = open_provider("AWS", CREDENTIALS["AWS"]("account", "the-secret"), "http://127.0.0.1:1")
    with pytest.raises(ProviderError) as caught:
        await provider.identity.account()
    assert caught.value.kind == "unreachable"
    assert "the-secret" not in str(caught.value)
    await provider.close()


@pytest.fixture
async def odd() -> AsyncIterator[Callable[[int, Any], str]]:
    """A server that answers every call with that status and body."""
    answers: list[tuple[int, Any]] = []

    async def handle(_request: web.Request) -> web.Response:
        status, body = answers[-1]
        return (
            web.Response(status=status, text=body) if isinstance(body, str) else web.json_response(body, status=status)
        )

    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()

    def serve(status: int, body: Any) -> str:
        answers.append((status, body))
        return f"http://127.0.0.1:{runner.addresses[0][1]}"

    yield serve
    await runner.cleanup()


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, {"class": "surprise", "message": "?"}),
        (502, "<html>bad gateway</html>"),
        (200, "<html>welcome</html>"),
        (200, {"machine": {"id": "vm-1"}}),
        (200, {"machine": None}),
        (200, ["machine"]),
    ],
)
async def test_an_answer_that_cannot_be_read_is_unreachable(
    odd: Callable[[int, Any], str], status: int, body: Any
) -> None:
    provider = open_provider("AWS", CREDENTIALS["AWS"]("account", "s"), odd(status, body))
    with pytest.raises(ProviderError) as caught:
        await provider.machines.describe("vm-1")
    assert caught.value.kind == "unreachable"
    await provider.close()
