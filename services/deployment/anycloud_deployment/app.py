"""Assembles the deployment service."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from anycloud_common import introspection
from anycloud_common.admission import AdmissionRow, Admissions
from anycloud_common.cipher import Cipher
from anycloud_common.clock import Clock
from anycloud_common.feed import FeedConsumer, FeedServicer
from anycloud_common.kube import Kube
from anycloud_common.reconcile import Reconciler
from anycloud_common.registry import Registry
from anycloud_common.release_values import ReleaseValues
from anycloud_common.server import ServerKit
from anycloud_common.server.draining import Draining
from anycloud_common.settings import Settings
from anycloud_common.store import Store, Tx
from anycloudapi.common.internal.v1 import feed_pb2_grpc, holds_pb2_grpc
from anycloudapi.deployment.v1 import (
    costs_pb2_grpc,
    deployments_pb2_grpc,
    jobs_pb2_grpc,
    notifications_pb2_grpc,
    secrets_pb2_grpc,
    services_pb2_grpc,
    spend_pb2_grpc,
    ssh_access_pb2_grpc,
    workloads_pb2_grpc,
)
from sqlalchemy import Connection

from anycloud_deployment.domain import ports
from anycloud_deployment.domain.model import Deployment
from anycloud_deployment.domain.queue import Queue
from anycloud_deployment.gateways.absent import NoJobsSeen, NoKubernetes, NothingSeen, SilentImages
from anycloud_deployment.gateways.images import RegistryImages
from anycloud_deployment.gateways.kube import KubeObjects
from anycloud_deployment.gateways.nodepool import NodePoolService
from anycloud_deployment.live.job_logs import JobLogReader
from anycloud_deployment.live.job_world import JobWorld
from anycloud_deployment.live.logs import LogReader
from anycloud_deployment.live.offers import Offers
from anycloud_deployment.live.pods import Pods
from anycloud_deployment.live.signals import Signals
from anycloud_deployment.live.status import Observer
from anycloud_deployment.live.tokens import TokenReviews
from anycloud_deployment.live.wakes import Wiring
from anycloud_deployment.live.world import World
from anycloud_deployment.reconcile.executions import ExecutionPass
from anycloud_deployment.reconcile.housekeeping import EVERYTHING, Housekeeping
from anycloud_deployment.reconcile.image_jobs import run as runs
from anycloud_deployment.reconcile.image_jobs.phases import ImageJobPass
from anycloud_deployment.reconcile.phases import DeploymentPass
from anycloud_deployment.reconcile.scope import Tools
from anycloud_deployment.rpc import admitting, image_admitting
from anycloud_deployment.rpc.costs import CostsService
from anycloud_deployment.rpc.deployment_jobs import DeploymentJobsService
from anycloud_deployment.rpc.deployments import DeploymentsService
from anycloud_deployment.rpc.notifications import NotificationsService
from anycloud_deployment.rpc.secrets import SecretsService
from anycloud_deployment.rpc.services import ServicesService
from anycloud_deployment.rpc.spend import SpendService
from anycloud_deployment.rpc.ssh_access import SshAccessService
from anycloud_deployment.rpc.workers import Workers
from anycloud_deployment.rpc.workloads import WorkloadsService
from anycloud_deployment.store import deployments, image_jobs, queue, secrets
from anycloud_deployment.store.image_jobs import ImageJobs, StoredImageJob
from anycloud_deployment.store.jobs import KIND, Jobs
from anycloud_deployment.store.revisions import Revisions
from anycloud_deployment.store.secrets import Secrets
from anycloud_deployment.store.tables import SERVICE

_POOLS = "nodepool"
_POOL = "node-pool"


@dataclass(frozen=True)
class Outside:
    """The ports, as this process has them."""

    objects: ports.Objects
    tokens: ports.Tokens
    logs: ports.Logs
    view: ports.View
    images: ports.Images
    pools: ports.NodePools
    jobs: ports.JobView = field(default_factory=NoJobsSeen)


class Service:
    """The rooms of one deployment service, wired; nothing runs yet."""

    def __init__(
        self,
        store: Store,
        cipher: Cipher,
        outside: Outside,
        holds: holds_pb2_grpc.HoldServiceAsyncStub,
        *,
        public_url: str,
        draining: Draining,
        clock: Clock,
    ) -> None:
        self.store = store
        job_signals, execution_signals = Signals(clock), Signals(clock)
        pods = Pods(outside.view)
        self.offers = Offers(self._read_queue, pods, clock)
        self._clock = clock
        wakes = Wiring(self.offers, job_signals, execution_signals)
        jobs, revisions, saved = Jobs(wakes), Revisions(cipher), Secrets(cipher)
        self.admissions = Admissions(store, SERVICE, lambda kind: holds, clock, _forget)
        tools = Tools(
            store=store,
            objects=outside.objects,
            view=outside.view,
            pools=outside.pools,
            admissions=self.admissions,
            revisions=revisions,
            secrets=saved,
            jobs=jobs,
            public_url=public_url,
            clock=clock,
        )
        self._judging = ExecutionPass(store, jobs, outside.objects, outside.view, pools=outside.pools, clock=clock)
        self.deployments = Reconciler("deployments", DeploymentPass(tools), clock)
        self.executions = Reconciler("executions", self._judging, clock)
        self._image_jobs, self._job_view = ImageJobs(cipher, wakes), outside.jobs
        running = runs.Tools(
            store=store,
            jobs=self._image_jobs,
            objects=outside.objects,
            logs=outside.logs,
            view=outside.jobs,
            pools=outside.pools,
            admissions=self.admissions,
            secrets=saved,
            clock=clock,
        )
        self.image_jobs = Reconciler("image-jobs", ImageJobPass(running), clock)
        self.housekeeping = Reconciler("housekeeping", Housekeeping(store), clock, workers=1)
        wakes.mark_deployment = self.deployments.mark
        wakes.mark_executions = self.executions.mark
        wakes.mark_image_job = self.image_jobs.mark
        admitted = admitting.Tools(store, revisions, self.admissions, outside.pools, outside.images, wakes)
        observer = Observer(outside.objects, clock)
        logs = LogReader(outside.objects, outside.logs, self._stored, clock)
        workers = Workers(
            store,
            jobs,
            TokenReviews(outside.tokens, clock),
            pods,
            offers=self.offers,
            execution_signals=execution_signals,
            clock=clock,
        )
        self.deployments_rpc = DeploymentsService(admitted, jobs, observer, logs)
        admitted_images = image_admitting.Tools(store, self._image_jobs, self.admissions, outside.pools, outside.images)
        job_logs = JobLogReader(outside.objects, outside.logs, self._stored_image_job, job_signals)
        self.workloads_rpc = WorkloadsService(
            jobs, admitted_images, job_logs, job_signals=job_signals, draining=draining, clock=clock
        )
        self.jobs_rpc = DeploymentJobsService(workers, draining, clock)
        self.secrets_rpc = SecretsService(store, saved, wakes)
        self.services_rpc = ServicesService(store)
        self.costs_rpc = CostsService(store, clock)
        self.ssh_rpc = SshAccessService(store)

    async def mark_all(self) -> None:
        """At the start: whatever happened while no process was there, every Deployment is looked at once."""
        for deployment_id in await self.store.read(deployments.undeleted):
            self.mark([deployment_id])
        for run in await self.store.read(image_jobs.unclean):
            self.image_jobs.mark(run)
        self.housekeeping.mark(EVERYTHING)

    def wake(self, references: Sequence[str]) -> None:
        """Marks what `_on_pools` gave."""
        for reference in references:
            kind, _, name = reference.partition("/")
            if kind == deployments.KIND:
                self.mark([name])
            else:
                self.image_jobs.mark(name)

    def mark(self, deployment_ids: Sequence[str]) -> None:
        for deployment_id in deployment_ids:
            self.deployments.mark(deployment_id)
            self.executions.mark(deployment_id)

    def object_changed(self, deployment_id: str, kind: str) -> None:
        """Kubernetes reports another state of one of a Deployment's objects."""
        self.deployments.mark(deployment_id)
        if kind == "Pod":
            self.executions.mark(deployment_id)
            self.offers.wake(deployment_id)

    def nodes_changed(self) -> None:
        """What was open about executions may be clear now."""
        for deployment_id in self._judging.unsettled:
            self.executions.mark(deployment_id)
        for run in self._job_view.runs():
            self.image_jobs.mark(run)

    async def _read_queue(self, deployment_id: str, limit: int) -> Queue:
        now = self._clock.now_ms()
        return await self.store.read(partial(queue.read, deployment_id=deployment_id, limit=limit, now=now))

    async def _stored_image_job(self, job_id: str) -> tuple[StoredImageJob, bytes | None] | None:
        def read(conn: Connection) -> tuple[StoredImageJob, bytes | None] | None:
            found = image_jobs.find(conn, job_id)
            return None if found is None else (found, self._image_jobs.output(conn, found.job.run))

        return await self.store.read(read)

    async def _stored(self, deployment_id: str) -> Deployment | None:
        return await self.store.look(partial(deployments.get, deployment_id=deployment_id))


