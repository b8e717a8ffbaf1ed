"""One world of VMs for all tests here. What a failed test leaves in its VMs is shown with it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.world.assets import location
from tests.world.world import Json, World

_WORLD: pytest.StashKey[World] = pytest.StashKey()
_numbers = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/world/" in item.path.as_posix():
            item.add_marker(pytest.mark.timeout(300))  # the first test waits for the world to be built up


@pytest.fixture(scope="session")
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Node pools `steady` and `fragile`, with one VM each. Tests leave it as they found it."""
    if reason := location.absent():
        pytest.skip(reason)
    with World(tmp_path_factory.mktemp("vms")) as made:
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
    world = item.config.stash.get(_WORLD, None)
    if report.failed and world is not None and "world" in getattr(item, "fixturenames", ()):
        try:
            report.sections.append(("the world", world.diagnose()))
        except Exception as error:
            report.sections.append(("the world", f"can't be looked at: {error!r}"))
    return report
