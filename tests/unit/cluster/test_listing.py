"""The list of clusters: whole, or in pages."""

from __future__ import annotations

from functools import partial

import pytest
from anycloud_cluster.domain.cluster import State
from anycloud_cluster.rpc.clusters import ClustersServicer
from anycloud_cluster.rpc.fence import Fences
from anycloud_cluster.store import clusters
from anycloud_common.clock import ManualClock
from anycloud_common.rest import Invalid
from anycloud_common.store import Store
from anycloudapi.cluster.v1 import clusters_pb2

from tests.support.operations import Operation

RELEASE = dict.fromkeys(("api_version", "api_image", "chart_version", "owner_user_id", "owner_username"), "x")
LIST = Operation(clusters_pb2.DESCRIPTOR.services_by_name["Clusters"], "ListClusters")


async def record(store: Store, clock: ManualClock, *names: str) -> None:
    for name in names:
        values = {"id": f"cl-{name}", "name": name, "state": State.TERMINATED, "created_by": "local", **RELEASE}
        await store.write(partial(clusters.add, values=values))
        await clock.advance(1)


async def listed(store: Store, **params: str) -> clusters_pb2.ListClustersResponse:
    return await ClustersServicer(store, Fences(store), None).ListClusters(LIST.request(**params), None)


async def test_without_a_limit_all_are_listed_newest_first(store: Store, clock: ManualClock) -> None:
    none = await listed(store)
    assert (LIST.answer(none).body, none.total_count) == ({"clusters": []}, 0)
    await record(store, clock, "one", "two", "three")
    answer = await listed(store)
    assert [cluster["name"] for cluster in LIST.answer(answer).body["clusters"]] == ["three", "two", "one"]
    assert (answer.total_count, answer.HasField("next_cursor")) == (3, False)


async def test_with_a_limit_they_come_in_pages(store: Store, clock: ManualClock) -> None:
    await record(store, clock, "one", "two", "three")
    first = await listed(store, limit="2")
    assert [cluster.name for cluster in first.clusters] == ["three", "two"]
    assert LIST.answer(first).body.keys() == {"clusters"}
    last = await listed(store, limit="2", cursor=first.next_cursor)
    assert [cluster.name for cluster in last.clusters] == ["one"]
    assert (first.total_count, last.total_count, last.HasField("next_cursor")) == (3, 3, False)


@pytest.mark.parametrize("params", [{"limit": "0"}, {"limit": "1001"}, {"limit": "ten"}, {"cursor": "x"}])
async def test_a_page_that_cannot_be_is_refused(store: Store, params: dict[str, str]) -> None:
    with pytest.raises(Invalid, match=next(iter(params))):
        await listed(store, **params)
