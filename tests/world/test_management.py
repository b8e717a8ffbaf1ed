"""The product's own bootstrap of a management VM: its user data, its SSH, its scripts, on a real machine."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from anycloud_cluster.domain import k3s
from anycloud_cluster.domain.keys import Keys, new_keys
from anycloud_cluster.domain.ports import Connection, OutsideError, SshTarget
from anycloud_cluster.gateways.kubes import KubeClusters
from anycloud_cluster.gateways.ssh import AsyncSsh
from anycloud_cluster.reconcile.create import connection as connection_phase
from anycloud_cluster.reconcile.create import k3s as k3s_phase
from anycloud_cluster.reconcile.create.machine import machine_name
from anycloud_cluster.reconcile.work import Next, Step, Wait, Work
from anycloud_common.kube import Kube
from anycloud_common.kube.names import LABEL_CLUSTER_MANAGEMENT, TAINT_MANAGEMENT, pool_taint
from anycloud_nodepool.domain import join, pins
from anycloud_nodepool.domain.model import Pool

from tests.world.surroundings import Surroundings
from tests.world.vm import VM, Network, until

Json = dict[str, Any]
Phase = Callable[[Work], Awaitable[Step]]

CLUSTER = "cl-abcdefghijkl"


class Management:
    """One pass after another over a cluster's record, as the reconciler makes them, without ledger and database."""

    def __init__(self, vm: VM, keys: Keys, sha256: str) -> None:
        self.vm, self.keys = vm, keys
        self.outside = SimpleNamespace(ssh=AsyncSsh(), clusters=KubeClusters())
        facts: Json = {"id": CLUSTER, "name": "home", "address": vm.address, "helm_job_image": "helm-job:1"}
        facts |= {"endpoint": f"https://{vm.address}:{k3s.API_PORT}", "k3s_version": "v1.36.5+k3s1"}
        facts |= {"k3s_sha256": sha256, "sealed_connection": None, "kubernetes_identity": None}
        self.cluster = SimpleNamespace(**facts)

    def ssh_target(self) -> SshTarget:
        return SshTarget(self.vm.address, 22, self.keys["hostPublic"], self.keys["userPrivate"])

    def secret(self, name: str) -> Any:
        return self.keys if name == "sealed_keys" else getattr(self.cluster, name)

    def sealed(self, name: str, document: Json) -> Json:
        return document

    async def save(self, **changes: Any) -> None:
        vars(self.cluster).update(changes)

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

    def identity(self) -> str:
        """UID of the cluster, asked with the installer's connection."""

        async def ask() -> str:
            kubernetes = KubeClusters().open(Connection(**self.cluster.sealed_connection))
            try:
                return await kubernetes.uid()
            finally:
                await kubernetes.close()

        return asyncio.run(ask())

    def kube(self) -> Kube:
        found = self.cluster.sealed_connection
        return Kube.from_token(found["endpoint"], found["ca"], found["token"])


@pytest.fixture(scope="module")
def surroundings(network: Network) -> Surroundings:
    directory = network.host / "management"
    directory.mkdir()
    return Surroundings(directory, {})


@pytest.fixture(scope="module")
def management(network: Network, surroundings: Surroundings) -> Iterator[Management]:
    """A VM with K3s on it and the installer's connection to that, by the product's own phases."""
    keys = new_keys()
    vm = network.vm(machine_name(CLUSTER), k3s.user_data(keys), bind=surroundings.brought_along())
    surroundings.prepare(vm)
    made = Management(vm, keys, surroundings.sha256)
    try:
        vm.boot(surroundings.serve)
        made.complete(k3s_phase.run)
        made.complete(connection_phase.run)
        yield made
    finally:
        surroundings.close(vm)
        vm.destroy()


@pytest.mark.req("CL-038")
def test_the_product_makes_a_server_of_a_bare_vm_and_a_connection_of_its_own(management: Management) -> None:
    found = management.cluster.sealed_connection
    assert set(found) == {"endpoint", "ca", "token"}
    assert found["endpoint"] == f"https://{management.vm.address}:6443"
    assert found["ca"] == management.vm.run("cat", "/var/lib/rancher/k3s/server/tls/server-ca.crt")
    assert management.identity() == management.cluster.kubernetes_identity
    claims = json.loads(base64.urlsafe_b64decode(found["token"].split(".")[1] + "=="))
    assert "exp" not in claims
    assert claims["kubernetes.io/serviceaccount/service-account.name"] == "anycloud-installer"


