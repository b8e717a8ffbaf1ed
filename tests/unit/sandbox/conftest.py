"""One sandbox for the whole folder, with a management machine and one pool machine; and the official client for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from kubernetes.aio import client

from tests.support.sandbox import Management, Sandbox, bootstrap_secret

JOIN = "abcdef.0123456789abcdef"
Json = dict[str, object]


def api_client(made: Management, token: str | None = None) -> Any:
    configuration = client.Configuration(host=made.endpoint)
    configuration.ssl_ca_cert = str(made.kubeconfig.parents[3] / "var/lib/rancher/k3s/server/tls/server-ca.crt")
    configuration.api_key = {"BearerToken": f"Bearer {token or made.token}"}
    return client.ApiClient(configuration)


@pytest.fixture(scope="session")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    running = Sandbox(tmp_path_factory.mktemp("sandbox"))
    running.start_world()
    running.start_agent()
    yield running
    running.stop()


@pytest.fixture(scope="session")
def management(sandbox: Sandbox) -> Management:
    return asyncio.run(furnish(sandbox))


async def furnish(sandbox: Sandbox) -> Management:
    """A management machine that machines may join with JOIN, and the pool Node `pool-1`."""
    made = await sandbox.management()
    async with api_client(made) as api:
        core: Any = client.CoreV1Api(api)
        await core.create_namespaced_secret("kube-system", bootstrap_secret(JOIN))
        sandbox.pool_machine(made, "pool-1", JOIN)

        async def joined() -> bool:
            return len((await core.list_node()).items) == 2

        await sandbox.until(joined)
    return made


@pytest.fixture
async def kube(management: Management) -> AsyncIterator[Any]:
    async with api_client(management) as api:
        yield api


@pytest.fixture
async def core(kube: Any) -> Any:
    return client.CoreV1Api(kube)


@pytest.fixture
async def namespace(core: Any, request: pytest.FixtureRequest) -> AsyncIterator[str]:
    """A namespace of the test's own."""
    name = "test-" + "".join(letter if letter.isalnum() else "-" for letter in request.node.name.lower())[:50].strip(
        "-"
    )
    await core.create_namespace({"metadata": {"name": name}})
    yield name
    await core.delete_namespace(name)


def the(api: object) -> Any:
    """An API of the official client, to be called with plain dicts."""
    return api
