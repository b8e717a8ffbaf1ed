"""A connection that is meant for one cluster asks nothing of another one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from anycloud_common.kube import Kube, KubeError, cluster_uid
from anycloud_common.kube.identity import BoundTransport

from tests.unit.kube.api_server import ApiServer, Fault, Refusal

SYSTEM = "/api/v1/namespaces/kube-system"


@pytest.fixture
async def bound(kube: Kube, server: ApiServer) -> AsyncIterator[Kube]:
    """To the cluster with the UID `ours`."""
    is_now(server, "ours")
    connection = Kube(BoundTransport("ours", kube._transport._endpoint, "", lambda: "the-token", 5.0))
    yield connection
    await connection.close()


def is_now(server: ApiServer, uid: str) -> None:
    namespace = {"metadata": {"name": "kube-system", "uid": uid}}
    server.objects[("/api/v1", "namespaces", "", "kube-system")] = namespace


def paths(server: ApiServer) -> list[str]:
    return [seen.path for seen in server.seen]


@pytest.mark.req("AU-019")
async def test_the_identity_is_compared_on_each_connection_before_anything_else_is_asked(
    bound: Kube, server: ApiServer
) -> None:
    await bound.list("Pod", "default")
    await bound.get("Pod", "none", "default")
    assert paths(server) == [SYSTEM, *paths(server)[1:]]
    assert paths(server).count(SYSTEM) == len(server.peers) == 1
    await asyncio.gather(*(bound.list("Pod", "default") for _ in range(8)))
    assert paths(server).count(SYSTEM) == len(server.peers)


@pytest.mark.req("AU-019")
async def test_another_cluster_is_asked_for_its_identity_and_for_nothing_else(bound: Kube, server: ApiServer) -> None:
    is_now(server, "theirs")
    body = {"metadata": {"name": "p", "namespace": "default"}}
    for call in (
        bound.create("Pod", body),
        bound.list("Pod"),
        bound.delete("Pod", "p", "default", "uid"),
        followed(bound),
    ):
        with pytest.raises(KubeError, match="kube-system UID is theirs, and ours is recorded") as caught:
            await call
        assert caught.value.reason == "auth"
    assert set(paths(server)) == {SYSTEM}


async def followed(kube: Kube) -> None:
    async with kube.watch("Pod", None, None, resource_version="1", timeout_s=1, idle_s=1):
        pass


@pytest.mark.req("AU-019")
async def test_another_cluster_that_takes_over_is_sent_nothing(bound: Kube, server: ApiServer) -> None:
    """Not even the request that hangs in a lost connection."""
    async with bound.watch("Pod", None, None, resource_version="0", timeout_s=30, idle_s=30) as lines:
        await server.watching()
        is_now(server, "theirs")
        server.seen.clear()
        await server.cut_watches()
        with pytest.raises(KubeError):
            [line async for line in lines]
    for call in (followed(bound), bound.list("Pod"), bound.create("Pod", {"metadata": {"name": "p"}})):
        with pytest.raises(KubeError, match="theirs"):
            await call
    assert set(paths(server)) == {SYSTEM}
    is_now(server, "ours")
    await bound.list("Pod", "default")


@pytest.mark.req("AU-019")
async def test_who_refuses_the_token_is_not_believed_to_be_ours(bound: Kube, server: ApiServer) -> None:
    await bound.list("Pod", "default")
    async with bound.watch("Pod", None, None, resource_version="0", timeout_s=30, idle_s=30):
        server.faults.append(Fault("GET", SYSTEM, Refusal(401, "Unauthorized")))
        with pytest.raises(KubeError, match="refused"):  # on a connection of its own
            await bound.list("Pod", "default")
    is_now(server, "theirs")
    with pytest.raises(KubeError, match="theirs"):
        await bound.list("Pod", "default")


async def test_who_it_is_can_be_asked_of_another_cluster(bound: Kube, server: ApiServer) -> None:
    is_now(server, "theirs")
    assert await cluster_uid(bound) == "theirs"
