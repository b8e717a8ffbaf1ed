"""A node pool's whole life with the real cluster service, in the sandbox: bought, joined, Ready, held, deleted."""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from anycloud_cluster import app as cluster_app
from anycloud_common.calls import Principal
from anycloud_common.kube import Kube, names
from anycloud_common.server import serving
from anycloud_common.settings import Settings
from anycloud_nodepool import app as nodepool_app
from anycloud_release.migrate import migrate_service
from anycloudapi.cluster.v1 import credentials_pb2, credentials_pb2_grpc
from anycloudapi.common.internal.v1 import holds_pb2, holds_pb2_grpc
from anycloudapi.common.v1 import types_pb2
from anycloudapi.nodepool.internal.v1 import node_pool_pb2, node_pool_pb2_grpc
from anycloudapi.nodepool.v1 import node_pools_pb2, node_pools_pb2_grpc

from tests.support.sandbox import Management, Sandbox

VALUES = {
    "api": {"image": "i", "version": "0.1.70", "chartVersion": "0.1.70", "revision": 1, "url": "http://127.0.0.2:1"},
    "owner": {"userId": "1", "username": "demo"},
    "checkpoint": {"provider": "AWS", "bucket": "b", "region": "r", "managed": True, "credential": {}},
    "sandboxUrl": None,
}


@dataclass
class Rig:
    """A running nodepool service on a sandbox cluster."""

    sandbox: Sandbox
    kube: Kube
    pools: Any
    facts: Any
    holds: Any

    async def create(self, name: str, count: int = 1) -> node_pools_pb2.NodePool:
        spec = node_pools_pb2.NodePoolSpec(
            name=name,
            credential_name="aws",
            region="us-east-1",
            vm_types=["m5.large"],
            min_vm_count=count,
            max_vm_count=count,
        )
        request = node_pools_pb2.CreateNodePoolRequest(node_pool=spec)
        made: node_pools_pb2.NodePool = await self.pools.CreateNodePool(request, metadata=USER)
        return made

    async def get(self, name: str) -> node_pools_pb2.NodePool:
        found: node_pools_pb2.NodePool = await self.pools.GetNodePool(
            node_pools_pb2.GetNodePoolRequest(id=name), metadata=USER
        )
        return found

    async def delete(self, name: str) -> None:
        await self.pools.DeleteNodePool(node_pools_pb2.DeleteNodePoolRequest(id=name), metadata=USER)

    async def until(self, name: str, state: int, seconds: float = 20) -> node_pools_pb2.NodePool:
        end = time.monotonic() + seconds
        while True:
            pool = await self.get(name)
            if pool.state == state and not pool.releasing:
                return pool
            assert time.monotonic() < end, pool
            await asyncio.sleep(0.05)


USER = (("authorization", "Bearer t"),)


class Anybody:
    async def user(self, token: str) -> Principal:
        return Principal("github:1", "demo", "user")


@pytest.fixture
async def management(tmp_path: Path) -> AsyncIterator[tuple[Sandbox, Management]]:
    async with Sandbox(tmp_path / "world") as sandbox:
        yield sandbox, await sandbox.management()


@pytest.fixture
async def rig(tmp_path: Path, management: tuple[Sandbox, Management]) -> AsyncIterator[Rig]:
    sandbox, made = management
    async with AsyncExitStack() as stack:
        kube = Kube.from_token(made.endpoint, made.ca, made.token)
        stack.push_async_callback(kube.close)
        system = await kube.get("Namespace", "kube-system")
        assert system is not None
        runtime = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="np")))
        settings = _settings(tmp_path, runtime, sandbox, made, system["metadata"]["uid"])
        cluster = await stack.enter_async_context(serving("cluster", settings, cluster_app.build))
        nodepool = await stack.enter_async_context(serving("nodepool", settings, nodepool_app.build))
        cluster.authenticator = nodepool.authenticator = Anybody()
        channel = nodepool.channel("nodepool")
        await _save_credential(nodepool.channel("cluster"))
        yield Rig(
            sandbox,
            kube,
            node_pools_pb2_grpc.NodePoolsStub(channel),
            node_pool_pb2_grpc.NodePoolFactsStub(channel),
            holds_pb2_grpc.HoldServiceStub(channel),
        )


