"""The chart of the hosted API: its role against a fixed list, its manifests, and what its values may be."""

from __future__ import annotations

import base64
import importlib.util
import itertools
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from anycloud_common.release_values import ReleaseValues
from anycloud_common.settings import API_VERSION, Settings

from tests.kube import helm
from tests.kube.assets.location import how_to_get, missing

GOLDEN = Path(__file__).with_name("golden") / "anycloud-api.yaml"
MANAGE = {"get", "list", "watch", "create", "patch", "delete"}
ROLE = {
    ("", "namespaces"): {"get", "create", "patch", "delete"},
    ("", "nodes"): {"get", "list", "watch", "patch", "delete"},
    ("", "pods"): MANAGE,
    ("", "pods/log"): {"get"},
    ("", "pods/exec"): {"get", "create"},
    ("", "secrets"): MANAGE,
    ("", "services"): MANAGE,
    ("", "serviceaccounts"): MANAGE,
    ("apps", "deployments"): MANAGE,
    ("apps", "daemonsets"): MANAGE,
    ("apps", "replicasets"): {"list", "watch"},
    ("networking.k8s.io", "networkpolicies"): {"list", "watch", "create", "patch"},
    ("batch", "jobs"): MANAGE,
    ("node.k8s.io", "runtimeclasses"): MANAGE,
    ("helm.cattle.io", "helmcharts"): MANAGE,
    ("helm.cattle.io", "helmchartconfigs"): MANAGE,
    ("authentication.k8s.io", "tokenreviews"): {"create"},
    ("authorization.k8s.io", "selfsubjectaccessreviews"): {"create"},
}
LEASES = {("coordination.k8s.io", "leases"): {"get"}}

needs_helm = pytest.mark.skipif(bool(missing(["helm"])), reason=how_to_get(["helm"]))


def granted(rules: list[dict[str, Any]]) -> dict[tuple[str, str], set[str]]:
    """Verbs by API group and resource."""
    found: dict[tuple[str, str], set[str]] = {}
    for rule in rules:
        assert set(rule) == {"apiGroups", "resources", "verbs"}
        for key in itertools.product(rule["apiGroups"], rule["resources"]):
            found.setdefault(key, set()).update(rule["verbs"])
    return found


@pytest.fixture(scope="module")
def rbac() -> dict[str, dict[str, Any]]:
    """templates/rbac.yaml by kind."""
    return {manifest["kind"]: manifest for manifest in helm.rbac()}


@pytest.mark.req(
    "AU-002", "AU-003", "AU-004", "AU-005", "AU-006", "AU-008", "AU-010", "AU-011", "AU-012", "AU-013", "AU-014"
)
def test_the_role_grants_exactly_the_fixed_list(rbac: dict[str, dict[str, Any]]) -> None:
    assert granted(rbac["ClusterRole"]["rules"]) == ROLE
    assert granted(rbac["Role"]["rules"]) == LEASES
    assert rbac["Role"]["metadata"]["namespace"] == "kube-node-lease"


@pytest.mark.req("AU-001")
def test_the_role_is_bound_to_the_apis_account_alone(rbac: dict[str, dict[str, Any]]) -> None:
    account = {"kind": "ServiceAccount", "name": "anycloud-api", "namespace": "anycloud"}
    assert rbac["ServiceAccount"]["metadata"] == {"name": "anycloud-api", "namespace": "anycloud"}
    for kind in ("ClusterRole", "Role"):
        binding = rbac[f"{kind}Binding"]
        assert binding["subjects"] == [account]
        assert binding["roleRef"]["kind"] == kind
        assert binding["roleRef"]["name"] == rbac[kind]["metadata"]["name"] == "anycloud-api"


