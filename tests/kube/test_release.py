"""Real Helm on the real API server: install, upgrade, refuse, uninstall, and the authority of the API's account."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Iterator

import pytest
from anycloud_common.kube import Kube, Object, check_connection, cluster_uid
from anycloud_common.release_values import ReleaseValues
from anycloud_nodepool.gateways.kube import NEEDED

from tests.kube import helm
from tests.kube.assets.location import how_to_get, missing
from tests.kube.servers import KubernetesServer, connect
from tests.kube.test_chart import LEASES, ROLE, granted
from tests.kube.test_client import refusal
from tests.kube.waiting import until
from tests.support.control_plane import ControlPlane

DEPLOYMENT = "/apis/apps/v1/namespaces/anycloud/deployments/anycloud-api"
SECRET = "/api/v1/namespaces/anycloud/secrets/anycloud-api-release"

# What every account may ask about itself and about the server, by Kubernetes' own roles.
EVERYBODYS = {
    ("authorization.k8s.io", "selfsubjectaccessreviews"): {"create"},
    ("authorization.k8s.io", "selfsubjectrulesreviews"): {"create"},
    ("authentication.k8s.io", "selfsubjectreviews"): {"create"},
}


@pytest.fixture(scope="module")
def programs() -> None:
    if absent := missing(["helm"]):
        pytest.skip(how_to_get(absent))


@pytest.fixture
def installed(plane: ControlPlane, programs: None) -> Iterator[ControlPlane]:
    """A cluster on which revision 5 of the API is installed."""
    helm.install(plane.kubeconfig(), helm.values(revision=5))
    yield plane
    helm.uninstall(plane.kubeconfig())
    for path in (DEPLOYMENT, SECRET):
        assert plane.find(path) is None


def running(plane: ControlPlane) -> Object:
    found = plane.find(DEPLOYMENT)
    assert found is not None
    return found


def revision_of(deployment: Object) -> str:
    return str(deployment["spec"]["template"]["metadata"]["labels"]["anycloud.sh/revision"])


def told(plane: ControlPlane) -> ReleaseValues:
    """The release values as the API reads them."""
    secret = plane.call("GET", SECRET)
    return ReleaseValues.from_document(json.loads(base64.b64decode(secret["data"]["values.json"])))


# Install, upgrade, uninstall


async def test_an_installed_api_has_one_pod_with_its_storage(installed: ControlPlane) -> None:
    async def bound() -> bool:
        claim = installed.find("/api/v1/namespaces/anycloud/persistentvolumeclaims/anycloud-api-state")
        return claim is not None and claim["status"]["phase"] == "Bound"

    await until(bound)

    async def pods() -> list[Object]:
        return list(installed.call("GET", "/api/v1/namespaces/anycloud/pods")["items"])

    (pod,) = await until(pods)
    assert pod["metadata"]["labels"]["anycloud.sh/revision"] == "5"
    assert len(pod["spec"]["containers"]) == 5
    assert told(installed).api.revision == 5


@pytest.mark.req("BK-032")
def test_a_higher_revision_replaces_image_and_revision(installed: ControlPlane) -> None:
    image = "ghcr.io/anycloud-sh/api@sha256:" + "2" * 64
    helm.upgrade(installed.kubeconfig(), helm.values(revision=6, image=image))
    after = running(installed)
    assert revision_of(after) == "6"
    assert {container["image"] for container in after["spec"]["template"]["spec"]["containers"]} == {image}
    assert (told(installed).api.revision, told(installed).api.image) == (6, image)


@pytest.mark.req("BK-032")
@pytest.mark.parametrize("revision", [5, 4])
def test_a_revision_that_is_not_above_the_running_one_is_refused(installed: ControlPlane, revision: int) -> None:
    before = running(installed)
    image = "ghcr.io/anycloud-sh/api@sha256:" + "2" * 64
    with pytest.raises(helm.HelmError, match=f"revision {revision} is not above the running revision 5"):
        helm.upgrade(installed.kubeconfig(), helm.values(revision=revision, image=image))
    assert running(installed)["metadata"]["generation"] == before["metadata"]["generation"]
    assert told(installed).api.revision == 5
    # The record stays a good one, or helm-controller would let no later upgrade pass.
    assert helm.status(installed.kubeconfig()) == (1, "deployed")
    helm.upgrade(installed.kubeconfig(), helm.values(revision=6))


def test_an_upgrade_that_was_interrupted_may_be_completed(installed: ControlPlane) -> None:
    with pytest.raises(helm.HelmError):  # no kubelet: the Pod that it waits for never comes
        helm.upgrade(installed.kubeconfig(), helm.values(revision=6), "--wait", "--timeout", "2s")
    assert helm.status(installed.kubeconfig()) == (2, "failed")
    assert revision_of(running(installed)) == "6"
    with pytest.raises(helm.HelmError, match="not above"):
        helm.upgrade(installed.kubeconfig(), helm.values(revision=5))
    helm.upgrade(installed.kubeconfig(), helm.values(revision=6))
    assert helm.status(installed.kubeconfig()) == (3, "deployed")


def test_an_uninstall_leaves_the_databases_and_a_new_install_finds_them(plane: ControlPlane, programs: None) -> None:
    path = "/api/v1/namespaces/anycloud/persistentvolumeclaims/anycloud-api-state"
    helm.install(plane.kubeconfig(), helm.values())
    claim = plane.call("GET", path)
    helm.uninstall(plane.kubeconfig())
    assert plane.call("GET", path)["metadata"]["uid"] == claim["metadata"]["uid"]
    helm.install(plane.kubeconfig(), helm.values())
    assert plane.call("GET", path)["metadata"]["uid"] == claim["metadata"]["uid"]
    helm.uninstall(plane.kubeconfig())
    for rest in (
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/anycloud-api",
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/anycloud-api",
        "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-node-lease/roles/anycloud-api",
        "/api/v1/namespaces/anycloud/serviceaccounts/anycloud-api",
        "/api/v1/namespaces/anycloud/services/anycloud-api",
    ):
        assert plane.find(rest) is None


# Authority


@pytest.fixture
async def api(installed: ControlPlane, kubernetes: KubernetesServer) -> AsyncIterator[Kube]:
    """A connection as the installed API's own account."""
    connection = connect(kubernetes, installed.account_token("anycloud", "anycloud-api"))
    yield connection
    await connection.close()


