"""Names that are visible in a cluster."""

from __future__ import annotations

import re

import pytest
from anycloud_common.kube import names
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.req("DP-050", "OPEN-059")
def test_a_pools_namespace_has_its_id_and_a_hash_of_cluster_and_pool() -> None:
    name = names.pool_namespace("cl-abc", "np-123")
    assert re.fullmatch("anycloud-node-pool-np-123-[0-9a-f]{10}", name)
    assert name == names.pool_namespace("cl-abc", "np-123")
    assert name != names.pool_namespace("cl-abd", "np-123")


@pytest.mark.req("OPEN-059")
@given(st.text(min_size=1, max_size=80), st.text(min_size=1, max_size=80))
def test_a_namespace_is_always_a_dns_label(cluster: str, pool: str) -> None:
    name = names.pool_namespace(cluster, pool)
    assert re.fullmatch("[a-z0-9]([-a-z0-9]*[a-z0-9])?", name)
    assert len(name) <= 63


@pytest.mark.req("OPEN-059")
def test_long_ids_that_share_their_beginning_have_different_namespaces() -> None:
    one, two = ("np-" + "a" * 60 + end for end in "bc")
    assert names.pool_namespace("cl", one) != names.pool_namespace("cl", two)


def test_a_services_namespace_is_its_own() -> None:
    assert names.service_namespace("cl", "job-1").startswith("anycloud-service-job-1-")
    assert names.service_namespace("cl", "job-1") != names.service_namespace("cl", "job-2")


def test_node_labels_name_cluster_pool_provider_and_attempt_and_only_nvidia_types_the_accelerator() -> None:
    labels = names.pool_node_labels("cl-1", "np-1", "AWS", "a-7", nvidia=False)
    assert labels == {
        "anycloud.sh/cluster": "cl-1",
        "anycloud.sh/node-pool": "np-1",
        "anycloud.sh/provider": "AWS",
        "anycloud.sh/attempt": "a-7",
    }
    nvidia = names.pool_node_labels("cl-1", "np-1", "AWS", "a-7", nvidia=True)
    assert nvidia == {**labels, "anycloud.sh/accelerator": "nvidia"}


def test_the_taint_names_the_pool() -> None:
    assert names.pool_taint("np-1") == {"key": "anycloud.sh/node-pool", "value": "np-1", "effect": "NoSchedule"}


def test_placement_selects_and_tolerates_exactly_one_pool() -> None:
    placement = names.pool_placement("np-1")
    assert placement["nodeSelector"] == {"anycloud.sh/node-pool": "np-1"}
    required = placement["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert required["nodeSelectorTerms"] == [
        {"matchExpressions": [{"key": "anycloud.sh/node-pool", "operator": "In", "values": ["np-1"]}]}
    ]
    assert placement["tolerations"] == [{**names.pool_taint("np-1"), "operator": "Equal"}]