@pytest.mark.req("CL-034")
def test_no_process_of_the_machine_shows_a_token_and_the_file_that_has_them_is_roots(management: Management) -> None:
    vm = management.vm
    assert vm.run("stat", "-c", "%a %U", "/etc/rancher/k3s/config.yaml").split() == ["600", "root"]
    config = vm.run("cat", "/etc/rancher/k3s/config.yaml")
    lines = vm.run("sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '") + vm.run("journalctl", "--no-pager")
    for name in ("token", "agentToken"):
        assert management.keys[name] in config
        assert management.keys[name] not in lines


def test_the_machine_shows_the_host_key_that_it_was_given_and_lets_nobody_else_in(management: Management) -> None:
    stranger, target = new_keys(), management.ssh_target()

    async def refusal(other: SshTarget) -> str:
        with pytest.raises(OutsideError) as caught:
            async with AsyncSsh().open(other):
                pass
        return str(caught.value)

    wrong_host = SshTarget(target.address, 22, stranger["hostPublic"], target.user_key)
    assert "its own host key" in asyncio.run(refusal(wrong_host))
    assert "ermission denied" in asyncio.run(
        refusal(SshTarget(target.address, 22, target.host_key, stranger["userPrivate"]))
    )
    effective = management.vm.run("sshd", "-T")
    assert "passwordauthentication no" in effective


async def test_the_server_is_a_node_for_management_alone(management: Management) -> None:
    kube = management.kube()
    try:
        node = await kube.get("Node", machine_name(CLUSTER))
    finally:
        await kube.close()
    assert node is not None
    labels = node["metadata"]["labels"]
    assert labels[LABEL_CLUSTER_MANAGEMENT] == "true"
    assert labels["node-role.kubernetes.io/control-plane"] == "true"
    assert {"key": TAINT_MANAGEMENT, "value": "true", "effect": "NoSchedule"} in node["spec"]["taints"]


@pytest.mark.req("CL-037")
def test_after_a_power_cut_the_same_cluster_is_back_and_the_connection_holds(
    management: Management, surroundings: Surroundings
) -> None:
    surroundings.close(management.vm)
    management.vm.cut()
    management.vm.boot(surroundings.serve)
    management.complete(k3s_phase.run)
    assert management.identity() == management.cluster.kubernetes_identity
    management.complete(connection_phase.run)  # as after a restart of the installer: finds what it has made


def test_a_pools_vm_joins_the_server_that_the_product_made(
    management: Management, network: Network, surroundings: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pins, "K3S_SHA256", surroundings.sha256)
    pool = cast(Pool, SimpleNamespace(id="np-abcdefghijkl", provider="AWS", nvidia=False))
    token, name = join.Token("abc123", "0123456789abcdef"), "np-abcdefghijkl-1"
    server = join.Server(CLUSTER, management.cluster.endpoint, management.cluster.ca)
    data = join.user_data(pool, server, "at-1", name, token)
    vm = network.vm(name, data, bind=surroundings.brought_along())
    surroundings.prepare(vm)

    async def ask(what: Callable[[Kube], Awaitable[Json | None]]) -> Json | None:
        kube = management.kube()
        try:
            return await what(kube)
        finally:
            await kube.close()

    def ready() -> Json | None:
        node = asyncio.run(ask(lambda kube: kube.get("Node", name)))
        conditions = (node or {}).get("status", {}).get("conditions", ())
        return node if any(item["type"] == "Ready" and item["status"] == "True" for item in conditions) else None

    secret = join.token_secret(token, pool.id, "at-1", 4_000_000_000_000)
    asyncio.run(ask(lambda kube: kube.create("Secret", secret)))
    try:
        vm.boot(surroundings.serve)
        node = until(ready, "the Node", 0.5)
    finally:
        surroundings.close(vm)
        vm.destroy()
    assert pool_taint(pool.id) in node["spec"]["taints"]
