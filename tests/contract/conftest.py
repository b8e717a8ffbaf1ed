"""One installation for all tests of the contract, and the published client."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.contract import sdk
from tests.contract.sdk import Judge
from tests.contract.world import GRANTED_SIGN_IN, Api, Timed, World, timed

_numbers = itertools.count(1)


@pytest.fixture(scope="package", autouse=True)
def begun_early(request: pytest.FixtureRequest) -> None:
    """What takes its time by itself goes on beside the tests that don't need it."""
    wanted = {name for item in request.session.items for name in getattr(item, "fixturenames", ())}
    for name in ("spare_on_its_way", "held"):
        if name in wanted:
            request.getfixturevalue(name)


@pytest.fixture(scope="package")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A cluster, a node pool and the Deployments of the fixtures below. Tests leave it as they found it."""
    made = World(tmp_path_factory.mktemp("world"))
    try:
        made.start()
        made.make_cluster()
        made.make_pool()
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="package")
def spare_on_its_way(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ThreadPoolExecutor, Future[World]]]:
    made = World(tmp_path_factory.mktemp("spare"))
    with ThreadPoolExecutor(1) as thread:
        starting = thread.submit(_started, made)
        yield thread, starting
        thread.submit(made.stop).result()


@pytest.fixture(scope="module")
def spare(spare_on_its_way: tuple[ThreadPoolExecutor, Future[World]]) -> Iterator[World]:
    """An installation without a cluster, to make and to lose one in."""
    thread, starting = spare_on_its_way
    made = starting.result()
    yield made
    thread.submit(made.stop)


def _started(made: World) -> World:
    made.start()
    return made


@pytest.fixture(scope="package")
def hosted(world: World) -> Api:
    """The API on the cluster, as its owner calls it."""
    return world.hosted


@pytest.fixture(scope="package")
def local(world: World) -> Api:
    """The installer."""
    return world.local


@pytest.fixture(scope="package")
def granted(world: World) -> Api:
    """The hosted API, as somebody calls it whom the owner let in."""
    login = GRANTED_SIGN_IN.removeprefix("ghs_sandbox_")
    world.hosted.ask("POST", "/api-access/users", {"username": login}, **{"anycloud-github-token": GRANTED_SIGN_IN})
    return Api(world.hosted.url, world.exchange(GRANTED_SIGN_IN))


@pytest.fixture(scope="package")
def served(world: World) -> dict[str, Any]:
    """A Deployment whose Jobs the tests take and finish themselves; no Job is left in it between tests."""
    return world.make_deployment("served", maxConcurrentJobsPerReplica=4)


@pytest.fixture(scope="package")
def parked(world: World) -> dict[str, Any]:
    """A Deployment whose Jobs nobody takes."""
    return world.make_deployment("parked")


@pytest.fixture(scope="package")
def held(world: World) -> Iterator[dict[str, Future[Timed]]]:
    """Calls that are held for as long as a call may be, by their operation. Nothing happens that would end them: the
    one slot of their Deployment is taken, so its second Job waits."""
    home = world.make_deployment("idle")
    container = world.worker(home)
    for job in ("taken", "waiting"):
        world.hosted.ask("POST", "/workloads", {"deployment": home["id"], "id": job})
    jobs = f"/deployments/{home['id']}/jobs"
    body = {"submissionRevision": 0, "previousExecutionId": None}
    execution = container.ask("POST", f"{jobs}/taken/claim", body, **{"idempotency-key": str(uuid4())})["executionId"]
    cancellation = f"{jobs}/taken/cancellation?executionId={execution}&waitMs=20000"
    observation = {"submissionRevision": 0, "waitMs": 20000}
    with ThreadPoolExecutor(3) as threads:
        yield {
            "candidate": threads.submit(timed, container, "GET", f"{jobs}/candidate?waitMs=20000"),
            "cancellation": threads.submit(timed, container, "GET", cancellation),
            "observation": threads.submit(
                timed, world.hosted, "POST", "/workloads/waiting/claim-observation", observation
            ),
        }


@pytest.fixture(scope="package")
def judge(world: World) -> Iterator[Judge]:
    """The published client on the machine of whoever submits."""
    yield from _judge(world.config)


@pytest.fixture(scope="package")
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