def test_chart_and_api_have_one_version() -> None:
    chart = yaml.safe_load((helm.CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (API_VERSION, API_VERSION)


def test_the_declared_shape_of_the_values_is_the_one_that_the_api_reads() -> None:
    schema = json.loads((helm.CHART / "values.schema.json").read_text())["properties"]["release"]
    document = ReleaseValues.from_document(helm.values()["release"]).to_document()
    assert set(document) == set(schema["properties"])
    for part in ("cluster", "api", "owner", "checkpoint"):
        assert set(document[part]) == set(schema["properties"][part]["properties"])


# Rendered by Helm


@needs_helm
def test_lint_finds_nothing() -> None:
    assert "0 chart(s) failed" in helm.helm("lint", "--strict", str(helm.CHART), values=helm.values())


@needs_helm
def test_the_manifests_are_the_recorded_ones() -> None:
    """ANYCLOUD_UPDATE_GOLDEN=1 records them anew."""
    text = re.sub(r"\n+", "\n", helm.template(helm.values()))  # Helm 3 and 4 differ in blank lines
    if os.environ.get("ANYCLOUD_UPDATE_GOLDEN"):
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()


@pytest.fixture(scope="module")
def manifests() -> dict[tuple[str, str], dict[str, Any]]:
    if absent := missing(["helm"]):
        pytest.skip(how_to_get(absent))
    return helm.rendered(helm.values())


@pytest.fixture(scope="module")
def pod(manifests: dict[tuple[str, str], dict[str, Any]]) -> dict[str, Any]:
    spec: dict[str, Any] = manifests["Deployment", "anycloud-api"]["spec"]["template"]["spec"]
    return spec


@pytest.mark.req("BK-033")
def test_one_pod_never_beside_another(manifests: dict[tuple[str, str], dict[str, Any]]) -> None:
    spec = manifests["Deployment", "anycloud-api"]["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})


@pytest.mark.req("AU-027")
def test_the_pod_runs_on_the_management_node(pod: dict[str, Any]) -> None:
    assert pod["nodeSelector"] == {"anycloud.sh/cluster-management": "true"}
    tolerated = {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"}
    assert pod["tolerations"] == [tolerated]


def test_the_migrator_runs_before_four_services_and_envoy(pod: dict[str, Any]) -> None:
    assert [container["name"] for container in pod["initContainers"]] == ["volume", "migrate"]
    names = [container["name"] for container in pod["containers"]]
    assert names == ["cluster", "nodepool", "deployment", "release", "gateway"]
    assert {container["image"] for container in pod["containers"] + pod["initContainers"]} == {helm.values()["image"]}


def test_each_service_is_started_as_a_module_of_ours(pod: dict[str, Any]) -> None:
    modules = [container["command"] for container in [pod["initContainers"][1], *pod["containers"][:4]]]
    for python, flag, module in modules:
        assert (python, flag) == ("python", "-m")
        assert importlib.util.find_spec(f"{module}.__main__")


def test_each_service_gets_settings_that_it_accepts(pod: dict[str, Any]) -> None:
    for container in pod["containers"][:4]:
        environment = {item["name"]: item["value"] for item in container["env"]}
        settings = Settings.from_environment({**environment, "KUBERNETES_SERVICE_HOST": "10.43.0.1"})
        mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
        assert settings.hosted
        assert str(settings.data_dir) in mounts
        assert settings.release_values is not None
        assert str(settings.release_values.parent) in mounts
        assert str(settings.serviceaccount_dir) in mounts
        # A directory of the volume's own: it is made with mode 0700, which the volume itself hasn't.
        assert str(settings.runtime_dir.parent) in mounts


def test_only_the_services_hold_the_accounts_token(pod: dict[str, Any]) -> None:
    assert pod["automountServiceAccountToken"] is False
    containers = pod["containers"] + pod["initContainers"]
    mounted = {c["name"] for c in containers if any(m["name"] == "account" for m in c["volumeMounts"])}
    assert mounted == {"cluster", "nodepool", "deployment", "release"}


def test_only_the_preparation_of_the_volume_runs_as_root(pod: dict[str, Any]) -> None:
    assert pod["securityContext"]["runAsNonRoot"] is True
    for container in pod["containers"] + pod["initContainers"]:
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False
        assert context["readOnlyRootFilesystem"] is True
        assert context["capabilities"]["drop"] == ["ALL"]
        assert ("runAsUser" in context) == (container["name"] == "volume")


def test_the_pod_shows_its_revision(manifests: dict[tuple[str, str], dict[str, Any]]) -> None:
    template = manifests["Deployment", "anycloud-api"]["spec"]["template"]
    assert template["metadata"]["labels"]["anycloud.sh/revision"] == "1"


def test_the_databases_outlive_the_release(manifests: dict[tuple[str, str], dict[str, Any]]) -> None:
    for kind in ("PersistentVolume", "PersistentVolumeClaim"):
        assert manifests[kind, "anycloud-api-state"]["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert manifests["PersistentVolume", "anycloud-api-state"]["spec"]["persistentVolumeReclaimPolicy"] == "Retain"


def read_by_the_api(given: dict[str, Any]) -> ReleaseValues:
    secret = helm.rendered(given)["Secret", "anycloud-api-release"]
    return ReleaseValues.from_document(json.loads(base64.b64decode(secret["data"]["values.json"])))


@needs_helm
def test_the_api_reads_its_values_as_the_installer_wrote_them() -> None:
    assert read_by_the_api(helm.values()) == ReleaseValues.from_document(helm.values()["release"])


@needs_helm
@pytest.mark.req("BK-029")
def test_image_and_revision_are_all_that_an_upgrade_changes_in_the_values() -> None:
    image = "ghcr.io/anycloud-sh/api@sha256:" + "2" * 64
    read = read_by_the_api(helm.values(image=image, revision=10_000_001))
    assert (read.api.image, read.api.revision) == (image, 10_000_001)
    assert (read.api.version, read.api.chart_version) == (API_VERSION, API_VERSION)
    assert read.cluster == ReleaseValues.from_document(helm.values()["release"]).cluster


@needs_helm
@pytest.mark.req("BK-015")
def test_the_credential_is_in_the_secret_alone() -> None:
    word = helm.values()["release"]["checkpoint"]["credential"]["secretAccessKey"]
    assert word not in helm.template(helm.values())


@needs_helm
def test_a_sandbox_is_told_to_the_services() -> None:
    release = {**helm.values()["release"], "sandboxUrl": "http://127.0.0.1:20000"}
    spec = helm.rendered(helm.values(release=release))["Deployment", "anycloud-api"]["spec"]["template"]["spec"]
    told = {item["name"]: item["value"] for item in spec["containers"][0]["env"]}
    assert told["ANYCLOUD_SANDBOX_URL"] == "http://127.0.0.1:20000"


@needs_helm
@pytest.mark.parametrize("version", ["v1.34.9+k3s1", "v1.39.0+k3s1"])
def test_a_cluster_whose_version_nobody_tried_is_refused(version: str) -> None:
    with pytest.raises(helm.HelmError, match="kubeVersion"):
        helm.template(helm.values(), version)


def without(part: str, key: str) -> Callable[[dict[str, Any]], None]:
    return lambda values: values["release"][part].pop(key)


@needs_helm
@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda values: values.update(image="ghcr.io/anycloud-sh/api:0.1.70"), "image"),
        (lambda values: values.update(revision=0), "revision"),
        (lambda values: values.update(revision="1"), "revision"),
        (lambda values: values.update(other=1), "other"),
        (lambda values: values.pop("release"), "release"),
        (lambda values: values["release"].update(other=1), "other"),
        (without("cluster", "identity"), "identity"),
        (without("owner", "userId"), "userId"),
        (without("checkpoint", "credential"), "credential"),
        (lambda values: values["release"]["api"].update(url="https://host/v1"), "url"),
    ],
)
def test_values_of_another_shape_are_refused(change: Callable[[dict[str, Any]], None], complaint: str) -> None:
    given = helm.values()
    change(given)
    with pytest.raises(helm.HelmError, match=complaint):
        helm.template(given)


@needs_helm
def test_a_refused_credential_is_not_shown() -> None:
    given = helm.values()
    given["release"]["checkpoint"]["credential"]["extra"] = {"secret": "do-not-show"}
    with pytest.raises(helm.HelmError) as caught:
        helm.template(given)
    assert "do-not-show" not in str(caught.value)
