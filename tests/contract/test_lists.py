"""Lists in pages: the body stays as published, and headers say how many there are and where the next page is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from tests.contract import wire
from tests.contract.world import Api, World

TOTAL = "anycloud-total-count"


@pytest.fixture(scope="module")
def jobs(world: World) -> Iterator[tuple[str, list[str]]]:
    """A Deployment, and five Jobs that wait in it, the newest first."""
    home = world.make_deployment("listed")["id"]
    names = [f"listed-{number}" for number in range(5)]
    for name in names:
        world.hosted.ask("POST", "/workloads", {"deployment": home, "id": name})
    yield home, names[::-1]
    for name in names:
        world.hosted.ask("DELETE", f"/workloads/{name}")


def get(api: Api, path: str) -> httpx.Response:
    answer = api.call("GET", path)
    wire.check_form(answer)
    assert answer.status_code == 200, answer.text
    return answer


def pages(api: Api, path: str, items: Callable[[Any], list[Any]]) -> list[list[str]]:
    """Ids page by page, as the links lead; each page tells the same total."""
    found: list[list[str]] = []
    totals: set[str] = set()
    while True:
        answer = get(api, path)
        totals.add(answer.headers[TOTAL])
        found.append([one["id"] for one in items(answer.json())])
        if "link" not in answer.headers:
            break
        assert answer.links["next"]["url"].startswith("/v1/")
        path = answer.links["next"]["url"].removeprefix("/v1")
    assert totals == {str(sum(map(len, found)))}
    return found


@pytest.mark.parametrize(("limit", "sizes"), [(1, [1, 1, 1, 1, 1]), (2, [2, 2, 1]), (5, [5]), (1000, [5])])
def test_jobs_come_page_by_page_each_once_newest_first(
    hosted: Api, jobs: tuple[str, list[str]], limit: int, sizes: list[int]
) -> None:
    home, names = jobs
    found = pages(hosted, f"/workloads?deploymentId={home}&limit={limit}", list)
    assert [len(page) for page in found] == sizes
    assert [name for page in found for name in page] == names


def test_a_page_stays_where_it_is_while_newer_jobs_come(
    world: World, hosted: Api, jobs: tuple[str, list[str]], unique: Callable[[str], str]
) -> None:
    home, names = jobs
    first = get(hosted, f"/workloads?deploymentId={home}&limit=2")
    newer = unique("job")
    hosted.ask("POST", "/workloads", {"deployment": home, "id": newer})
    second = get(hosted, first.links["next"]["url"].removeprefix("/v1"))
    hosted.ask("DELETE", f"/workloads/{newer}")
    assert [one["id"] for one in second.json()] == names[2:4]


@pytest.mark.parametrize(
    ("path", "key"), [("/clusters", "clusters"), ("/node-pools", "nodePools"), ("/deployments", "deployments")]
)
def test_other_lists_are_whole_unless_a_limit_is_given(hosted: Api, path: str, key: str) -> None:
    whole = get(hosted, path)
    assert list(whole.json()) == [key]
    assert "link" not in whole.headers
    assert whole.headers[TOTAL] == str(len(whole.json()[key]))
    ids = [one["id"] for one in whole.json()[key]]
    assert [one for page in pages(hosted, f"{path}?limit=1", lambda body: list(body[key])) for one in page] == ids


def test_a_filter_goes_on_with_the_pages(hosted: Api, world: World) -> None:
    whole = get(hosted, f"/deployments?nodePool={world.pool['id']}").json()["deployments"]
    found = pages(hosted, "/deployments?nodePool=pool&limit=1", lambda body: list(body["deployments"]))
    assert [one for page in found for one in page] == [one["id"] for one in whole]


@pytest.mark.parametrize(
    "path", ["/workloads?cursor=nonsense", "/workloads?limit=0", "/workloads?limit=1001", "/workloads?cursor="]
)
def test_an_unusable_page_of_jobs_is_refused(hosted: Api, path: str) -> None:
    wire.check_refused(hosted.call("GET", path), 400, "WORKLOAD_MANAGEMENT_REQUEST_INVALID")


@pytest.mark.parametrize(
    ("path", "code", "defined"),
    [
        ("/clusters", "INVALID_REQUEST", False),
        ("/node-pools", "INVALID_REQUEST", False),
        ("/deployments", "DEPLOYMENT_INVALID", True),
    ],
)
@pytest.mark.parametrize("question", ["limit=0", "limit=-1", "limit=x", "cursor=nonsense"])
def test_an_unusable_page_of_another_list_is_refused(
    hosted: Api, path: str, code: str, defined: bool, question: str
) -> None:
    message = wire.check_refused(hosted.call("GET", f"{path}?{question}"), 400, code, defined=defined)
    assert question.partition("=")[0] in message
