"""The local copy stays true through cut connections, expired versions and lost deletions."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest
from anycloud_common.clock import ManualClock
from anycloud_common.kube import Kube, Object, Reflector
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.kube.api_server import ApiServer, Fault, Refusal

TOLERATED = 10.0


class Watched:
    """A running reflector of Pods, and what it told."""

    def __init__(self, kube: Kube, clock: ManualClock) -> None:
        self.clock = clock
        self.told: list[tuple[str, str]] = []
        self.last: Object | None = None
        self.news = asyncio.Event()
        self.reflector = Reflector(
            kube, "Pod", None, None, self._take, clock=clock, tolerate_s=TOLERATED, chance=random.Random(1)
        )

    def _take(self, event: str, old: Object | None, new: Object | None) -> None:
        obj = new or old
        assert obj is not None
        self.told.append((event, obj["metadata"]["name"]))
        self.last = obj
        self.news.set()

    async def until(self, *told: tuple[str, str]) -> None:
        """Waits until exactly these events were told."""
        async with asyncio.timeout(5):
            while self.told != list(told):
                self.news.clear()
                await self.news.wait()

    async def names(self, *names: str) -> None:
        async with asyncio.timeout(5):
            while {name for _, name in self.reflector.items} != set(names):
                self.news.clear()
                await self.news.wait()

    async def retry(self) -> None:
        """Lets the reflector that waits after a failure try again."""
        async with asyncio.timeout(5):
            await self.clock.sleeping(1)
        await self.clock.advance(30)


@pytest.fixture
async def watched(kube: Kube) -> AsyncIterator[Watched]:
    watched = Watched(kube, ManualClock())
    task = asyncio.create_task(watched.reflector.run())
    yield watched
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def pod(name: str, **metadata: Any) -> Object:
    return {"metadata": {"name": name, "namespace": "n", **metadata}}


async def test_the_largest_objects_that_a_server_stores_are_watched(server: ApiServer, watched: Watched) -> None:
    await watched.reflector.wait_synced()
    await server.watching()
    server.put("pods", pod("large", annotations={"a": "x" * 1_500_000}))
    await watched.until(("ADDED", "large"))
    assert server.opened == 1


async def test_existing_objects_and_changes_are_told_in_order(server: ApiServer, watched: Watched) -> None:
    assert not watched.reflector.synced
    server.put("pods", pod("a"))
    await watched.reflector.wait_synced()
    await server.watching()
    server.put("pods", pod("b"))
    server.put("pods", pod("b", labels={"x": "y"}))
    server.remove("pods", "a", "n")
    await watched.until(("ADDED", "a"), ("ADDED", "b"), ("MODIFIED", "b"), ("DELETED", "a"))
    assert list(watched.reflector.items) == [("n", "b")]
    assert watched.reflector.get("b", "n") is not None
    assert watched.reflector.synced


async def test_a_deletion_tells_the_final_state(server: ApiServer, watched: Watched) -> None:
    server.put("pods", pod("a"))
    await server.watching()
    await watched.until(("ADDED", "a"))
    server.objects[("/api/v1", "pods", "n", "a")]["status"] = {"phase": "Succeeded"}
    server.remove("pods", "a", "n")
    await watched.until(("ADDED", "a"), ("DELETED", "a"))
    assert watched.last is not None
    assert watched.last["status"] == {"phase": "Succeeded"}


async def test_after_a_cut_missed_changes_and_deletions_are_told(server: ApiServer, watched: Watched) -> None:
    server.put("pods", pod("a"))
    server.put("pods", pod("b"))
    await server.watching()
    await server.cut_watches()
    await watched.clock.sleeping(1)
    server.remove("pods", "a", "n")
    server.put("pods", pod("b", labels={"x": "y"}))
    server.put("pods", pod("c"))
    server.compact()
    await watched.retry()
    await watched.until(("ADDED", "a"), ("ADDED", "b"), ("DELETED", "a"), ("MODIFIED", "b"), ("ADDED", "c"))


async def test_an_object_recreated_during_a_cut_is_told_as_deleted_and_added(
    server: ApiServer, watched: Watched
) -> None:
    server.put("pods", pod("a"))
    await server.watching()
    await server.cut_watches()
    await watched.clock.sleeping(1)
    server.remove("pods", "a", "n")
    server.put("pods", pod("a"))
    await watched.retry()
    await watched.until(("ADDED", "a"), ("DELETED", "a"), ("ADDED", "a"))


async def test_a_version_that_is_too_old_is_listed_again(server: ApiServer, watched: Watched) -> None:
    server.put("pods", pod("a"))
    await server.watching()
    await watched.clock.advance(2)
    server.compact()
    server.put("pods", pod("b"))
    server.compact()
    await server.end_watches()  # the next watch begins at a version from before
    await watched.retry()
    await watched.until(("ADDED", "a"), ("ADDED", "b"))
    await server.watching(2)


async def test_a_watch_that_ends_properly_goes_on_without_a_list(server: ApiServer, watched: Watched) -> None:
    server.put("pods", pod("a"))
    await server.watching()
    await watched.clock.advance(280)
    await server.end_watches()
    await server.watching(2)
    server.put("pods", pod("b"))
    await watched.until(("ADDED", "a"), ("ADDED", "b"))
    assert sum("watch" not in seen.query for seen in server.seen) == 1


async def test_a_server_that_ends_each_watch_at_once_is_not_hammered(server: ApiServer, watched: Watched) -> None:
    await server.watching()
    await server.end_watches()
    await watched.clock.sleeping(1)
    requests = len(server.seen)
    await asyncio.sleep(0.05)
    assert len(server.seen) == requests


async def test_it_is_not_synced_while_disconnected_for_longer_than_tolerated(
    server: ApiServer, watched: Watched
) -> None:
    await server.watching()
    server.faults += [Fault("GET", "/pods", Refusal(503, "ServiceUnavailable"))] * 40
    await server.cut_watches()
    await watched.clock.sleeping(1)
    assert watched.reflector.synced
    await watched.clock.advance(TOLERATED + 0.1)
    assert not watched.reflector.synced
    assert watched.reflector.last_error is not None
    assert watched.reflector.last_error.reason == "unreachable"
    server.faults.clear()
    await watched.clock.sleeping(1)
    await watched.clock.advance(60)
    async with asyncio.timeout(5):
        await watched.reflector.wait_synced()
    assert watched.reflector.last_error is None


class Hurried(ManualClock):
    """Notes how long it was asked to sleep, and doesn't."""

    def __init__(self) -> None:
        super().__init__()
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await super().sleep(0)


