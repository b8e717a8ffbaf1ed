"""The API server is killed in the middle of each phase of the product's reconcilers, on the sandbox, etcd and kine.

"In the middle" is after the phase's first write was taken and before its answer was heard; where a phase only reads, at
its first read. What the phases ask is seen at the client, so a phase that begins to ask something is killed there, too.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from anycloud_common.kube import KubeError, Object
from anycloud_common.kube.transport import Request, Transport
from anycloud_deployment.reconcile import phases as deployment_phases
from anycloud_nodepool.domain import join
from anycloud_nodepool.reconcile import connection
from anycloud_nodepool.reconcile import phases as pool_phases

from tests.kube.assets.location import MissingPrograms
from tests.kube.product import RUNNING, Product, execution, running
from tests.kube.servers import KubernetesServer, SandboxServer, Server

_PHASE: ContextVar[str] = ContextVar("phase", default="")

# Those that speak to Kubernetes in the life below, and for the others why there is nothing to break.
SPEAKING = {
    "nodepool connection.check",
    "nodepool buying.buy",
    "nodepool tokens.remove",
    "nodepool tokens.renew",
    "nodepool labels.repair",
    "nodepool addons.install",
    "nodepool namespace.keep",
    "nodepool ending.release",
    "nodepool ending.clean_up",
    "nodepool removal.remove_namespace",
    "deployment account.ensure",
    "deployment environment.bring_up_to_date",
    "deployment replicas.bring_up_to_date",
    "deployment removal.remove_objects",
}
SILENT = {
    "nodepool observe.take_in": "reads the ledger and what the watches have",
    "nodepool network.ensure": "asks the ledger",
    "nodepool removal.give_up_vms": "writes the database",
    "nodepool removal.wait_for_vms": "reads the ledger",
    "nodepool removal.release_network": "asks the ledger",
    "nodepool removal.let_go": "writes the database",
    "deployment namespace.learn": "asks nodepool",
    "deployment again.renew_template": "reads the database",
    "deployment replicas.release_older": "reads what the watches have",
    "deployment replicas.note_rollout": "reads what the watches have",
    "deployment removal.end_waiting_jobs": "writes the database",
    "deployment removal.drain": "reads the database",
    "deployment removal.let_go": "writes the database",
}


READERS = ("nodepool connection.check",)


class Killer:
    """Stands in for Transport.call. `killed` says where; `phases` are those that asked anything.

    The sandbox is killed at the first write of each kind; the real ones, which take long to start, once in a phase."""

    def __init__(self, server: Server, call: Callable[[Transport, Request], Awaitable[Any]]) -> None:
        self.killed: list[str] = []
        self.phases: set[str] = set()
        self._server = server
        self._call = call
        self._away = False

    async def call(self, transport: Transport, request: Request) -> Any:
        phase = _PHASE.get()
        if phase:
            self.phases.add(phase)
        answer = await self._call(transport, request)
        point = self._point(phase, request)
        if not (phase and point) or point in self.killed or self._away:
            return answer
        self.killed.append(point)
        self._away = True
        try:
            await asyncio.to_thread(self._server.end)
            await asyncio.to_thread(self._server.begin)
        finally:
            self._away = False
        raise KubeError("unreachable", "the connection broke", verb=request.verb, resource=request.resource)

    def _point(self, phase: str, request: Request) -> str:
        writes = request.verb in ("create", "patch", "delete") and not request.resource.startswith("selfsubject")
        if phase in READERS or (writes and self._server.name != "sandbox"):
            return phase
        return f"{phase}: {request.verb} {request.resource}" if writes else ""


@pytest.fixture(params=["sandbox", "kubernetes", "kine"])
def any_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Real ones of its own: it is killed more often than other tests could bear."""
    if request.param == "sandbox":
        started: Server = SandboxServer(tmp_path_factory.mktemp("sandbox"))
    else:
        try:
            started = KubernetesServer(tmp_path_factory.mktemp(request.param), request.param)
        except MissingPrograms as absent:
            pytest.skip(str(absent))
    yield started
    started.stop()


