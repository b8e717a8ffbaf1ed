"""The whole product under exactly the chart's role, judged by the API server's audit log.

A verb that is missing from the role fails a flow, or shows as a refused request; one that nothing uses fails unless it
is listed with its reason in unused_verbs.py.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from anycloud_common.kube import Kube, KubeError, Permission, check_connection, cluster_uid
from anycloud_common.kube.names import WORKLOAD_TOKEN_AUDIENCE
from anycloud_nodepool.gateways.kube import NEEDED

from tests.kube import audit, helm
from tests.kube.assets.location import how_to_get, missing
from tests.kube.audit import Asked, Use
from tests.kube.flows import SECRET_WORD, Flows
from tests.kube.hosted import Hosted
from tests.kube.unused_verbs import UNUSED
from tests.kube.waiting import until
from tests.support.control_plane import ControlPlane, Refused

ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterroles/anycloud-api"
LEASES = "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-node-lease/roles/anycloud-api"

# What every account may ask, by Kubernetes' own roles.
EVERYBODYS_PATHS = {"/version"}
EVERYBODYS_USES = {Use("authorization.k8s.io", "selfsubjectaccessreviews", "create")}

# Used by the release service, which no connection of node pools and Deployments is checked for.
RELEASES_OWN = {Use("apps", "deployments", "get")}


class Life:
    """What was asked with the product's token, from first to last."""

    def __init__(self, flows: Flows, asked: list[Asked], paths: set[str], granted: set[Use]) -> None:
        self.flows, self.hosted = flows, flows.hosted
        self.asked, self.paths, self.granted = asked, paths, granted
        self.used = {one.use for one in asked if one.status not in (401, 403)}


class Report:
    """What the end of the session tells of it."""

    def __init__(self, life: Life) -> None:
        self._life = life

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        life = self._life
        beyond = sorted(life.paths | {str(use) for use in life.used - life.granted})
        terminalreporter.write_line(f"The product sent {len(life.asked)} requests under the chart's role.")
        terminalreporter.write_line("Role verbs unused by any test:")
        for line in audit.told(UNUSED, life.granted - life.used):
            terminalreporter.write_line(line)
        terminalreporter.write_line(f"Requests that don't need the role: {', '.join(beyond) or 'none'}")