def own_rules(plane: ControlPlane, token: str, namespace: str) -> dict[tuple[str, str], set[str]]:
    path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    rules = plane.call("POST", path, {"spec": {"namespace": namespace}}, token)["status"]["resourceRules"]
    return granted(rules)


@pytest.mark.req("AU-014")
def test_the_server_grants_the_account_exactly_the_fixed_list(installed: ControlPlane) -> None:
    token = installed.account_token("anycloud", "anycloud-api")
    everywhere = {key: ROLE.get(key, set()) | EVERYBODYS.get(key, set()) for key in ROLE | EVERYBODYS}
    assert own_rules(installed, token, "anycloud") == everywhere
    assert own_rules(installed, token, "kube-node-lease") == everywhere | LEASES


@pytest.mark.req("AU-015")
async def test_the_role_has_every_permission_that_a_connection_is_checked_for(api: Kube) -> None:
    report = await check_connection(api, await cluster_uid(api), NEEDED)
    assert report.missing == ()


@pytest.mark.req("AU-020", "AU-023")
async def test_a_verb_that_is_taken_away_is_named(installed: ControlPlane, api: Kube) -> None:
    path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/anycloud-api"
    rules = installed.call("GET", path)["rules"]
    fewer = [rule for rule in rules if rule["resources"] != ["networkpolicies"]]
    installed.call("PATCH", path, {"rules": fewer})

    async def noticed() -> str:
        report = await check_connection(api, await cluster_uid(api), NEEDED)
        return " ".join(report.problems)

    problems = await until(noticed)
    assert "patch networkpolicies.networking.k8s.io" in problems


async def test_network_policies_are_kept_without_the_verb_get(api: Kube, installed: ControlPlane) -> None:
    installed.ensure("/api/v1/namespaces", {"metadata": {"name": "policies"}})
    about = {"name": "egress", "namespace": "policies", "labels": {"anycloud.sh/node-pool": "np-1"}}
    about = {**about, "annotations": {"anycloud.sh/intent": "np-1"}}

    def body(port: int, **more: str) -> Object:
        spec = {"podSelector": {}, "policyTypes": ["Egress"], "egress": [{"ports": [{"port": port}]}]}
        return {"metadata": {**about, **more}, "spec": spec}

    owner = {"anycloud.sh/node-pool": "np-1"}
    made = await api.ensure("NetworkPolicy", body(80), owner)
    again = await api.ensure("NetworkPolicy", body(80), owner)
    uid = made["metadata"]["uid"]
    assert again["metadata"]["uid"] == uid
    applied = await api.apply("NetworkPolicy", body(443, uid=uid))
    assert [rule["ports"][0]["port"] for rule in applied["spec"]["egress"]] == [443]
    assert (await refusal(api.delete("NetworkPolicy", "egress", "policies", uid))).reason == "forbidden"
    assert await api.get("NetworkPolicy", "none", "policies") is None


@pytest.mark.parametrize(
    ("kind", "name", "ns"),
    [("ConfigMap", "kube-root-ca.crt", "kube-system"), ("Lease", "x", "kube-system"), ("Event", "x", "default")],
)
async def test_what_is_not_on_the_list_is_forbidden(api: Kube, kind: str, name: str, ns: str) -> None:
    assert (await refusal(api.get(kind, name, ns))).reason == "forbidden"


async def test_namespaces_and_nodes_keep_to_their_verbs(api: Kube) -> None:
    assert (await refusal(api.list("Namespace"))).reason == "forbidden"
    assert (await refusal(api.create("Node", {"metadata": {"name": "n"}}))).reason == "forbidden"
    assert await api.get("Lease", "none", "kube-node-lease") is None


async def test_a_cluster_without_helm_charts_says_so(kubernetes: KubernetesServer) -> None:
    assert kubernetes.plane.find("/apis/helm.cattle.io/v1") is None
    kube = connect(kubernetes)
    assert (await refusal(kube.list("HelmChart"))).reason == "not_found"
    await kube.close()
