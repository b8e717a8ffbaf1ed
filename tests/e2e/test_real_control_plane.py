"""The demo with Kubernetes' own programs as its control plane: the same commands, the API from its real chart.

The tests of this file are one story: each goes on where the one before it ended.
"""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
import yaml
from anycloud_control_plane.admin import Admin, Json
from anycloud_control_plane.programs import HELM, SERVERS
from anycloud_supervisor.identity import Identity

from tests.e2e.test_demo import JOBS, Transcript, claims, run_demo
from tests.kube.assets.location import cache_directory, how_to_get, missing
from tests.support.installation import Installation, kill, until

pytestmark = pytest.mark.timeout(300)
PROGRAMS = {"kine", *SERVERS, "helm-controller"}
NAMESPACE = "/api/v1/namespaces/anycloud"
ACCOUNT = "system:serviceaccount:anycloud:anycloud-api"


class Cluster(Admin):
    """The admin of the installation's one cluster."""

    def __init__(self, installation: Installation) -> None:
        found = (installation.directory / "data/sandbox/world/machines").glob("*/rootfs/etc/rancher/k3s/k3s.yaml")
        (self.kubeconfig,) = found
        document = yaml.safe_load(self.kubeconfig.read_text())
        self.endpoint = document["clusters"][0]["cluster"]["server"]
        self.token = document["users"][0]["user"]["token"]
        self.ca = (self.kubeconfig.parents[3] / "var/lib/rancher/k3s/server/tls/server-ca.crt").read_text()
        self.tls = ssl.create_default_context(cadata=self.ca)

    @property
    def uid(self) -> str:
        return str(self.call("GET", "/api/v1/namespaces/kube-system")["metadata"]["uid"])

    def allows(self, user: str, **attributes: str) -> bool:
        body = {"spec": {"user": user, "resourceAttributes": attributes}}
        answer = self.call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body)
        return bool(answer["status"]["allowed"])


@pytest.fixture(scope="module")
def installation(installation: Installation) -> Installation:
    if absent := missing([*PROGRAMS, *HELM]):
        pytest.skip(how_to_get(absent))
    installation.environment["ANYCLOUD_KUBE_ASSETS"] = str(cache_directory())
    return installation


@pytest.fixture(scope="module")
def first(installation: Installation) -> Transcript:
    return run_demo(installation)


@pytest.fixture(scope="module")
def cluster(first: Transcript, installation: Installation) -> Cluster:
    return Cluster(installation)


def programs(installation: Installation) -> dict[str, Identity]:
    """The control plane's running programs."""
    found = ((Path(process.name.split()[0]).name, process.identity) for process in installation.processes())
    return {name: identity for name, identity in found if name in PROGRAMS}


def runs_a_job(installation: Installation) -> None:
    job = installation.ask("job", "--deployment", "demo-worker")["id"]
    installation.cli("wait", job, "--timeout", "90s", seconds=120)
    assert len(claims(installation)[job]) == 1


def test_the_demo_runs_on_the_real_control_plane(first: Transcript, installation: Installation) -> None:
    assert set(programs(installation)) == PROGRAMS
    assert len(set(first.jobs)) == JOBS
    executions = claims(installation)
    assert all(len(executions[job]) == 1 for job in first.jobs)


def test_helm_installed_the_api_from_its_chart(cluster: Cluster) -> None:
    """By the Job of K3s's helm-controller, which finds its work again by the label on Helm's record."""
    job = cluster.call("GET", "/apis/batch/v1/namespaces/kube-system/jobs/helm-install-anycloud-api")
    assert job["status"]["succeeded"] == 1
    record = cluster.call("GET", f"{NAMESPACE}/secrets/sh.helm.release.v1.anycloud-api.v1")
    assert record["metadata"]["labels"].items() >= {"owner": "helm", "status": "deployed"}.items()
    assert record["metadata"]["labels"]["helmcharts.helm.cattle.io/configHash"]
    (pod,) = [pod for pod in pods(cluster) if "deletionTimestamp" not in pod["metadata"]]
    assert [status["name"] for status in pod["status"]["initContainerStatuses"]] == ["volume", "migrate"]
    ready = {status["name"]: status["ready"] for status in pod["status"]["containerStatuses"]}
    assert ready == dict.fromkeys(("cluster", "nodepool", "deployment", "release", "gateway"), True)


