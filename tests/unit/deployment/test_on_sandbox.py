"""The service against the sandbox's Kubernetes API: real watches, tokens, Pods, logs and deletions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from anycloud_common.clock import SystemClock
from anycloud_common.errors import ApiError
from anycloud_common.kube import Kube
from anycloud_common.server.draining import Draining
from anycloud_common.store import Store
from anycloud_deployment.app import Outside, Service
from anycloud_deployment.domain.model import PodFact
from anycloud_deployment.domain.observe import PROBE_FAILING
from anycloud_deployment.gateways.kube import KubeObjects
from anycloud_deployment.live.job_world import JobWorld
from anycloud_deployment.live.world import World
from anycloudapi.common.v1 import types_pb2
from anycloudapi.deployment.v1 import deployments_pb2, jobs_pb2

from tests.support.sandbox import Management, Sandbox, bootstrap_secret
from tests.unit.deployment.fakes import POOL, FakeHolds
from tests.unit.deployment.rig import NO_CONTEXT, Rig, execution

JOIN = "abcdef.0123456789abcdef"
WORKER = ["/bin/sh", "-c", 'echo "token $(cat "$ANYCLOUD_WORKLOAD_TOKEN_FILE")"; echo "a=$A"; exec sleep 1000']


class RealRig(Rig):
    """The rig with a real cluster behind it, and real time."""

    kube: Kube
    world: World

    def start(self) -> None:
        """Nothing yet: the cluster comes first."""

    def open(self, kube: Kube) -> None:
        clock = SystemClock()
        self.kube, objects, self.world = kube, KubeObjects(kube), World(kube, clock)
        self.store = Store.open(self.path, "deployment", clock)
        self.draining = Draining()
        job_world = JobWorld(kube, self.world, clock)
        outside = Outside(objects, objects, objects, self.world, self.images, self.pools, job_world)
        holds: FakeHolds = self.holds
        self.service = Service(
            self.store,
            self.cipher,
            outside,
            holds,  # type: ignore[arg-type]
            public_url="http://127.0.0.1:1",
            draining=self.draining,
            clock=clock,
        )
        self.world.listen(self.service.object_changed, self.service.nodes_changed)
        job_world.listen(self.service.image_jobs.mark)
        work = (self.world.run, job_world.run, self.service.offers.run, self.service.admissions.run)
        self._tasks += [asyncio.create_task(one()) for one in work]
        self.run_reconcilers()

    async def ready_pod(self, reference: str, generation: int) -> PodFact:
        """The Pod of a revision, once it is ready."""
        for _ in range(300):
            status = (await self.get(reference)).status
            if status.ready and status.pod_generation == generation:
                found = self.world.pod(status.pod_uid)
                if found is not None and found.ready:
                    return found
            await asyncio.sleep(0.1)
        raise TimeoutError(f"not ready: {(await self.get(reference)).status}")

    async def failed(self, reference: str, reason: str) -> None:
        """Returns once the Deployment has failed for that reason."""
        for _ in range(300):
            status = (await self.get(reference)).status
            if status.state == deployments_pb2.Deployment.Status.STATE_FAILED and status.reason.startswith(reason):
                return
            await asyncio.sleep(0.1)
        raise TimeoutError(f"not failed: {(await self.get(reference)).status}")

    async def gone(self, deployment_id: str) -> None:
        for _ in range(300):
            if (await self.get(deployment_id)).deleted_at:
                return
            await asyncio.sleep(0.1)
        raise TimeoutError(f"still there: {(await self.get(deployment_id)).status}")

    async def logged(self, reference: str) -> list[str]:
        self.act_as()
        stream = self.service.deployments_rpc.StreamLogs(deployments_pb2.StreamLogsRequest(id=reference), NO_CONTEXT)
        return [line.text async for line in stream]

    async def said(self, reference: str, line: str) -> None:
        """Returns once the container has written that line."""
        for _ in range(100):
            try:
                if line in await self.logged(reference):
                    return
            except ApiError:
                pass
            await asyncio.sleep(0.1)
        raise TimeoutError("the container doesn't say it")

    async def token_of(self, reference: str) -> str:
        """The projected token, as the container printed it."""
        for _ in range(100):
            for line in await self.logged(reference):
                if line.startswith("token "):
                    return line.removeprefix("token ")
            await asyncio.sleep(0.1)
        raise TimeoutError("the container says nothing")


@pytest.fixture
async def real(tmp_path: Path) -> AsyncIterator[tuple[RealRig, Sandbox]]:
    async with Sandbox(tmp_path / "world") as sandbox:
        made = await sandbox.management()
        kube = Kube.from_token(made.endpoint, made.ca, made.token)
        await join(sandbox, made, kube)
        namespace = await kube.create("Namespace", {"metadata": {"name": POOL.namespace}})
        sandbox.image("test/worker", WORKER)
        rig = RealRig(tmp_path)
        rig.pools.pools[POOL.id] = replace(POOL, namespace_uid=namespace["metadata"]["uid"])
        rig.open(kube)
        yield rig, sandbox
        await rig.close()
        await kube.close()


async def join(sandbox: Sandbox, made: Management, kube: Kube) -> None:
    await kube.create("Secret", bootstrap_secret(JOIN))
    labels = ["anycloud.sh/node-pool=np-1", "anycloud.sh/attempt=attempt-1"]
    sandbox.pool_machine(made, "pool-1", JOIN, labels=labels, taints=["anycloud.sh/node-pool=np-1:NoSchedule"])

    async def joined() -> bool:
        found = await kube.get("Node", "pool-1")
        conditions = ((found or {}).get("status") or {}).get("conditions") or []
        return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)

    await sandbox.until(joined)


@pytest.mark.req("DP-001", "DP-050", "DP-053", "DP-060", "DP-061", "DP-078", "DP-128", "DP-133", "JB-018", "SC-009")
async def test_a_deployment_lives_upgrades_and_ends_on_a_cluster(real: tuple[RealRig, Sandbox]) -> None:
    rig, _ = real
    made = await rig.create(image="test/worker", env={"A": "literal"})
    pod = await rig.ready_pod("voice", 1)
    rig.tokens[pod.uid] = await rig.token_of("voice")
    assert "a=literal" in await rig.logged("voice")
    await rig.submit("voice", "job-1")
    assert await rig.pick_up(made.id, pod, execution(1)) == "job-1"
    await rig.update("voice", max_concurrent_jobs_per_replica=2)
    await asyncio.sleep(0.5)
    assert [one.uid for one in rig.world.pods(made.id)] == [pod.uid], "its Job runs on the old revision"
    await rig.report(made.id, pod, "job-1", execution(1))
    await rig.clean_up(made.id, pod, "job-1", execution(1))
    new = await rig.ready_pod("voice", 2)
    assert new.uid != pod.uid
    offer = jobs_pb2.JobCandidate(job_id="job-1")
    with pytest.raises(ApiError) as error:
        await rig.claim(made.id, pod, offer, execution(2))
    assert error.value.code == "WORKLOAD_UNAUTHORIZED", "the token of a Pod that is gone"
    await rig.delete("voice")
    await rig.gone(made.id)
    for kind in ("Deployment", "ReplicaSet", "Pod", "Secret", "ServiceAccount"):
        left, _ = await rig.kube.list(kind, POOL.namespace, {"anycloud.sh/deployment": made.id})
        assert left == [], kind


@pytest.mark.req("DP-080", "DP-097", "JB-007", "JB-019")
async def test_trouble_on_a_cluster_is_seen_and_survived(real: tuple[RealRig, Sandbox]) -> None:
    rig, sandbox = real
    made = await rig.create(image="test/nosuch")
    await rig.failed("voice", "ImagePullBackOff")
    sandbox.image("test/crash", ["/bin/sh", "-c", "echo last words; exit 3"])
    await rig.update("voice", image="test/crash")
    await rig.failed("voice", "CrashLoopBackOff")
    assert "last words" in await rig.logged("voice")
    await rig.update("voice", image="test/worker")
    pod = await rig.ready_pod("voice", 3)
    rig.tokens[pod.uid] = await rig.token_of("voice")
    await rig.submit("voice", "job-1")
    await rig.pick_up(made.id, pod, execution(1))
    await rig.kube.delete("Pod", pod.name, pod.namespace, pod.uid)
    for _ in range(600):
        if await rig.state("job-1") == "retrying":
            break
        await asyncio.sleep(0.1)
    assert await rig.state("job-1") == "retrying"
    account = await rig.kube.get("ServiceAccount", made.id, POOL.namespace)
    assert account is not None
    await rig.kube.delete("ServiceAccount", made.id, POOL.namespace, account["metadata"]["uid"])
    again = await rig.ready_pod("voice", 4)
    rig.tokens[again.uid] = await rig.token_of("voice")
    offer = await rig.candidate(made.id, again, 5000)
    assert offer is not None
    await rig.claim(made.id, again, offer, execution(2))


PROBED = """
echo up; echo "token $(cat "$ANYCLOUD_WORKLOAD_TOKEN_FILE")"
while ! test -e "$DATA/go"; do sleep 0.05; done
touch "$DATA/ready"
while ! test -e "$DATA/crash"; do sleep 0.05; done
rm "$DATA/crash"
"""


async def probed(rig: RealRig, sandbox: Sandbox) -> str:
    """A Deployment with a bind, that is ready once somebody puts a file there."""
    sandbox.image("test/probed", ["/bin/sh", "-c", PROBED])
    command = ["/usr/bin/test", "-e", "/data/ready"]
    probe = deployments_pb2.ReadinessProbe(exec=deployments_pb2.ReadinessProbe.Exec(command=command), period_seconds=1)
    options = types_pb2.DockerOptions(binds=types_pb2.StringList(values=["/data"]))
    made = await rig.create(image="test/probed", env={"DATA": "/data"}, readiness_probe=probe, docker_options=options)
    await rig.said("voice", "up")
    return made.id


def bind_of(sandbox: Sandbox, pod: PodFact) -> Path:
    """Where the Pod's /data is on this machine."""
    return next(sandbox.state.rglob(f"*{pod.uid}*/rootfs/data"))