@pytest.fixture(scope="module")
def hosted(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    if absent := missing(["helm"]):
        pytest.skip(how_to_get(absent))
    directory = tmp_path_factory.mktemp("hosted")
    try:
        with Hosted(directory, plane, lambda values: helm.install(plane.kubeconfig(), values)) as made:
            yield made
    finally:
        helm.uninstall(plane.kubeconfig())


@pytest.fixture(scope="module")
def life(hosted: Hosted, tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Life:
    """All flows, one after the other."""
    flows = Flows(hosted, tmp_path_factory.mktemp("flows") / "room")
    flows.make_a_node_pool()
    flows.make_a_deployment()
    flows.upgrade_it()
    flows.change_a_secret()
    flows.read_logs()
    flows.finish_a_job()
    flows.lose_a_job_with_its_container()
    flows.lose_a_job_with_its_pod()
    flows.run_jobs_that_bring_an_image()
    flows.knock_at_the_api_server()
    flows.repair_the_egress_policy()
    flows.repair_a_deployments_objects()
    flows.bring_the_gpu_add_on()
    flows.delete_everything()
    requests = hosted.plane.requests()
    rules = [rule for path in (ROLE, LEASES) for rule in hosted.plane.call("GET", path)["rules"]]
    granted = audit.granted(rules)
    asked = audit.asked_with(requests, [hosted.token])
    lived = Life(flows, asked, audit.paths_asked_with(requests, [hosted.token]), granted)
    pytestconfig.pluginmanager.register(Report(lived))
    return lived


@pytest.mark.req("AU-015")
def test_the_whole_product_lives_under_the_role_and_is_refused_nothing(life: Life) -> None:
    assert audit.refused(life.asked) == []


def test_a_verb_that_nothing_uses_is_listed_with_its_reason(life: Life) -> None:
    unused = life.granted - life.used
    assert unused - set(UNUSED) == set(), "unused, and not on the list"
    assert set(UNUSED) - unused == set(), "used, or not granted any more: take it from the list"


def test_nothing_is_asked_beyond_the_role(life: Life) -> None:
    assert life.used <= life.granted
    assert life.paths <= EVERYBODYS_PATHS


@pytest.mark.req("AU-020")
def test_every_permission_in_use_is_one_that_connections_are_checked_for(life: Life) -> None:
    assert life.used - EVERYBODYS_USES - RELEASES_OWN <= {_use(permission) for permission in NEEDED}


def test_the_log_shows_what_a_role_lacks(hosted: Hosted) -> None:
    """The judge is judged: with a token of its own, so that it is not held against the product."""
    token = hosted.plane.account_token(helm.NAMESPACE, "anycloud-api")
    with pytest.raises(Refused):
        hosted.plane.call("GET", "/api/v1/namespaces", token=token)
    asked = audit.asked_with(hosted.plane.requests(), [token])
    assert audit.refused(asked) == ["list namespaces in the cluster"]


@pytest.mark.req("AU-016")
def test_the_accounts_token_is_stored_nowhere(life: Life) -> None:
    """Nor a signature of it: it is read from its file, and goes to the API server alone."""
    signature = life.hosted.token.rpartition(".")[2].encode()
    for path in life.hosted.data_files():
        assert signature not in path.read_bytes(), path
    assert signature not in life.hosted.log().encode()


def test_a_users_secret_is_in_no_log(life: Life) -> None:
    assert SECRET_WORD not in life.hosted.log()


def _use(permission: Permission) -> Use:
    resource = "/".join(part for part in (permission.resource, permission.subresource) if part)
    return Use(permission.group, resource, permission.verb)


# A permission that is missing


@pytest.fixture
async def account(hosted: Hosted) -> AsyncIterator[Kube]:
    """A connection as the API's account, with a token of its own, so that it is not held against the product."""
    plane = hosted.plane
    connection = Kube.from_token(plane.endpoint, plane.ca, plane.account_token(helm.NAMESPACE, "anycloud-api"))
    yield connection
    await connection.close()


@contextmanager
def without(plane: ControlPlane, permission: Permission) -> Iterator[None]:
    """The chart's role less one verb on one resource."""
    path = ROLE if permission.namespace is None else LEASES
    rules = plane.call("GET", path)["rules"]
    plane.call("PATCH", path, {"rules": list(_less(rules, _use(permission)))})
    try:
        yield
    finally:
        plane.call("PATCH", path, {"rules": rules})


def _less(rules: list[dict[str, Any]], gone: Use) -> Iterator[dict[str, Any]]:
    for rule in rules:
        if gone.group not in rule["apiGroups"] or gone.resource not in rule["resources"]:
            yield rule
            continue
        others = [resource for resource in rule["resources"] if resource != gone.resource]
        verbs = [verb for verb in rule["verbs"] if verb != gone.verb]
        parts = [{**rule, "resources": others}, {**rule, "resources": [gone.resource], "verbs": verbs}]
        yield from (part for part in parts if part["resources"] and part["verbs"])


@pytest.mark.req("AU-020", "AU-023")
@pytest.mark.parametrize("permission", NEEDED, ids=str)
async def test_each_verb_that_is_taken_from_the_role_is_named(
    hosted: Hosted, account: Kube, permission: Permission
) -> None:
    identity = await cluster_uid(account)

    async def noticed() -> bool:
        report = await check_connection(account, identity, [permission])
        return report.problems == (f"The cluster denies Anycloud: {permission}.",)

    with without(hosted.plane, permission):
        if permission == Permission("get", "namespaces"):  # without it not even the identity can be read
            await until(lambda: denied(account))
        else:
            await until(noticed)


async def denied(account: Kube) -> bool:
    try:
        await cluster_uid(account)
    except KubeError as error:
        return (error.reason, error.verb, error.resource) == ("forbidden", "get", "namespaces")
    return False


@pytest.mark.req("AU-022", "AU-023")
def test_a_missing_permission_refuses_a_node_pool_and_nothing_is_bought(life: Life) -> None:
    hosted, api = life.hosted, life.flows.api
    bought = hosted.bought()
    body = {"name": "denied", "credentialName": "aws", "region": "us-east-1", "vmTypes": ["m5.large"]}
    with without(hosted.plane, Permission("patch", "networkpolicies", "networking.k8s.io")):
        refusal = api.call("POST", "/node-pools", {**body, "minVmCount": 1, "maxVmCount": 1})
        assert refusal.status_code == 400, refusal.text
        assert "The cluster denies Anycloud: patch networkpolicies.networking.k8s.io." in refusal.json()["message"]
    assert hosted.bought() == bought
    assert api.call("GET", "/node-pools/denied").status_code == 404


# Those whom the product lets in


def test_a_containers_token_opens_nothing_at_the_api_server(life: Life) -> None:
    assert set(life.flows.knocks["container"].values()) == {401}


def test_a_containers_account_may_read_nothing_not_even_its_own_namespace(life: Life) -> None:
    """Its container has no such token: the only one that is mounted is for another audience."""
    assert set(life.flows.knocks["account"].values()) == {403}
    spec = life.flows.pod_spec
    sources = [source for volume in spec["volumes"] for source in volume.get("projected", {}).get("sources", [])]
    tokens = [source["serviceAccountToken"] for source in sources if "serviceAccountToken" in source]
    assert spec["automountServiceAccountToken"] is False
    assert [token["audience"] for token in tokens] == [WORKLOAD_TOKEN_AUDIENCE]


def test_a_node_reads_the_secrets_of_its_own_pods_and_has_no_say_beyond_itself(life: Life) -> None:
    own, *others = life.flows.knocks["node"].values()
    assert own == 200
    assert set(others) == {403}
