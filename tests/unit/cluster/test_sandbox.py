"""The whole service as a server, against the sandbox: a real machine's SSH, a Kubernetes API, DNS, buckets.

Nobody serves at the cluster's URL here, so its creation comes as far as the last step, and no further.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from anycloud_cluster import app
from anycloud_common.server import serving
from anycloud_common.settings import Settings
from anycloud_release.migrate import migrate_service
from anycloud_release.migrate.fill import fill
from anycloudapi.cluster.v1 import clusters_pb2, clusters_pb2_grpc, credentials_pb2, credentials_pb2_grpc
from anycloudapi.common.v1 import types_pb2

from tests.support.sandbox import Sandbox

TOKEN = "install-token"
USER = (("authorization", f"Bearer {TOKEN}"), ("anycloud-github-token", "ghs_sandbox_demo"))
KEY = {"x-sandbox-key": "acct.key"}


class Api:
    """The service of one life, spoken to as its user."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._clusters: clusters_pb2_grpc.ClustersAsyncStub = clusters_pb2_grpc.ClustersStub(channel)
        self._credentials: credentials_pb2_grpc.CredentialsAsyncStub = credentials_pb2_grpc.CredentialsStub(channel)

    async def save_credential(self) -> None:
        key = types_pb2.CloudCredential.Aws(access_key_id="acct.key", secret_access_key="secret")
        credential = types_pb2.CloudCredential(aws=key)
        request = credentials_pb2.SaveCredentialRequest(name="aws", credential=credential)
        await self._credentials.SaveCredential(request, metadata=USER)

    async def create(self) -> clusters_pb2.Cluster:
        spec = clusters_pb2.ClusterSpec(
            name="prod", credential_name="aws", region="us-east-1", zone="us-east-1a", vm_type="t3.large"
        )
        return await self._clusters.CreateCluster(clusters_pb2.CreateClusterRequest(cluster=spec), metadata=USER)

    async def get(self, cluster_id: str = "prod", token: str = TOKEN) -> clusters_pb2.Cluster:
        user = (("authorization", f"Bearer {token}"),)
        return await self._clusters.GetCluster(clusters_pb2.GetClusterRequest(id=cluster_id), metadata=user)

    async def delete(self) -> clusters_pb2.Cluster:
        return await self._clusters.DestroyCluster(clusters_pb2.DestroyClusterRequest(id="prod"), metadata=USER)


@pytest.fixture
async def sandbox(tmp_path: Path) -> AsyncIterator[Sandbox]:
    async with Sandbox(tmp_path / "world", agent=False) as made:
        labels = {"sh.anycloud.api.chart-digest": "sha256:" + "c" * 64}
        made.image("ghcr.io/anycloud-sh/api:0.1.70", ["true"], labels=labels)
        yield made


@pytest.fixture
def settings(tmp_path: Path, sandbox: Sandbox) -> Settings:
    data = tmp_path / "data"
    data.mkdir()
    fill(data)
    migrate_service(data / "db" / "cluster.sqlite", "cluster")
    token = tmp_path / "token"
    token.write_text(f"{TOKEN}\n")
    runtime = Path(tempfile.mkdtemp(prefix="ac-"))
    return Settings("installer", data, runtime, "http://127.0.0.1:1", sandbox_url=sandbox.url, local_token_file=token)


@asynccontextmanager
async def living(settings: Settings) -> AsyncIterator[Api]:
    async with (
        serving("cluster", settings, app.build),
        grpc.aio.insecure_channel(f"unix:{settings.socket('cluster')}") as channel,
    ):
        yield Api(channel)


def machines(sandbox: Sandbox) -> list[dict[str, Any]]:
    return list(sandbox.cloud("ListMachines", {"tags": {}}, headers=KEY)["machines"])


@pytest.mark.req("CL-003", "CL-062", "CL-117")
async def test_a_cluster_comes_up_across_a_restart_and_goes_without_a_trace(
    sandbox: Sandbox, settings: Settings
) -> None:
    async with living(settings) as api:
        await api.save_credential()
        made = await api.create()
        assert made.state == clusters_pb2.Cluster.STATE_PROVISIONING

        async def initializing() -> bool:
            return (await api.get()).state == clusters_pb2.Cluster.STATE_INITIALIZING

        await sandbox.until(initializing)

    async with living(settings) as api:

        async def released() -> bool:
            return (await api.get()).HasField("release")

        await sandbox.until(released)
        found = await api.get()
        assert found.kubernetes_identity
        assert [m["tags"]["anycloud_owner_api"] for m in machines(sandbox)] == [made.id]

    async with living(settings) as api:
        await api.delete()  # what a restart interrupted may be deleted

        async def gone() -> bool:
            return not (await api.get(made.id)).releasing

        await sandbox.until(gone)
        ended = await api.get(made.id)
        assert ended.state == clusters_pb2.Cluster.STATE_TERMINATED
        assert {m["state"] for m in machines(sandbox)} == {"terminated"}
        assert sandbox.cloud("ListNetworks", {"tags": {}}, headers=KEY)["networks"] == []
        assert sandbox.cloud("ListAddresses", {"tags": {}}, headers=KEY)["addresses"] == []


async def test_a_wrong_token_isnt_let_in(sandbox: Sandbox, settings: Settings) -> None:
    async with living(settings) as api:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await api.get(token="wrong")
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_without_a_sandbox_a_credential_is_refused_with_the_reason(settings: Settings) -> None:
    async with living(replace(settings, sandbox_url=None)) as api:
        with pytest.raises(grpc.aio.AioRpcError, match="start the API with --sandbox") as caught:
            await api.save_credential()
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