async def build(kit: ServerKit) -> None:
    settings = kit.settings
    store = Store.open(settings.database(SERVICE), SERVICE, kit.clock)
    kit.on_close(lambda: asyncio.to_thread(store.close))
    introspection.authenticate(kit)
    channel = kit.channel(_POOLS)
    pools = NodePoolService(channel)
    holds: holds_pb2_grpc.HoldServiceAsyncStub = holds_pb2_grpc.HoldServiceStub(channel)
    outside, world, job_world = _outside(kit, pools)
    service = Service(
        store,
        Cipher.load(settings.cipher_key),
        outside,
        holds,
        public_url=settings.public_url,
        draining=kit.draining,
        clock=kit.clock,
    )
    _serve(kit, service)
    _run(kit, service, feed_pb2_grpc.FeedServiceStub(channel))
    if world is not None and job_world is not None:
        world.listen(service.object_changed, service.nodes_changed)
        job_world.listen(service.image_jobs.mark)
        kit.spawn(world.run, "watches")
        kit.spawn(job_world.run, "watches of Jobs")
    await service.mark_all()


def _serve(kit: ServerKit, service: Service) -> None:
    kit.add(deployments_pb2_grpc.add_DeploymentsServicer_to_server, service.deployments_rpc)
    kit.add(workloads_pb2_grpc.add_WorkloadsServicer_to_server, service.workloads_rpc)
    kit.add(jobs_pb2_grpc.add_DeploymentJobsServicer_to_server, service.jobs_rpc)
    kit.add(secrets_pb2_grpc.add_SecretsServicer_to_server, service.secrets_rpc)
    kit.add(services_pb2_grpc.add_ServicesServicer_to_server, service.services_rpc)
    kit.add(costs_pb2_grpc.add_CostsServicer_to_server, service.costs_rpc)
    kit.add(ssh_access_pb2_grpc.add_SshAccessServicer_to_server, service.ssh_rpc)
    kit.add(spend_pb2_grpc.add_SpendServicer_to_server, SpendService())
    kit.add(notifications_pb2_grpc.add_NotificationsServicer_to_server, NotificationsService())
    kit.add(feed_pb2_grpc.add_FeedServiceServicer_to_server, FeedServicer(service.store, SERVICE, _refs))


