"""One world of VMs for all tests here. What a failed test leaves in its VMs is shown with it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.world.assets import location
from tests.world.vm import Network
from tests.world.world import Json, World

_WORLD: pytest.StashKey[World] = pytest.StashKey()
_NETWORK: pytest.StashKey[Network] = pytest.StashKey()
_numbers = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/world/" in item.path.as_posix():
            item.add_marker(pytest.mark.timeout(600))  # the first test waits for the world to be built up


@pytest.fixture(scope="session")
def network(request: pytest.FixtureRequest) -> Iterator[Network]:
    """Where all VMs of this run are."""
    if reason := location.absent():
        pytest.skip(reason)
    with Network() as made:
        request.config.stash[_NETWORK] = made
        yield made


@pytest.fixture(scope="session")
def world(request: pytest.FixtureRequest, network: Network) -> Iterator[World]:
    """Node pools `steady` and `fragile`, with one VM each. Tests leave it as they found it."""
    with World(network) as made:
        request.config.stash[_WORLD] = made
        for name in ("steady", "fragile"):
            made.ask_for_pool(name)
        yield made


@pytest.fixture(scope="session")
def steady(world: World) -> Json:
    """The pool whose VM nobody harms."""
    return world.wait_for_pool("steady")


@pytest.fixture
def fragile(world: World) -> Json:
    """The pool for tests that harm a VM."""
    return world.wait_for_pool("fragile")


@pytest.fixture
def deploy(world: World) -> Iterator[Callable[..., Json]]:
    """Deployments that are gone after the test: `deploy(pool, **what /v1 takes)`."""
    made: list[str] = []

    def make(pool: Json, *, wait: bool = True, **more: Any) -> Json:
        found = world.deploy(f"d{next(_numbers)}", pool["id"], wait=wait, **more)
        made.append(found["id"])
        return found

    yield make
    for name in made:
        world.api.call("DELETE", f"/deployments/{name}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):  # type: ignore[no-untyped-def]
    report = yield
    if report.failed and "tests/world/" in item.path.as_posix():
        world, network = item.config.stash.get(_WORLD, None), item.config.stash.get(_NETWORK, None)
        for part in (world, network):
            if part is not None:
                report.sections.append((type(part).__name__, _told(part)))
    return report


def _told(part: World | Network) -> str:
    try:
        return part.diagnose()
    except Exception as error:
        return f"can't be looked at: {error!r}"