def pods(cluster: Cluster) -> list[Json]:
    return list(cluster.call("GET", f"{NAMESPACE}/pods")["items"])


def test_the_api_has_the_authority_of_its_chart_and_no_more(cluster: Cluster) -> None:
    assert cluster.allows(ACCOUNT, verb="patch", group="apps", resource="deployments", namespace="any")
    assert not cluster.allows(ACCOUNT, verb="create", resource="serviceaccounts", subresource="token", namespace="any")
    assert not cluster.allows(
        ACCOUNT, verb="create", group="certificates.k8s.io", resource="certificatesigningrequests"
    )


def test_a_gpu_pool_has_its_device_plugin_on_every_node(cluster: Cluster, installation: Installation) -> None:
    """By the real controller of DaemonSets, from the image that stands in for the plugin's."""
    place = ["--credentials", "demo-aws", "--region", "us-east-1", "--vm-type", "g6.xlarge"]
    installation.cli("node-pool", "create", "gpus", *place, "--min-vms", "1", "--max-vms", "1", "--wait", seconds=200)
    plugin = "/apis/apps/v1/namespaces/kube-system/daemonsets/anycloud-nvidia-device-plugin/status"

    def everywhere() -> bool:
        status = cluster.call("GET", plugin)["status"]
        return (status["desiredNumberScheduled"], status.get("numberReady")) == (1, 1)

    until(everywhere, 60)
    pool = installation.ask("node-pool", "delete", "gpus")["nodePool"]["id"]
    until(lambda: not installation.ask("node-pool", "status", pool)["nodePool"]["releasing"], 90, pause=0.5)


def test_programs_that_are_killed_come_back(cluster: Cluster, installation: Installation) -> None:
    before, uid = programs(installation), cluster.uid
    for identity in before.values():
        kill(identity)

    def back() -> bool:
        now = programs(installation)
        return set(now) == PROGRAMS and not set(now.values()) & set(before.values())

    until(back, 60)
    until(lambda: answers(cluster), 60)
    assert cluster.uid == uid
    runs_a_job(installation)


def answers(cluster: Cluster) -> bool:
    try:
        return bool(cluster.uid)
    except OSError:
        return False


def test_a_killed_sandbox_takes_its_programs_along_and_brings_them_back(
    cluster: Cluster, installation: Installation
) -> None:
    before, uid = programs(installation), cluster.uid
    sandbox = installation.process("sandbox")
    assert sandbox is not None
    kill(sandbox)
    until(lambda: not any(identity.alive for identity in before.values()), 10)
    until(lambda: set(programs(installation)) == PROGRAMS and answers(cluster), 90)
    assert cluster.uid == uid
    runs_a_job(installation)


def test_stop_leaves_no_process_and_a_later_start_has_the_same_cluster(
    cluster: Cluster, installation: Installation
) -> None:
    uid = cluster.uid
    installation.cli("api", "stop")
    assert installation.processes() == []
    del installation.environment["ANYCLOUD_KUBE_ASSETS"]  # the first start has decided
    hosted = installation.start().stdout.split("Commands still go to ")[1].split(";")[0]
    until(lambda: set(programs(installation)) == PROGRAMS and answers(cluster), 90)
    again = Cluster(installation)
    assert (again.uid, again.ca, again.token) == (uid, cluster.ca, cluster.token)
    installation.cli("api", "use", hosted)
    installation.cli("wait", "deployment/demo-worker", "node-pool/demo-pool", "--timeout", "90s")
    runs_a_job(installation)


def test_a_deleted_clusters_programs_end(cluster: Cluster, installation: Installation) -> None:
    machines = installation.bought("machines")
    (management,) = [machine for machine in machines if machine["tags"]["anycloud_role"] == "management"]
    keys = {"x-sandbox-key": "111122223333.e2e", "x-sandbox-secret": "sandbox"}
    installation.world("POST", "/cloud/AWS/DeleteMachine", {"id": management["id"]}, keys)
    until(lambda: not programs(installation), 30)
    installation.cli("api", "stop")
    assert installation.processes() == []
