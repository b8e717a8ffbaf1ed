"""The HelmChart that the installer really writes, in the hands of K3s's own helm-controller and of real Helm."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
import pytest_asyncio
import yaml
from anycloud_cluster.domain import charts
from anycloud_cluster.domain import helm as helm_state
from anycloud_cluster.domain.cluster import Cluster
from anycloud_cluster.gateways.kubes import KubeCluster
from anycloud_cluster.reconcile.create import installation
from anycloud_cluster.reconcile.work import Work
from anycloud_common.kube import Object
from anycloud_common.release_values import ReleaseValues

from tests.kube import helm
from tests.kube.assets.location import how_to_get, missing
from tests.kube.helm_jobs import HelmJobs
from tests.kube.servers import KubernetesServer, connect
from tests.kube.waiting import until
from tests.support.control_plane import ControlPlane

HELM_CHART = "/apis/helm.cattle.io/v1/namespaces/kube-system/helmcharts/anycloud-api"
JOB = f"/apis/batch/v1/namespaces/kube-system/jobs/{helm_state.JOB}"
DEPLOYMENT = "/apis/apps/v1/namespaces/anycloud/deployments/anycloud-api"
RELEASE_SECRET = "/api/v1/namespaces/anycloud/secrets/anycloud-api-release"
RECORDS = "/api/v1/namespaces/anycloud/secrets?labelSelector=owner%3Dhelm"
WORD = "the-secret-of-a-compute-credential"
OTHER_IMAGE = "ghcr.io/anycloud-sh/api@sha256:" + "2" * 64
SECONDS = 60.0

pytestmark = pytest.mark.asyncio(loop_scope="module")

# Whoever may read these reads what a HelmChart says, and what becomes of it.
SHOWN = (
    "/apis/helm.cattle.io/v1/helmcharts",
    "/apis/batch/v1/jobs",
    "/api/v1/pods",
    "/api/v1/events",
    "/api/v1/configmaps",
    "/apis/apps/v1/deployments",
    "/apis/apps/v1/replicasets",
    "/apis/apps/v1/controllerrevisions",
)


@pytest.fixture(scope="module")
def jobs(kubernetes: KubernetesServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HelmJobs]:
    if absent := missing(["helm", "helm-controller"]):
        pytest.skip(how_to_get(absent))
    plane = kubernetes.plane
    plane.start_helm_controller("registry.invalid/helm-job")
    with HelmJobs(plane, tmp_path_factory.mktemp("jobs") / "jobs") as playing:
        yield playing
    plane.end("helm-controller")


def our_cluster() -> Cluster:
    """The few facts of a cluster that its release is made from."""
    facts: dict[str, Any] = {
        "id": "cl-abcdefghijkl",
        "chart_digest": "sha256:" + "3" * 64,
        "chart_version": "0.1.70",
        "helm_job_image": "registry.invalid/helm-job@sha256:" + "4" * 64,
    }
    return cast(Cluster, SimpleNamespace(**facts))


def values() -> ReleaseValues:
    document = copy.deepcopy(helm.values()["release"])
    document["checkpoint"]["credential"]["secretAccessKey"] = WORD
    return ReleaseValues.from_document(document)


class Noted:
    """What the installer keeps of an install: its last error, and the log that a new beginning is counted by."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.cluster = SimpleNamespace(last_error=None)

    async def look(self, kubernetes: KubeCluster) -> bool:
        """As the step `serve` does it each second; true once it was begun anew."""
        self.cluster.last_error = await installation.trouble(cast(Work, self), kubernetes) or self.cluster.last_error
        return bool(self.notes)

    async def count(self, reason: str) -> int:
        return len(self.notes)

    async def record(self, reason: str, message: str) -> None:
        self.notes.append(message)


@dataclass
class Released:
    """`first` are Helm's records after the first attempt, `notes` what the installer noted of it."""

    plane: ControlPlane
    first: dict[int, str]
    notes: list[str]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def released(jobs: HelmJobs, kubernetes: KubernetesServer) -> AsyncIterator[Released]:
    """The HelmChart and its Secret as the step `release` makes them, and the API installed at last: the power goes
    off in the middle of the first attempt."""
    cluster, plane, log = our_cluster(), jobs.plane, Noted()
    installer = KubeCluster(connect(kubernetes))
    owner = charts.owner_labels(cluster)
    jobs.cut_off = 1
    await installer.ensure("Secret", charts.api_values_secret(cluster, values()), owner)
    await installer.ensure("HelmChart", charts.api_chart(cluster, values()), owner)
    await until(lambda: recorded(plane), SECONDS)
    first = records(plane)
    await until(lambda: log.look(installer), SECONDS)
    await deployed(plane, 1)
    yield Released(plane, first, log.notes)
    plane.call("DELETE", HELM_CHART)
    plane.call("DELETE", f"/api/v1/namespaces/kube-system/secrets/{charts.VALUES}")

    async def gone() -> bool:
        return plane.find(HELM_CHART) is None and not plane.call("GET", RECORDS)["items"]

    await until(gone, SECONDS)
    await installer.close()


def records(plane: ControlPlane) -> dict[int, str]:
    """Status of each record of Helm by its number."""
    labels = [item["metadata"]["labels"] for item in plane.call("GET", RECORDS)["items"]]
    return {int(found["version"]): found["status"] for found in labels}


async def recorded(plane: ControlPlane) -> bool:
    return bool(records(plane))