@pytest.mark.req("DP-022", "DP-063", "DP-064", "DP-068")
async def test_a_probe_reads_a_bind_that_outlives_the_container_and_the_jobs_but_not_the_pod(
    real: tuple[RealRig, Sandbox],
) -> None:
    rig, sandbox = real
    deployment_id = await probed(rig, sandbox)
    status = (await rig.get("voice")).status
    assert (status.ready, status.application_ready, status.reason) == (False, False, PROBE_FAILING)
    [pod] = rig.world.pods(deployment_id)
    data = bind_of(sandbox, pod)
    (data / "go").touch()
    assert (await rig.ready_pod("voice", 1)).uid == pod.uid
    rig.tokens[pod.uid] = await rig.token_of("voice")
    for number in (1, 2):
        await rig.submit("voice", f"job-{number}")
        await rig.pick_up(deployment_id, pod, execution(number))
        (data / f"of-job-{number}").touch()
        await rig.report(deployment_id, pod, f"job-{number}", execution(number))
        await rig.clean_up(deployment_id, pod, f"job-{number}", execution(number))
    (data / "crash").touch()
    await sandbox.until(lambda: rig.world.pods(deployment_id)[0].restarts == 1)
    again = await rig.ready_pod("voice", 1)
    assert (again.uid, again.restarts) == (pod.uid, 1)
    assert {path.name for path in data.iterdir()} == {"go", "ready", "of-job-1", "of-job-2"}
    await rig.update("voice", max_concurrent_jobs_per_replica=2)
    await sandbox.until(lambda: [one.generation for one in rig.world.pods(deployment_id)] == [2])
    [new] = rig.world.pods(deployment_id)
    await rig.said("voice", "up")
    assert list(bind_of(sandbox, new).iterdir()) == []


@pytest.mark.req("DP-054", "DP-031")
async def test_a_pod_waits_rather_than_land_on_another_pools_node(real: tuple[RealRig, Sandbox]) -> None:
    rig, sandbox = real
    rig.pools.pools["np-2"] = replace(rig.pools.pools[POOL.id], id="np-2", name="second")
    made = await rig.create(image="test/worker", node_pool="np-2")

    async def unplaced() -> bool:
        return "can't place" in (await rig.get("voice")).status.reason

    await sandbox.until(unplaced)
    [waiting] = rig.world.pods(made.id)
    assert waiting.node is None, "the idle Nodes of a sibling pool and of the management aren't for it"
