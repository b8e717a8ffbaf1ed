"""The Kubernetes objects of one run of an image Job: a batch/v1 Job, and a Secret where it names any."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from anycloud_common.kube import names

from anycloud_deployment.domain import manifest, pods
from anycloud_deployment.domain.model import Resources, Spec
from anycloud_deployment.domain.pods import Object

KINDS = ("Secret", "Job")  # in the order of their making


@dataclass(frozen=True)
class Place:
    """Where a run's objects go. `run` names them; `job_id` is what its submitter knows it by."""

    run: str
    job_id: str
    namespace: str
    node_pool_id: str


def owner_labels(run: str) -> dict[str, str]:
    """What tells our objects of this run from all others."""
    return {names.LABEL_MANAGED_BY: names.MANAGED_BY, names.LABEL_JOB: run}


def secret(place: Place, values: Mapping[str, str]) -> Object:
    """The values of all Secrets that the Job names, merged."""
    return {"metadata": _metadata(place, "Secret"), "type": "Opaque", "data": manifest.encoded(values)}


def job(place: Place, spec: Spec, resources: Resources) -> Object:
    """One Pod, once: none is made for one that failed, nor beside one that may still run."""
    named = place.run if spec.secrets else None
    pod = pods.pod(place.node_pool_id, spec, resources, restart="Never", secret=named, ours={})
    return {
        "metadata": _metadata(place, "Job"),
        "spec": {
            "completions": 1,
            "parallelism": 1,
            "backoffLimit": 0,
            "podReplacementPolicy": "Failed",
            "template": {"metadata": {"labels": owner_labels(place.run)}, "spec": pod},
        },
    }


def _metadata(place: Place, kind: str) -> Object:
    intent = manifest.intent(place.run, kind)
    return {
        "name": place.run,
        "namespace": place.namespace,
        "labels": owner_labels(place.run),
        "annotations": {names.ANNOTATION_INTENT: intent, names.ANNOTATION_WORKLOAD: place.job_id},
    }