async def deployed(plane: ControlPlane, number: int) -> None:
    async def there() -> bool:
        job = plane.find(JOB)
        complete = job is not None and _condition(job, "Complete")
        return complete and records(plane).get(number) == "deployed"

    await until(there, SECONDS)


async def given_up(plane: ControlPlane) -> None:
    async def there() -> bool:
        job = plane.find(JOB)
        return job is not None and helm_state.gave_up(job)

    await until(there, SECONDS)


def _condition(job: Object, kind: str) -> bool:
    return any(item["type"] == kind and item["status"] == "True" for item in job["status"].get("conditions", []))


def told(plane: ControlPlane) -> ReleaseValues:
    """The release values as the API reads them."""
    secret = plane.call("GET", RELEASE_SECRET)
    return ReleaseValues.from_document(json.loads(base64.b64decode(secret["data"]["values.json"])))


def revision_of(plane: ControlPlane) -> str:
    return str(plane.call("GET", DEPLOYMENT)["spec"]["template"]["metadata"]["labels"]["anycloud.sh/revision"])


def upgrade(plane: ControlPlane, revision: int) -> None:
    """Image and revision of the HelmChart's values, which is all that an upgrade changes in them."""
    stored = plane.call("GET", HELM_CHART)["spec"]["valuesContent"]
    content = {**yaml.safe_load(stored), "image": OTHER_IMAGE, "revision": revision}
    plane.call("PATCH", HELM_CHART, {"spec": {"valuesContent": yaml.safe_dump(content)}})


async def test_a_first_install_that_was_cut_off_is_begun_anew_by_the_installer(released: Released) -> None:
    """Helm's Job only waits for a person then."""
    assert released.first == {1: "pending-install"}
    (note,) = released.notes
    assert "waiting for operator intervention" in note


@pytest.mark.req("CL-043", "BK-015")
async def test_the_api_reads_what_the_installer_wrote(released: Released) -> None:
    spec = charts.api_chart(our_cluster(), values())["spec"]
    assert spec.items() <= released.plane.call("GET", HELM_CHART)["spec"].items()
    assert told(released.plane).checkpoint == values().checkpoint
    assert told(released.plane).cluster == values().cluster


@pytest.mark.req("BK-015")
async def test_the_credential_is_in_secrets_alone(released: Released, jobs: HelmJobs) -> None:
    for path in SHOWN:
        assert WORD not in json.dumps(released.plane.call("GET", path)), path
    assert not [output for output in jobs.runs if WORD in output]
    holding = [item for item in released.plane.call("GET", "/api/v1/secrets")["items"] if _holds(item)]
    assert sorted(item["metadata"]["name"] for item in holding) == ["anycloud-api-release", charts.VALUES]


def _holds(secret: Object) -> bool:
    return any(WORD in base64.b64decode(data).decode(errors="replace") for data in (secret.get("data") or {}).values())


@pytest.mark.req("CL-043")
async def test_the_job_is_the_pinned_one_and_gets_onto_the_management_node(released: Released) -> None:
    spec = released.plane.call("GET", JOB)["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    environment = {item["name"]: item.get("value") for item in container["env"]}
    assert container["image"] == our_cluster().helm_job_image
    assert environment["FAILURE_POLICY"] == "abort"
    assert environment["TARGET_NAMESPACE"] == "anycloud"
    assert "node-role.kubernetes.io/control-plane" in {item.get("key") for item in spec["tolerations"]}


async def test_an_apply_keeps_what_the_controller_added(released: Released, kubernetes: KubernetesServer) -> None:
    """Its finalizer, by which the API would be uninstalled, and its mark."""
    newest, stored = max(records(released.plane)), released.plane.call("GET", HELM_CHART)
    revision = int(revision_of(released.plane)) + 1
    given = values()
    wanted = replace(given, api=replace(given.api, revision=revision))
    body = charts.api_chart(our_cluster(), wanted)
    body["metadata"]["uid"] = stored["metadata"]["uid"]
    kube = connect(kubernetes)
    applied = await kube.apply("HelmChart", body)
    await kube.close()
    assert applied["metadata"]["finalizers"] == stored["metadata"]["finalizers"]
    assert stored["metadata"]["annotations"].keys() <= applied["metadata"]["annotations"].keys()
    await deployed(released.plane, newest + 1)
    assert revision_of(released.plane) == str(revision)


@pytest.mark.req("BK-029", "BK-032")
async def test_an_upgrade_keeps_all_other_values(released: Released) -> None:
    newest, revision = max(records(released.plane)), int(revision_of(released.plane)) + 1
    upgrade(released.plane, revision)
    await deployed(released.plane, newest + 1)
    after = told(released.plane)
    assert (revision_of(released.plane), after.api.revision) == (str(revision), revision)
    assert after.api.image == OTHER_IMAGE
    assert (after.checkpoint, after.cluster) == (values().checkpoint, values().cluster)


@pytest.mark.req("BK-032")
async def test_a_refused_revision_changes_nothing_and_lets_the_next_one_pass(released: Released) -> None:
    plane = released.plane
    before, newest, revision = plane.call("GET", DEPLOYMENT)["metadata"], max(records(plane)), int(revision_of(plane))
    upgrade(plane, revision - 1)
    await given_up(plane)
    assert plane.call("GET", DEPLOYMENT)["metadata"]["generation"] == before["generation"]
    assert records(plane)[newest] == "deployed"
    upgrade(plane, revision + 1)
    await deployed(plane, newest + 1)
    assert plane.call("GET", DEPLOYMENT)["metadata"]["uid"] == before["uid"]
    assert revision_of(plane) == str(revision + 1)
