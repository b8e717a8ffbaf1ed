"""The view that watches keep, against a small API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from aiohttp import web
from anycloud_common.clock import ManualClock
from anycloud_common.kube import Kube
from anycloud_deployment.live.world import World

from tests.unit.kube import api_server
from tests.unit.kube.api_server import ApiServer

LABELS = {
    "app.kubernetes.io/managed-by": "anycloud",
    "anycloud.sh/deployment": "dep-1",
    "anycloud.sh/revision": "1",
}


def pod(uid: str, restarts: int = 0, *, ready: bool = True) -> dict[str, Any]:
    status = {"name": "app", "ready": ready, "restartCount": restarts, "state": {"running": {}}}
    return {
        "metadata": {"name": f"dep-1-{uid}", "namespace": "ns", "uid": uid, "labels": LABELS},
        "spec": {"nodeName": "node-1", "containers": [{"name": "app"}]},
        "status": {"phase": "Running", "containerStatuses": [status]},
    }


def node(*, ready: bool) -> dict[str, Any]:
    labels = {"anycloud.sh/node-pool": "np-1", "anycloud.sh/attempt": "attempt-1"}
    condition = {"type": "Ready", "status": str(ready)}
    return {"metadata": {"name": "node-1", "uid": "n", "labels": labels}, "status": {"conditions": [condition]}}


class Watched:
    """A World at a server, with what it told."""

    def __init__(self, server: ApiServer, kube: Kube) -> None:
        self.server = server
        self.clock = ManualClock()
        self.world = world = World(kube, self.clock)
        self.told: list[tuple[str, str]] = []
        self.nodes = 0
        world.listen(lambda *change: self.told.append(change), self._node)

    def _node(self) -> None:
        self.nodes += 1

    async def until(self, holds: Callable[[], bool]) -> None:
        for _ in range(2000):
            if holds():
                return
            await asyncio.sleep(0.005)
        raise TimeoutError("it never came to that")


def selected(request: web.Request, key: Any, other: Any, obj: Any) -> bool:
    """The server's own choice, and selectors that ask for a label without naming its value."""
    if other[:2] != key[:2] or key[2] not in ("", other[2]):
        return False
    labels = obj["metadata"].get("labels", {})
    terms = [term.partition("=") for term in request.query.get("labelSelector", "").split(",") if term]
    return all(labels.get(label) == value if equal else label in labels for label, equal, value in terms)


@pytest.fixture
async def watched(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Watched]:
    monkeypatch.setattr(api_server, "_selected", selected)
    server = ApiServer()
    runner = web.AppRunner(server.app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    kube = Kube.from_token(f"http://{host}:{port}", "", "token", deadline_s=5.0)
    found = Watched(server, kube)
    task = asyncio.create_task(found.world.run())
    yield found
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await kube.close()
    await runner.cleanup()


async def test_it_is_synced_once_every_kind_was_listed(watched: Watched) -> None:
    assert not watched.world.synced
    await watched.until(lambda: watched.world.synced)


async def test_pods_come_change_and_go_under_their_deployment(watched: Watched) -> None:
    watched.server.put("pods", pod("a"))
    await watched.until(lambda: watched.world.synced)
    world = watched.world
    found = world.pod("a")
    assert found is not None
    assert world.pods("dep-1") == [found]
    assert (found.ready, found.node) == (True, "node-1")
    watched.server.put("pods", pod("a", ready=False))
    await watched.until(lambda: world.pod("a") is not None and not world.pods("dep-1")[0].ready)
    watched.server.remove("pods", "dep-1-a", "ns")
    await watched.until(lambda: world.pod("a") is None)
    assert world.pods("dep-1") == []
    assert watched.told == [("dep-1", "Pod")] * 3


async def test_a_restart_bears_the_time_at_which_it_was_first_seen(watched: Watched) -> None:
    watched.server.put("pods", pod("a"))
    await watched.until(lambda: watched.world.pod("a") is not None)
    first = watched.world.pods("dep-1")[0].restarts_seen_at
    await watched.clock.advance(1)
    watched.server.put("pods", pod("a", ready=False))
    await watched.until(lambda: not watched.world.pods("dep-1")[0].ready)
    assert watched.world.pods("dep-1")[0].restarts_seen_at == first
    watched.server.put("pods", pod("a", restarts=1))
    await watched.until(lambda: watched.world.pods("dep-1")[0].restarts == 1)
    assert watched.world.pods("dep-1")[0].restarts_seen_at == first + 1000


async def test_a_replaced_pod_of_the_same_name_is_another_pod(watched: Watched) -> None:
    watched.server.put("pods", pod("a"))
    await watched.until(lambda: watched.world.pod("a") is not None)
    other = pod("b")
    other["metadata"]["name"] = "dep-1-a"
    watched.server.remove("pods", "dep-1-a", "ns")
    watched.server.put("pods", other)
    await watched.until(lambda: watched.world.pod("b") is not None)
    assert watched.world.pod("a") is None


async def test_only_objects_with_our_labels_are_seen(watched: Watched) -> None:
    stranger = pod("x")
    stranger["metadata"]["labels"] = {"anycloud.sh/deployment": "dep-1"}
    watched.server.put("pods", stranger)
    secret = {"metadata": {"name": "dep-1", "namespace": "ns", "labels": LABELS, "uid": "s"}, "data": {"A": "eA=="}}
    watched.server.put("secrets", secret)
    await watched.until(lambda: watched.world.synced)
    assert watched.world.pods("dep-1") == []
    found = watched.world.native("Secret", "ns", "dep-1")
    assert found is not None
    assert (found.uid, found.data, found.ours) == ("s", {"A": "eA=="}, False)


async def test_replica_sets_are_told_by_deployment(watched: Watched) -> None:
    sets = {"metadata": {"name": "rs", "namespace": "ns", "labels": LABELS}, "spec": {"replicas": 1}}
    watched.server.put("replicasets", {**sets, "status": {"availableReplicas": 1}}, "/apis/apps/v1")
    await watched.until(lambda: watched.world.synced)
    [found] = watched.world.replica_sets("dep-1")
    assert (found.generation, found.wanted, found.available) == (1, 1, 1)
    assert watched.world.replica_sets("dep-2") == []


async def test_nodes_are_told_when_they_change_and_not_at_each_heartbeat(watched: Watched) -> None:
    watched.server.put("nodes", node(ready=True))
    await watched.until(lambda: watched.world.synced)
    assert watched.nodes == 1
    watched.server.put("nodes", node(ready=True))
    watched.server.put("nodes", node(ready=False))
    await watched.until(lambda: watched.nodes == 2)
    found = watched.world.node("node-1")
    assert found is not None
    assert (found.uid, found.attempt, found.ready) == ("n", "attempt-1", False)
