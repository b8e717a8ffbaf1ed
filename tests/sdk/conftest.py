"""One installation for all SDKs, with a Deployment whose worker is the Python one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.contract.world import World
from tests.sdk import building
from tests.sdk.building import LANGUAGES, Built, Missing
from tests.sdk.canned import Canned, canned
from tests.support.installation import until

WORKER = Path(__file__).with_name("worker.py")


@pytest.fixture(scope="package")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[Any]]]:
    """Each SDK, and the gRPC example as `grpc`; built beside each other and beside the installation's start."""
    with ThreadPoolExecutor(2) as threads:
        begun: dict[str, Future[Any]] = {}
        for language in LANGUAGES:
            begun[language] = threads.submit(building.build, language, tmp_path_factory.mktemp(language))
        begun["grpc"] = threads.submit(building.build_grpc, tmp_path_factory.mktemp("grpc"))
        yield begun


def finished(build: Future[Any]) -> Any:
    try:
        return build.result()
    except Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="package", params=LANGUAGES)
def sdk(request: pytest.FixtureRequest, builds: dict[str, Future[Built]]) -> Built:
    """Each of the SDKs in turn."""
    found: Built = finished(builds[request.param])
    return found


@pytest.fixture(scope="package")
def grpc_example(builds: dict[str, Future[list[str]]]) -> list[str]:
    command: list[str] = finished(builds["grpc"])
    return command


@pytest.fixture(scope="package")
def world(builds: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A cluster and a node pool. `builds` goes on meanwhile."""
    made = World(tmp_path_factory.mktemp("sdk"))
    try:
        made.start()
        made.make_cluster("sdk")
        made.make_pool(vms=1)
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="package")
def deployments(world: World, builds: dict[str, Future[Built]]) -> list[dict[str, Any]]:
    """Two, whose containers complete every Job: oldest first."""
    python = finished(builds["python"]).probe[0]
    world.installation.image("sdk/worker:1", [python, str(WORKER)])
    body = {"image": "sdk/worker:1", "nodePool": world.pool["id"]}
    made = [world.hosted.ask("POST", "/deployments", {"name": name, **body}) for name in ("first", "second")]
    return [until(_ready(world, answer["deployment"]["id"]), 60) for answer in made]


def _ready(world: World, deployment: str) -> Callable[[], dict[str, Any] | None]:
    def look() -> dict[str, Any] | None:
        found: dict[str, Any] = world.hosted.ask("GET", f"/deployments/{deployment}")["deployment"]
        return found if found["status"]["ready"] else None

    return look


@pytest.fixture(scope="package")
def api() -> Iterator[Canned]:
    """An API that answers what a test tells it to."""
    with canned() as made:
        yield made
