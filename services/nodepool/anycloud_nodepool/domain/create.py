"""What a node pool must be to be created."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import anycloud_catalog
from anycloud_common import ids

from anycloud_nodepool.domain.model import ClusterFact, CredentialFact
from anycloud_nodepool.domain.refusal import Refusal, invalid

_BEFORE_RUNNING: Final = ("provisioning", "initializing", "starting")
MAX_VMS: Final = 1000


@dataclass(frozen=True)
class Wanted:
    """A node pool as it was asked for."""

    name: str
    cluster: str | None
    credential_name: str
    region: str | None
    zone: str | None
    vm_types: tuple[str, ...]
    min_vm_count: int
    max_vm_count: int


@dataclass(frozen=True)
class Place:
    """Where its VMs are bought, and which."""

    region: str
    zone: str | None
    vm_type: str
    vm_count: int
    gpus: int


def check_form(wanted: Wanted) -> None:
    """What can be judged without knowing anything else. Raises Refusal."""
    if problem := ids.check_name("Node pool", wanted.name):
        raise invalid(problem)
    if wanted.min_vm_count != wanted.max_vm_count:
        raise invalid(
            f"--min-vms is {wanted.min_vm_count} and --max-vms {wanted.max_vm_count}; "
            "they must be equal in this release."
        )
    if wanted.min_vm_count < 1:
        raise invalid("--min-vms and --max-vms must be at least 1.")
    if wanted.min_vm_count > MAX_VMS:
        raise invalid(f"--min-vms and --max-vms must be at most {MAX_VMS}.")
    if len(wanted.vm_types) != 1:
        raise invalid(f"A node pool has one VM type in this release; {len(wanted.vm_types)} are given.")
    if not wanted.region:
        raise invalid("--region is missing; a node pool's VMs are bought in one region.")


def check_cluster(cluster: ClusterFact | None, asked: str | None) -> ClusterFact:
    """The cluster that takes node pools now. Raises Refusal."""
    if cluster is None:
        if asked:
            raise Refusal("CLUSTER_NOT_FOUND", f"There is no cluster {asked!r}.")
        raise Refusal("NODE_POOLS_UNAVAILABLE", "There is no cluster yet: create one with `anycloud cluster create`.")
    if cluster.state in _BEFORE_RUNNING:
        text = f"Cluster {cluster.name} is {cluster.state}; node pools can be created once it is running."
        raise Refusal("NODE_POOLS_UNAVAILABLE", text)
    if cluster.state != "running":
        raise Refusal("CLUSTER_NOT_ACCEPTING", f"Cluster {cluster.name} is {cluster.state}.")
    if not cluster.accepting:
        raise Refusal("CLUSTER_NOT_ACCEPTING", f"Cluster {cluster.name} is being deleted.")
    return cluster


def check_place(wanted: Wanted, credential: CredentialFact) -> Place:
    """Where the credential's cloud sells what is wanted. Raises Refusal."""
    assert wanted.region is not None
    vm_type = wanted.vm_types[0]
    problem = anycloud_catalog.check_place(credential.provider, wanted.region, wanted.zone, vm_type)
    if problem:
        raise invalid(problem)
    known = anycloud_catalog.vm_type(credential.provider, vm_type)
    gpus = known.gpus if known is not None and known.accelerator == "nvidia" else 0
    return Place(wanted.region, wanted.zone, vm_type, wanted.min_vm_count, gpus)


def check_connection(problems: Sequence[str]) -> None:
    """What the check of the cluster found. Raises Refusal."""
    if problems:
        raise invalid(" ".join(problems))


def unavailable_here(management_api_url: str) -> Refusal:
    """What an installer answers."""
    if management_api_url:
        text = (
            f"Node pools are created through the cluster's own API: run `anycloud api use {management_api_url}` first."
        )
    else:
        text = "Node pools are created through a cluster's own API, and there is no running cluster yet."
    return Refusal("NODE_POOLS_UNAVAILABLE", text)
