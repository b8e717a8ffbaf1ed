"""What each check of the connection asks for, against the role that the chart gives."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from anycloud_common.kube import Permission
from anycloud_nodepool.gateways.kube import NEEDED

RBAC = Path(__file__).parents[3] / "deploy/charts/anycloud-api/templates/rbac.yaml"


def granted() -> set[tuple[str, str, str, str]]:
    """Group, resource, subresource and verb of all that the chart's roles allow."""
    documents = yaml.safe_load_all(RBAC.read_text())
    roles = [document for document in documents if document["kind"] in ("ClusterRole", "Role")]
    return {
        (group, *resource.partition("/")[::2], verb)
        for role in roles
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def flat(permission: Permission) -> tuple[str, str, str, str]:
    return permission.group, permission.resource, permission.subresource, permission.verb


@pytest.mark.req("AU-015", "AU-020")
def test_the_charts_role_has_all_that_a_check_asks_for() -> None:
    assert {flat(permission) for permission in NEEDED} <= granted()


@pytest.mark.req("AU-020")
@pytest.mark.parametrize(
    "used",
    [
        ("", "nodes", "", "patch"),
        ("", "nodes", "", "delete"),
        ("", "secrets", "", "create"),
        ("", "secrets", "", "delete"),
        ("", "namespaces", "", "create"),
        ("networking.k8s.io", "networkpolicies", "", "watch"),
        ("node.k8s.io", "runtimeclasses", "", "create"),
        ("apps", "daemonsets", "", "create"),
        ("authentication.k8s.io", "tokenreviews", "", "create"),
    ],
)
def test_a_check_asks_for_what_node_pools_do(used: tuple[str, str, str, str]) -> None:
    assert used in {flat(permission) for permission in NEEDED}


def test_what_a_check_asks_for_is_named_once() -> None:
    assert len(set(NEEDED)) == len(NEEDED)