@pytest.fixture
def killer(any_server: Server, monkeypatch: pytest.MonkeyPatch, impatient: None) -> Killer:
    killer = Killer(any_server, Transport.call)

    async def call(self: Transport, request: Request) -> Any:
        return await killer.call(self, request)

    monkeypatch.setattr(Transport, "call", call)
    for service, phases in (("nodepool", pool_phases), ("deployment", deployment_phases)):
        for name in ("LIVING", "RELEASING", "ENDING"):
            if hasattr(phases, name):
                monkeypatch.setattr(phases, name, [_named(service, phase) for phase in getattr(phases, name)])
    return killer


def _named(service: str, phase: Callable[[Any], Awaitable[Any]]) -> Callable[[Any], Awaitable[Any]]:
    async def wrapped(scope: Any) -> Any:
        before = _PHASE.set(name_of(service, phase))
        try:
            return await phase(scope)
        finally:
            _PHASE.reset(before)

    return wrapped


def name_of(service: str, phase: Callable[..., Any]) -> str:
    return f"{service} {phase.__module__.rpartition('.')[2]}.{phase.__name__}"


def test_every_phase_is_said_to_speak_to_kubernetes_or_not() -> None:
    phases = {
        name_of("nodepool", phase) for phase in (*pool_phases.LIVING, *pool_phases.RELEASING, *pool_phases.ENDING)
    }
    phases |= {name_of("deployment", phase) for phase in (*deployment_phases.LIVING, *deployment_phases.ENDING)}
    assert phases == SPEAKING | SILENT.keys()


@pytest.mark.timeout(900)
async def test_a_life_goes_on_where_the_server_was_killed_in_the_middle_of_each_phase(
    any_server: Server, killer: Killer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(join, "TOKEN_MS", join.RENEW_MS)  # so that a token is due to be renewed while its VM joins
    monkeypatch.setattr(connection, "EVERY_MS", 1000)
    async with running(any_server, tmp_path) as product:
        product.patience = 300.0  # each step may meet several kills
        product.kubelets.devices = 4
        product.kubelets.joining = False
        pool_id = await product.create_pool("gpu", vm_types=["g4dn.12xlarge"])
        await product.until(partial(renewed, product, killer), partial(product.pool, pool_id))
        product.kubelets.joining = True
        await product.pool_is(pool_id, RUNNING)
        await product.save_secret("key", KEY="1")
        made = await product.deploy(pool_id, secrets=["key"])
        await work(product, made, await product.ready(made))
        await product.save_secret("key", KEY="2")
        await product.ready(made, generation=2)
        await product.end()
        assert killer.phases == SPEAKING
        assert {point.partition(":")[0] for point in killer.killed} == SPEAKING
        made_once(product)
        print(f"{any_server.name}: killed {len(killer.killed)} times")


async def reached(ask: Callable[[Object], Awaitable[str]], about: Object) -> str | None:
    """The answer of a server that may be away."""
    try:
        return await ask(about)
    except KubeError as error:
        assert error.reason == "unreachable"
        return None


async def renewed(product: Product, killer: Killer) -> bool:
    """Whether the bootstrap token is there again after the killed attempt to renew it."""
    killed = any(point.startswith("nodepool tokens.renew") for point in killer.killed)
    tokens = [call for call in product.door.made("secrets") if call.namespace == "kube-system"]
    return killed and len(tokens) > 1


async def work(product: Product, deployment_id: str, pod: Object) -> None:
    """A Job that runs while its Deployment is upgraded, and is finished once."""
    run = execution()
    token = await product.until(partial(reached, product.token_of, pod), product.objects)
    await product.submit(deployment_id, f"job-of-{deployment_id}")
    job_id = await product.until(
        partial(product.pick_up, deployment_id, token, run), partial(product.deployment, deployment_id)
    )
    await product.upgrade(deployment_id, max_concurrent_jobs_per_replica=2)
    await asyncio.sleep(1)
    assert len(product.kubelets.pods(deployment_id)) == 1, "its Job runs"
    await product.finish(deployment_id, token, job_id, run)
    await product.job_is(job_id, "completed")


def made_once(product: Product) -> None:
    """However often an answer was lost, no object was made a second time."""
    made = Counter(
        f"{call.resource} {call.namespace}/{call.name}"
        for call in product.door.calls
        if call.verb == "create" and call.status == 201 and "reviews" not in call.resource
    )
    tokens = {name for name in made if "bootstrap-token" in name}  # renewed
    assert {name: count for name, count in made.items() if count > 1 and name not in tokens} == {}
