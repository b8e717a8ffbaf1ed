"""The product's own bootstrap on a real machine: its user data, its SSH, its scripts, its chart, and itself."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

import pytest
from anycloud_cluster.domain import k3s
from anycloud_cluster.domain.keys import new_keys
from anycloud_cluster.domain.ports import OutsideError, SshTarget
from anycloud_cluster.domain.serving import is_awaited
from anycloud_cluster.gateways.ssh import AsyncSsh
from anycloud_cluster.reconcile.create import connection as connection_phase
from anycloud_cluster.reconcile.create import k3s as k3s_phase
from anycloud_cluster.reconcile.create import release as release_phase
from anycloud_cluster.reconcile.create.machine import machine_name
from anycloud_common.kube import cluster_uid
from anycloud_common.kube.names import LABEL_CLUSTER_MANAGEMENT, NAMESPACE_API, TAINT_MANAGEMENT, pool_taint
from anycloud_nodepool.domain import join, pins
from anycloud_nodepool.domain.model import Pool

from tests.world import api_image
from tests.world.assets import location
from tests.world.management import CLUSTER, Json, Management
from tests.world.surroundings import Surroundings
from tests.world.vm import Network, until


@pytest.fixture(scope="module")
def surroundings(network: Network) -> Surroundings:
    directory = network.host / "management"
    directory.mkdir()
    return Surroundings(directory)


@pytest.fixture(scope="module")
def management(network: Network, surroundings: Surroundings) -> Iterator[Management]:
    """A VM with K3s on it and the installer's connection to that, by the product's own phases."""
    keys = new_keys()
    archive = network.host / "management" / "api.tar"
    api_image.write(archive)
    bind = surroundings.brought_along(location.images() / "pause.tar", archive)
    vm = network.vm(machine_name(CLUSTER), k3s.user_data(keys), bind=bind)
    surroundings.prepare(vm, {api_image.API: api_image.HELM_JOB})
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
    assert set(management.cluster.sealed_connection) == {"endpoint", "ca", "token"}
    found = management.connection
    assert found.endpoint == f"https://{management.vm.address}:6443"
    assert found.ca == management.vm.run("cat", "/var/lib/rancher/k3s/server/tls/server-ca.crt")
    assert management.ask(cluster_uid) == management.cluster.kubernetes_identity
    claims = json.loads(base64.urlsafe_b64decode(found.token.split(".")[1] + "=="))
    assert "exp" not in claims
    assert claims["kubernetes.io/serviceaccount/service-account.name"] == "anycloud-installer"


@pytest.mark.req("CL-034")
def test_no_process_of_the_machine_shows_a_token_and_the_file_that_has_them_is_roots(management: Management) -> None:
    vm = management.vm
    assert vm.run("stat", "-c", "%a %U", "/etc/rancher/k3s/config.yaml").split() == ["600", "root"]
    config = vm.run("cat", "/etc/rancher/k3s/config.yaml")
    lines = vm.run("sh", "-c", "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '", check=False)
    lines += vm.run("journalctl", "--no-pager")
    assert "k3s" in lines
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
    wrong_user = SshTarget(target.address, 22, target.host_key, stranger["userPrivate"])
    assert "ermission denied" in asyncio.run(refusal(wrong_user))
    assert "passwordauthentication no" in management.vm.run("sshd", "-T")


def test_the_server_is_a_node_for_management_alone(management: Management) -> None:
    node = management.ask(lambda kube: kube.get("Node", machine_name(CLUSTER)))
    assert node is not None
    labels = node["metadata"]["labels"]
    assert labels[LABEL_CLUSTER_MANAGEMENT] == "true"
    assert labels["node-role.kubernetes.io/control-plane"] == "true"
    assert {"key": TAINT_MANAGEMENT, "value": "true", "effect": "NoSchedule"} in node["spec"]["taints"]


@pytest.mark.req("CL-043")
def test_the_api_is_installed_by_helm_in_a_container_and_serves_from_its_own_image(management: Management) -> None:
    management.complete(release_phase.run)

    def pods() -> list[Json]:
        return management.ask(lambda kube: kube.list("Pod", NAMESPACE_API, {"anycloud.sh/revision": "1"}))[0]

    until(lambda: is_awaited(pods(), api_image.API), "the Pod of the API", 0.5)
    (pod,) = pods()
    health = f"http://{pod['status']['podIP']}:8080/healthz"
    assert management.vm.run("curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", health) == "200"
    job = management.ask(lambda kube: kube.get("Job", "helm-install-anycloud-api", "kube-system"))
    assert job is not None
    assert job["status"]["succeeded"] == 1


@pytest.mark.req("CL-037")
def test_after_a_power_cut_the_same_cluster_is_back_and_the_connection_holds(
    management: Management, surroundings: Surroundings
) -> None:
    surroundings.close(management.vm)
    management.vm.cut()
    management.vm.boot(surroundings.serve)
    management.complete(k3s_phase.run)
    assert management.ask(cluster_uid) == management.cluster.kubernetes_identity
    management.complete(connection_phase.run)  # as after a restart of the installer: finds what it has made


def test_a_pools_vm_joins_the_server_that_the_product_made(
    management: Management, network: Network, surroundings: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pins, "K3S_SHA256", surroundings.sha256)
    pool = cast(Pool, SimpleNamespace(id="np-abcdefghijkl", provider="AWS", nvidia=False))
    token, name = join.Token("abc123", "0123456789abcdef"), "np-abcdefghijkl-1"
    server = join.Server(CLUSTER, management.connection.endpoint, management.connection.ca)
    bind = surroundings.brought_along(location.images() / "pause.tar")
    vm = network.vm(name, join.user_data(pool, server, "at-1", name, token), bind=bind)
    surroundings.prepare(vm, {})

    def ready() -> Json | None:
        node = management.ask(lambda kube: kube.get("Node", name))
        conditions = (node or {}).get("status", {}).get("conditions", ())
        return node if any(item["type"] == "Ready" and item["status"] == "True" for item in conditions) else None

    secret = join.token_secret(token, pool.id, "at-1", 4_000_000_000_000)
    management.ask(lambda kube: kube.create("Secret", secret))
    vm.boot(surroundings.serve)
    node = until(ready, "the Node", 0.5)
    surroundings.close(vm)
    vm.destroy()
    assert pool_taint(pool.id) in node["spec"]["taints"]