async def test_waits_between_failures_grow_and_stay_bounded(server: ApiServer, kube: Kube) -> None:
    clock = Hurried()
    server.faults += [Fault("GET", "/pods", Refusal(403, "Forbidden"))] * 12
    reflector = Reflector(kube, "Pod", None, None, lambda *_: None, clock=clock)
    task = asyncio.create_task(reflector.run())
    await server.watching()
    task.cancel()
    assert len(clock.slept) == 12
    assert all(
        longest / 2 <= wait <= longest
        for wait, longest in zip(clock.slept, [0.5, 1, 2, 4, 8, 16, *[30] * 6], strict=True)
    )
    assert len({wait / 30 for wait in clock.slept[6:]}) == 6  # a thousand clients don't come back at once


async def test_a_listener_that_raises_does_not_stop_the_others(server: ApiServer, kube: Kube) -> None:
    told: list[str] = []

    def listen(event: str, _old: Object | None, new: Object | None) -> None:
        told.append(event)
        raise RuntimeError("listener")

    reflector = Reflector(kube, "Pod", None, None, listen, clock=ManualClock())
    server.put("pods", pod("a"))
    server.put("pods", pod("b"))
    task = asyncio.create_task(reflector.run())
    await reflector.wait_synced()
    assert told == ["ADDED", "ADDED"]
    task.cancel()


async def test_a_selector_reaches_list_and_watch(server: ApiServer, kube: Kube) -> None:
    reflector = Reflector(kube, "Pod", "n", {"app": "x"}, lambda *_: None, clock=ManualClock())
    task = asyncio.create_task(reflector.run())
    await server.watching()
    assert {seen.query["labelSelector"] for seen in server.seen} == {"app=x"}
    assert {seen.path for seen in server.seen} == {"/api/v1/namespaces/n/pods"}
    task.cancel()


STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "remove", "cut", "compact", "end"]), st.sampled_from("abc")), max_size=12
)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_whatever_happens_the_copy_converges(steps: list[tuple[str, str]]) -> None:
    asyncio.run(_converge(steps))


async def _converge(steps: list[tuple[str, str]]) -> None:
    from aiohttp import web

    server = ApiServer()
    runner = web.AppRunner(server.app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    kube = Kube.from_token(f"http://127.0.0.1:{runner.addresses[0][1]}", "", "t")
    watched = Watched(kube, ManualClock())
    task = asyncio.create_task(watched.reflector.run())
    for step, name in steps:
        await _do(server, step, name)
        await watched.clock.advance(2)
        await asyncio.sleep(0.002)
    present = [name for _, _, _, name in server.objects]
    async with asyncio.timeout(10):
        while {name for _, name in watched.reflector.items} != set(present) or not watched.reflector.synced:
            await watched.clock.advance(10)
            await asyncio.sleep(0.005)
    assert _replayed(watched.told) == set(present)
    task.cancel()
    await kube.close()
    await server.cut_watches()
    await runner.cleanup()


async def _do(server: ApiServer, step: str, name: str) -> None:
    if step == "put":
        server.put("pods", pod(name, generation=len(server.history)))
    elif step == "remove" and ("/api/v1", "pods", "n", name) in server.objects:
        server.remove("pods", name, "n")
    elif step == "cut":
        await server.cut_watches()
    elif step == "end":
        await server.end_watches()
    elif step == "compact":
        server.compact()


def _replayed(told: list[tuple[str, str]]) -> set[str]:
    """The names that a listener would hold; each event must fit to the ones before."""
    held: set[str] = set()
    for event, name in told:
        assert (event == "ADDED") == (name not in held)
        if event == "DELETED":
            held.remove(name)
        else:
            held.add(name)
    return held
