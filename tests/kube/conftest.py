"""Fixtures of the tests that run against every API server, and the count of what ran against which."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
from anycloud_cluster.reconcile.ledger import accounts
from anycloud_common.kube import Kube
from anycloud_deployment.reconcile import phases as deployment_phases
from anycloud_nodepool.reconcile import namespace as pool_namespace
from anycloud_nodepool.reconcile import scope as pool_scope

from tests.kube.assets.location import MissingPrograms
from tests.kube.product import Product, Shared
from tests.kube.servers import NAMES, KubernetesServer, SandboxServer, Server, connect
from tests.support.control_plane import ControlPlane

_numbers = itertools.count(1)
_RAN: pytest.StashKey[Counter[str]] = pytest.StashKey()


@pytest.fixture(scope="session", params=NAMES)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Each API server in turn, shared by all tests: every test works in Namespaces of its own."""
    if request.param == "sandbox":
        started: Server = SandboxServer(tmp_path_factory.mktemp("sandbox"))
        yield started
        started.stop()
    else:
        yield request.getfixturevalue("kubernetes")


@pytest.fixture(scope="session")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesServer]:
    """The real API server."""
    try:
        started = KubernetesServer(tmp_path_factory.mktemp("kubernetes"))
    except MissingPrograms as absent:
        pytest.skip(str(absent))
    yield started
    started.stop()


@pytest.fixture(scope="session")
def plane(kubernetes: KubernetesServer) -> ControlPlane:
    return kubernetes.plane


@pytest.fixture
def real_ns(plane: ControlPlane) -> str:
    """A Namespace of the test's own on the real API server."""
    name = f"real-{next(_numbers)}"
    plane.ensure("/api/v1/namespaces", {"metadata": {"name": name}})
    return name


@pytest.fixture
async def kube(server: Server) -> AsyncIterator[Kube]:
    """The admin's connection."""
    connection = connect(server)
    yield connection
    await connection.close()


@pytest.fixture
async def ns(kube: Kube) -> str:
    """A Namespace of the test's own."""
    name = f"test-{next(_numbers)}"
    await kube.create("Namespace", {"metadata": {"name": name}})
    return name


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shared(server: Server, tmp_path_factory: pytest.TempPathFactory, impatient: None) -> AsyncIterator[Shared]:
    """The product that the fault tests of one server share."""
    kept = Shared(server, lambda: tmp_path_factory.mktemp("product"))
    yield kept
    await kept.close()


@pytest_asyncio.fixture(loop_scope="session")
async def product(shared: Shared) -> AsyncIterator[Product]:
    """The product with a running pool, named `shared`. Afterwards what the test made is deleted, and nothing is left.

    A test that ends in an error takes the product along."""
    product = await shared.get()
    try:
        yield product
        await product.tidy()
    except BaseException:
        await shared.drop()
        raise


@pytest.fixture(scope="session")
def impatient() -> Iterator[None]:
    """What waits for a person is looked at each second, and the clouds every three."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deployment_phases, "_REFUSED_RETRY_S", 1.0)
        patch.setattr(pool_namespace, "REFUSED_RETRY_S", 1.0)
        patch.setattr(pool_scope, "REFUSED_RETRY_S", 1.0)
        patch.setattr(accounts, "RESTING_S", 3.0)
        yield


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_RAN] = Counter()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):  # type: ignore[no-untyped-def]
    report = yield
    if report.when == "call" and report.passed:
        for name in _servers(item):
            item.config.stash[_RAN][name] += 1
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    ran = config.stash[_RAN]
    if ran:
        counts = ", ".join(f"{ran[name]} against {name}" for name in NAMES)
        terminalreporter.write_line(f"Kubernetes tests passed: {counts}")


def _servers(item: pytest.Item) -> list[str]:
    chosen = getattr(item, "callspec", None)
    if chosen is not None and "server" in chosen.params:
        return [chosen.params["server"]]
    return ["kubernetes"] if "kubernetes" in getattr(item, "fixturenames", ()) else []
