"""Our reflector against every API server: cut connections, forgotten history, a server that ends and comes back."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import orjson
import pytest
from anycloud_common.kube import Kube, KubeError, Object, Reflector

from tests.kube.objects import OWNER, config_map
from tests.kube.relay import Relay
from tests.kube.servers import Server, connect
from tests.kube.waiting import until


class Watched:
    """A running reflector of ConfigMaps of ours, behind a relay, and what it told."""

    def __init__(self, kube: Kube, ns: str, relay: Relay) -> None:
        self.relay = relay
        self.told: list[tuple[str, str]] = []
        self.errors: list[KubeError] = []
        self.reflector = Reflector(kube, "ConfigMap", ns, OWNER, self._take)

    def _take(self, event: str, old: Object | None, new: Object | None) -> None:
        self.told.append((event, (new or old or {})["metadata"]["name"]))
        assert old is None or new is None or old["metadata"]["uid"] == new["metadata"]["uid"]

    async def until(self, *told: tuple[str, str]) -> None:
        """Waits until exactly these events were told, in this order."""

        async def complete() -> bool:
            return len(self.told) >= len(told)

        try:
            await until(complete)
        finally:
            assert self.told == list(told)


@pytest.fixture
async def watched(server: Server, ns: str) -> AsyncIterator[Watched]:
    at = urlsplit(server.endpoint)
    assert at.hostname and at.port
    async with Relay(at.hostname, at.port) as relay:
        kube = connect(server, port=relay.port)
        watched = Watched(kube, ns, relay)
        task = asyncio.create_task(watched.reflector.run())
        async with asyncio.timeout(20):
            await watched.reflector.wait_synced()
        yield watched
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await kube.close()


async def test_changes_are_told_in_order(kube: Kube, ns: str, watched: Watched) -> None:
    first = await kube.create("ConfigMap", config_map(ns, "first"))
    await kube.create("ConfigMap", config_map(ns, "second"))
    await kube.apply("ConfigMap", config_map(ns, "second", uid=await uid(kube, ns, "second"), a="1"))
    await kube.delete("ConfigMap", "first", ns, first["metadata"]["uid"])
    await eventually_told(watched, ("DELETED", "first"))
    assert watched.told[:2] == [("ADDED", "first"), ("ADDED", "second")]
    assert set(watched.told[2:-1]) == {("MODIFIED", "second")}
    assert [name for _, name in watched.reflector.items] == ["second"]


async def test_a_watch_tells_all_changes_in_the_order_of_their_versions(kube: Kube, ns: str) -> None:
    _, version = await kube.list("ConfigMap", ns, OWNER)
    made = await asyncio.gather(*(kube.create("ConfigMap", config_map(ns, f"c{number}")) for number in range(20)))
    uids = {obj["metadata"]["name"]: obj["metadata"]["uid"] for obj in made}
    await asyncio.gather(*(kube.delete("ConfigMap", name, ns, uid) for name, uid in uids.items()))
    told: list[tuple[str, str, int]] = []
    async with kube.watch("ConfigMap", ns, OWNER, resource_version=version, timeout_s=2, idle_s=10) as lines:
        async for line in lines:
            event = orjson.loads(line)
            about = event["object"]["metadata"]
            told.append((event["type"], about.get("name", ""), int(about["resourceVersion"])))
    told = [one for one in told if one[0] != "BOOKMARK"]
    assert [version for _, _, version in told] == sorted({version for _, _, version in told})
    assert [kind for kind, _, _ in told] == ["ADDED"] * 20 + ["DELETED"] * 20
    assert {name for _, name, _ in told} == uids.keys()


async def test_an_object_that_no_longer_matches_the_selector_is_gone(kube: Kube, ns: str, watched: Watched) -> None:
    made = await kube.create("ConfigMap", config_map(ns))
    await watched.until(("ADDED", "c"))
    change = {"metadata": {"labels": dict.fromkeys(OWNER)}}
    await kube.patch("ConfigMap", "c", ns, made["metadata"]["uid"], change)
    await watched.until(("ADDED", "c"), ("DELETED", "c"))


async def test_nothing_is_lost_or_told_twice_when_the_connection_breaks(kube: Kube, ns: str, watched: Watched) -> None:
    first = await kube.create("ConfigMap", config_map(ns, "first"))
    await watched.until(("ADDED", "first"))
    watched.relay.cut()
    await kube.create("ConfigMap", config_map(ns, "second"))
    await watched.until(("ADDED", "first"), ("ADDED", "second"))
    watched.relay.cut()
    await kube.delete("ConfigMap", "first", ns, first["metadata"]["uid"])
    await watched.until(("ADDED", "first"), ("ADDED", "second"), ("DELETED", "first"))


async def test_an_object_that_was_replaced_while_unseen_is_told_as_two(kube: Kube, ns: str, watched: Watched) -> None:
    made = await kube.create("ConfigMap", config_map(ns))
    await watched.until(("ADDED", "c"))
    watched.relay.closed = True
    watched.relay.cut()
    await kube.delete("ConfigMap", "c", ns, made["metadata"]["uid"])
    await kube.create("ConfigMap", config_map(ns, b="2"))
    watched.relay.closed = False
    await watched.until(("ADDED", "c"), ("DELETED", "c"), ("ADDED", "c"))


async def test_history_that_was_forgotten_is_read_anew(kube: Kube, server: Server, ns: str, watched: Watched) -> None:
    first = await kube.create("ConfigMap", config_map(ns, "first"))
    await kube.create("ConfigMap", config_map(ns, "second"))
    await watched.until(("ADDED", "first"), ("ADDED", "second"))
    await asyncio.to_thread(server.forget_history)
    await kube.delete("ConfigMap", "first", ns, first["metadata"]["uid"])
    await watched.until(("ADDED", "first"), ("ADDED", "second"), ("DELETED", "first"))
    assert await expired(kube, ns, first["metadata"]["resourceVersion"])


async def expired(kube: Kube, ns: str, version: str) -> bool:
    """Whether a watch from that version is refused with 410, at once or as its first event."""
    watching = kube.watch("ConfigMap", ns, None, resource_version=version, timeout_s=2, idle_s=5)
    try:
        async with watching as lines:
            async for line in lines:
                return b'"code":410' in line
    except KubeError as error:
        return error.status == 410
    return False


async def test_an_api_server_that_is_away_is_unreachable_and_then_seen_again(
    kube: Kube, server: Server, ns: str, watched: Watched
) -> None:
    await asyncio.to_thread(server.end)
    try:
        with pytest.raises(KubeError) as caught:
            await kube.list("ConfigMap", ns)
        assert caught.value.reason == "unreachable"
    finally:
        await asyncio.to_thread(server.begin)
    await until(lambda: created(kube, ns))
    await watched.until(("ADDED", "c"))
    assert watched.reflector.synced


async def created(kube: Kube, ns: str) -> bool:
    try:
        await kube.ensure("ConfigMap", config_map(ns), OWNER)
    except KubeError as error:
        assert error.reason in ("unreachable", "throttled")
        return False
    return True


async def test_a_watch_sends_bookmarks_and_ends_when_its_time_is_up(kube: Kube, ns: str) -> None:
    _, version = await kube.list("ConfigMap", ns, OWNER)
    began = asyncio.get_running_loop().time()
    async with kube.watch("ConfigMap", ns, OWNER, resource_version=version, timeout_s=2, idle_s=10) as lines:
        seen = [line async for line in lines]
    assert asyncio.get_running_loop().time() - began < 6
    assert all(b'"BOOKMARK"' in line for line in seen)


async def uid(kube: Kube, ns: str, name: str) -> str:
    found = await kube.get("ConfigMap", name, ns)
    assert found is not None
    return str(found["metadata"]["uid"])


async def eventually_told(watched: Watched, *told: tuple[str, str]) -> None:
    async def complete() -> bool:
        return set(told) <= set(watched.told)

    await until(complete)
