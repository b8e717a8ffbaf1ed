"""The running product meets another cluster at the address of its own.

The control plane is this module's own, as this takes the cluster away from whoever else uses it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from anycloud_common.kube.names import LABEL_NODE_POOL

from tests.kube import audit, helm
from tests.kube.assets.location import MissingPrograms, how_to_get, missing
from tests.kube.flows import Flows
from tests.kube.hosted import Hosted
from tests.support.control_plane import ControlPlane
from tests.support.installation import until

ANOTHER = {"name": "another", "credentialName": "aws", "region": "us-east-1", "vmTypes": ["m5.large"]}
ANOTHER_POOL = {**ANOTHER, "minVmCount": 1, "maxVmCount": 1}
SECONDS = 60.0


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    if absent := missing(["helm"]):
        pytest.skip(how_to_get(absent))
    try:
        with ControlPlane(tmp_path_factory.mktemp("plane") / "plane") as started:
            yield started
    except MissingPrograms as absent_programs:
        pytest.skip(str(absent_programs))


@pytest.fixture(scope="module")
def hosted(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    with Hosted(tmp_path_factory.mktemp("hosted"), plane, lambda values: install(plane, values)) as made:
        yield made


def install(plane: ControlPlane, values: dict[str, Any]) -> None:
    helm.install(plane.kubeconfig(), values)


@pytest.mark.req("AU-019", "CL-040")
def test_another_cluster_at_the_same_address_is_refused_and_not_touched(
    hosted: Hosted, plane: ControlPlane, tmp_path: Path
) -> None:
    """Same certificates, other objects: a management VM that begins anew. The kubelet there mounts a token that is
    valid, so nothing but the identity speaks against it."""
    flows = Flows(hosted, tmp_path / "room")
    flows.make_a_node_pool()
    flows.make_a_deployment()
    begin_anew(plane)
    install(plane, hosted.values())
    hosted.mount_account()
    bought = hosted.bought()

    def asked() -> list[audit.Asked]:
        return audit.asked_with(plane.requests(), [hosted.token])

    until(lambda: len(asked()) > 5, SECONDS)  # its watches try again and again
    refusal = flows.api.call("POST", "/node-pools", ANOTHER_POOL)
    assert refusal.status_code == 400
    assert "kube-system UID" in refusal.json()["message"]
    assert {(str(one.use), one.name) for one in asked()} == {("get namespaces", "kube-system")}
    assert hosted.bought() == bought
    assert plane.find(f"/api/v1/namespaces/{flows.namespace}") is None
    assert plane.call("GET", f"/api/v1/nodes?labelSelector={LABEL_NODE_POOL}")["items"] == []
    hosted.end()
    with pytest.raises(RuntimeError):
        hosted.start()
    assert "it does not start on another cluster" in hosted.log()
    assert {(str(one.use), one.name) for one in asked()} == {("get namespaces", "kube-system")}


def begin_anew(plane: ControlPlane) -> None:
    plane.stop()
    shutil.rmtree(plane.directory / "etcd")
    plane.start()
