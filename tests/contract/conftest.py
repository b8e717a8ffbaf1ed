"""One installation for all tests of the contract, and the published client."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.contract import sdk
from tests.contract.sdk import Judge
from tests.contract.world import GRANTED_SIGN_IN, Api, World

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A cluster, a node pool and the Deployments of the fixtures below. Tests leave it as they found it."""
    if any("spare" in getattr(item, "fixturenames", ()) for item in request.session.items):
        request.getfixturevalue("spare_on_its_way")  # takes as long as this one, and is wanted last
    made = World(tmp_path_factory.mktemp("world"))
    try:
        made.start()
        made.make_cluster()
        made.make_pool()
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="session")
def spare_on_its_way(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Future[World]]:
    made = World(tmp_path_factory.mktemp("spare"))
    with ThreadPoolExecutor(1) as thread:
        starting = thread.submit(_started, made)
        try:
            yield starting
        finally:
            starting.exception()
            made.stop()


@pytest.fixture(scope="session")
def spare(spare_on_its_way: Future[World]) -> World:
    """An installation without a cluster, to make and to lose one in."""
    return spare_on_its_way.result()


def _started(made: World) -> World:
    made.start()
    return made


@pytest.fixture(scope="session")
def hosted(world: World) -> Api:
    """The API on the cluster, as its owner calls it."""
    return world.hosted


@pytest.fixture(scope="session")
def local(world: World) -> Api:
    """The installer."""
    return world.local


@pytest.fixture(scope="session")
def granted(world: World) -> Api:
    """The hosted API, as somebody calls it whom the owner let in."""
    login = GRANTED_SIGN_IN.removeprefix("ghs_sandbox_")
    world.hosted.ask("POST", "/api-access/users", {"username": login}, **{"anycloud-github-token": GRANTED_SIGN_IN})
    return Api(world.hosted.url, world.exchange(GRANTED_SIGN_IN))


@pytest.fixture(scope="session")
def served(world: World) -> dict[str, Any]:
    """A Deployment whose Jobs the tests take and finish themselves; no Job is left in it between tests."""
    return world.make_deployment("served", maxConcurrentJobsPerReplica=4)


@pytest.fixture(scope="session")
def parked(world: World) -> dict[str, Any]:
    """A Deployment whose Jobs nobody takes."""
    return world.make_deployment("parked")


@pytest.fixture(scope="session")
def judge(world: World) -> Iterator[Judge]:
    """The published client on the machine of whoever submits."""
    yield from _judge(world.config)


@pytest.fixture(scope="session")
def worker(world: World, served: dict[str, Any]) -> Iterator[Judge]:
    """The published client as it runs in a container of `served`; its context is kept as `deployment`."""
    for started in _judge(world.config):
        started.make("current_deployment", "deployment", world.worker_environment(served)).value("DeploymentContext")
        yield started


def _judge(config: Path) -> Iterator[Judge]:
    if not sdk.PYTHON.exists():
        pytest.skip(sdk.HOW_TO_GET)
    started = Judge(config)
    yield started
    started.close()


@pytest.fixture
def unique() -> Callable[[str], str]:
    """Names that no other test has."""
    return lambda stem: f"{stem}-{next(_numbers)}"
