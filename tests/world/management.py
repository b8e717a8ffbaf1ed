"""A management VM that the product's own phases make, as the reconciler runs them, without ledger and database."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, TypeVar, cast

from anycloud_cluster.domain import k3s
from anycloud_cluster.domain.keys import Keys
from anycloud_cluster.domain.ports import Cluster as Kubernetes
from anycloud_cluster.domain.ports import Connection, OutsideError, SshTarget
from anycloud_cluster.gateways.kubes import KubeClusters
from anycloud_cluster.gateways.ssh import AsyncSsh
from anycloud_cluster.reconcile.work import Next, Step, Wait, Work
from anycloud_common.kube import Kube

from tests.contract.world import CREDENTIAL
from tests.world import api_image
from tests.world.vm import VM, until

Json = dict[str, Any]
Phase = Callable[[Work], Awaitable[Step]]
T = TypeVar("T")

CLUSTER = "cl-abcdefghijkl"


class Management:
    """What phases see of a cluster: `cluster` is its record, the other members are those of `Work`."""

    def __init__(self, vm: VM, keys: Keys, k3s_sha256: str) -> None:
        self.vm, self.keys = vm, keys
        self.outside = SimpleNamespace(ssh=AsyncSsh(), clusters=KubeClusters(), sandbox_url=None)
        self.cluster = SimpleNamespace(
            id=CLUSTER,
            name="home",
            address=vm.address,
            endpoint=f"https://{vm.address}:{k3s.API_PORT}",
            ca=None,
            kubernetes_identity=None,
            sealed_connection=None,
            k3s_version="v1.36.5+k3s1",
            k3s_sha256=k3s_sha256,
            helm_job_image=api_image.HELM_JOB,
            api_image=api_image.API,
            api_version="0.1.70",
            api_url=f"http://{vm.address}",
            chart_version="0.1.70",
            chart_digest="sha256:" + "6" * 64,
            release_revision=1,
            domain=f"{CLUSTER}.anycloud.sh",
            owner_user_id="1234567890123",
            owner_username="demo",
            bucket="backups",
            bucket_managed=True,
            region="us-east-1",
        )

    def ssh_target(self) -> SshTarget:
        return SshTarget(self.vm.address, 22, self.keys["hostPublic"], self.keys["userPrivate"])

    def secret(self, name: str) -> Any:
        return self.keys if name == "sealed_keys" else getattr(self.cluster, name)

    def sealed(self, name: str, document: Json) -> Json:
        return document

    async def save(self, **changes: Any) -> None:
        vars(self.cluster).update(changes)

    async def credential(self) -> Json:
        return dict(CREDENTIAL)

    def kubernetes(self) -> Kubernetes:
        return KubeClusters().open(self.connection)

    @property
    def connection(self) -> Connection:
        return Connection(**self.cluster.sealed_connection)

    def complete(self, phase: Phase) -> None:
        """Passes of one phase, until it says that the next one may begin."""

        async def one() -> bool:
            try:
                step = await phase(cast(Work, self))
            except OutsideError as error:
                assert error.kind == "unreachable", error
                return False
            assert isinstance(step, Next | Wait), step
            return isinstance(step, Next)

        until(lambda: asyncio.run(one()), f"the end of {phase.__module__}", 0.5)

    def ask(self, what: Callable[[Kube], Awaitable[T]]) -> T:
        """What the cluster answers to the installer."""

        async def asked() -> T:
            kube = Kube.from_token(self.connection.endpoint, self.connection.ca, self.connection.token)
            try:
                return await what(kube)
            finally:
                await kube.close()

        return asyncio.run(asked())