def _run(kit: ServerKit, service: Service, pools_feed: feed_pb2_grpc.FeedServiceAsyncStub) -> None:
    consumer = FeedConsumer(
        service.store, SERVICE, _POOLS, pools_feed, kinds=[_POOL], mark=_on_pools, wake=service.wake, clock=kit.clock
    )
    for name, work in (
        ("admissions", service.admissions.run),
        ("deployments", service.deployments.run),
        ("executions", service.executions.run),
        ("image jobs", service.image_jobs.run),
        ("housekeeping", service.housekeeping.run),
        ("offers", service.offers.run),
        ("pools feed", consumer.run),
    ):
        kit.spawn(work, name)


def _outside(kit: ServerKit, pools: ports.NodePools) -> tuple[Outside, World | None, JobWorld | None]:
    """The ports, and their views where they have to be kept up to date: only a hosted API has a cluster of its own."""
    if not kit.settings.hosted:
        nothing = NoKubernetes()
        return Outside(nothing, nothing, nothing, NothingSeen(), SilentImages(), pools, NoJobsSeen()), None, None
    kube = Kube.in_cluster(kit.settings, kit.clock)
    kit.on_close(kube.close)
    objects = KubeObjects(kube)
    world = World(kube, kit.clock)
    job_world = JobWorld(kube, world, kit.clock)
    return Outside(objects, objects, objects, world, _images(kit), pools, job_world), world, job_world


def _images(kit: ServerKit) -> ports.Images:
    """The sandbox's registry. Of others nothing is known before Kubernetes pulls the image."""
    sandbox_url = _sandbox_url(kit.settings)
    if sandbox_url is None:
        return SilentImages()
    registry = Registry(f"{sandbox_url}/registry")
    kit.on_close(registry.close)
    return RegistryImages(registry)


def _sandbox_url(settings: Settings) -> str | None:
    if settings.sandbox_url is None and settings.release_values is not None:
        return ReleaseValues.load(settings.release_values).sandbox_url
    return settings.sandbox_url


def _forget(tx: Tx, row: AdmissionRow) -> None:
    """The end of an admission that came to nothing takes along what was never visible."""
    owner = row.admission.owner
    if owner.kind == deployments.KIND:
        deployments.forget(tx, owner.id)
    else:
        image_jobs.forget(tx, owner.id)


def _on_pools(conn: Connection, kind: str, ids: list[str] | None) -> list[str]:
    """Deployments and image Jobs on these pools. Nothing is stored: at a start all are looked at anyway."""
    standing = [f"{deployments.KIND}/{deployment_id}" for deployment_id in deployments.undeleted(conn, ids)]
    return standing + [f"{KIND}/{run}" for run in image_jobs.unclean(conn, ids)]


def _refs(conn: Connection, kinds: Collection[str]) -> Iterator[tuple[str, str]]:
    if deployments.KIND in kinds:
        yield from ((deployments.KIND, found.id) for found in deployments.listed(conn).items)
    if secrets.KIND in kinds:
        yield from ((secrets.KIND, secret_id) for secret_id in secrets.all_ids(conn))