def _settings(directory: Path, runtime: Path, sandbox: Sandbox, made: Management, identity: str) -> Settings:
    account, db = directory / "account", directory / "data" / "db"
    account.mkdir()
    db.mkdir(parents=True)
    (account / "token").write_text(made.token)
    (account / "ca.crt").write_text(made.ca)
    (account / "namespace").write_text("anycloud")
    (db / "incarnation").write_text("1a2b3c4d\n")
    address = made.machine["address"]
    cluster = {"id": "cl-1", "name": "main", "identity": identity, "endpoint": made.endpoint, "ca": made.ca}
    values = {**VALUES, "cluster": {**cluster, "address": address}, "sandboxUrl": sandbox.url}
    (directory / "values.json").write_text(json.dumps(values))
    for service in ("cluster", "nodepool"):
        migrate_service(db / f"{service}.sqlite", service)
    return Settings(
        mode="hosted",
        data_dir=directory / "data",
        runtime_dir=runtime,
        public_url="http://127.0.0.2:1",
        sandbox_url=sandbox.url,
        release_values=directory / "values.json",
        serviceaccount_dir=account,
        kubernetes_host=address,
        kubernetes_port=6443,
    )


async def _save_credential(channel: Any) -> None:
    aws = types_pb2.CloudCredential.Aws(access_key_id="account.key", secret_access_key="secret")
    request = credentials_pb2.SaveCredentialRequest(name="aws", credential=types_pb2.CloudCredential(aws=aws))
    credentials: Any = credentials_pb2_grpc.CredentialsStub(channel)
    await credentials.SaveCredential(request, metadata=USER)


@pytest.mark.req("NP-002", "NP-017", "NP-025", "NP-040", "NP-042")
async def test_a_pool_runs_once_its_vms_are_ready_nodes_and_leaves_nothing_behind(rig: Rig) -> None:
    made = await rig.create("cpu", 2)
    assert made.state == node_pools_pb2.NodePool.STATE_PROVISIONING
    pool = await rig.until("cpu", node_pools_pb2.NodePool.STATE_RUNNING)
    assert (pool.capacity.ready_vm_count, pool.capacity.starting_vm_count) == (2, 0)
    nodes, _ = await rig.kube.list("Node", labels={names.LABEL_NODE_POOL: pool.id})
    assert len(nodes) == 2
    assert all(node["spec"]["taints"][0]["key"] == names.TAINT_NODE_POOL for node in nodes)
    secrets, _ = await rig.kube.list("Secret", "kube-system", {names.LABEL_NODE_POOL: pool.id})
    assert secrets == []

    held = await rig.holds.AcquireHolds(_admission(pool.id))
    assert held.HasField("granted"), held
    fact = await _namespace(rig, pool.id)
    policies, _ = await rig.kube.list("NetworkPolicy", fact.namespace)
    assert len(policies) == 1
    await rig.holds.ReleaseHolds(holds_pb2.ReleaseHoldsRequest(admission_ids=["adm-1"]))

    await rig.delete("cpu")
    await rig.until(pool.id, node_pools_pb2.NodePool.STATE_TERMINATED)
    nodes, _ = await rig.kube.list("Node", labels={names.LABEL_NODE_POOL: pool.id})
    assert nodes == []
    assert await rig.kube.get("Namespace", fact.namespace) is None
    machines = rig.sandbox.cloud("ListMachines", {"tags": {}})["machines"]
    assert [machine["state"] for machine in machines if machine["name"] != "mgmt"] == ["terminated"] * 2
    assert [net["name"] for net in rig.sandbox.cloud("ListNetworks", {"tags": {}})["networks"]] == ["net"]


async def _namespace(rig: Rig, pool_id: str) -> node_pool_pb2.NodePoolFact:
    end = time.monotonic() + 10
    while True:
        fact: node_pool_pb2.NodePoolFact = await rig.facts.GetNodePool(
            node_pool_pb2.GetNodePoolFactRequest(id_or_name=pool_id)
        )
        if fact.namespace_uid:
            return fact
        assert time.monotonic() < end
        await asyncio.sleep(0.05)


def _admission(pool_id: str) -> holds_pb2.AcquireHoldsRequest:
    return holds_pb2.AcquireHoldsRequest(
        service="deployment",
        admission=holds_pb2.Admission(
            id="adm-1",
            owner=holds_pb2.Owner(kind="deployment", id="dep-1"),
            parents=[holds_pb2.Parent(kind="node-pool", id=pool_id)],
        ),
    )
