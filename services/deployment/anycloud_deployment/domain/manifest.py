"""The Kubernetes objects of a Deployment: a ServiceAccount, a Secret and an apps/v1 Deployment, each named by its id.

Whatever changes a Pod here, for the same revision, starts one revision of every Deployment when the API is upgraded.
"""

from __future__ import annotations

import base64
import hashlib
import json
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass

from anycloud_common.kube import names

from anycloud_deployment.domain import pods
from anycloud_deployment.domain.environment import ENV_API_URL, ENV_DEPLOYMENT_ID, ENV_TOKEN_FILE
from anycloud_deployment.domain.model import Revision
from anycloud_deployment.domain.pods import Object, Volume

KINDS = ("ServiceAccount", "Secret", "Deployment")  # in the order of their making

_TOKEN_SECONDS = 3600  # the kubelet writes a fresh one at 80% of it


@dataclass(frozen=True)
class Place:
    """Where a Deployment's objects go, and where its workers find the API."""

    deployment_id: str
    namespace: str
    node_pool_id: str
    public_url: str


def owner_labels(deployment_id: str) -> dict[str, str]:
    """What tells our objects of this Deployment from all others."""
    return {names.LABEL_MANAGED_BY: names.MANAGED_BY, names.LABEL_DEPLOYMENT: deployment_id}


def intent(deployment_id: str, kind: str) -> str:
    """The token of the row that an object was made from."""
    return f"{deployment_id}/{kind}"


def service_account(place: Place) -> Object:
    return {
        "metadata": _metadata(place, "ServiceAccount"),
        "automountServiceAccountToken": False,
    }


def secret(place: Place, values: Mapping[str, str]) -> Object:
    """The values of all Secrets that the Deployment names, merged."""
    return {"metadata": _metadata(place, "Secret"), "type": "Opaque", "data": encoded(values)}


def encoded(values: Mapping[str, str]) -> dict[str, str]:
    """As a Kubernetes Secret shows its data."""
    return {name: base64.b64encode(value.encode()).decode() for name, value in values.items()}


def deployment(place: Place, revision: Revision) -> Object:
    """Replacement is without surge: with one replica the old Pod is gone before the new one is made."""
    labels = owner_labels(place.deployment_id)
    spec = revision.spec
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    return {
        "metadata": _metadata(place, "Deployment"),
        "spec": {
            "replicas": spec.replicas,
            "strategy": {"type": "Recreate"} if spec.replicas == 1 else rolling,
            "revisionHistoryLimit": 1,
            "selector": {"matchLabels": {names.LABEL_DEPLOYMENT: place.deployment_id}},
            "template": {
                "metadata": {"labels": {**labels, names.LABEL_REVISION: str(revision.generation)}},
                "spec": _pod(place, revision),
            },
        },
    }


def fingerprint(place: Place, revision: Revision) -> str:
    """What a revision's Pods look like, but for the number of the revision."""
    return hashlib.sha256(json.dumps(_pod(place, revision), sort_keys=True).encode()).hexdigest()[:16]


def _metadata(place: Place, kind: str) -> Object:
    return {
        "name": place.deployment_id,
        "namespace": place.namespace,
        "labels": owner_labels(place.deployment_id),
        "annotations": {names.ANNOTATION_INTENT: intent(place.deployment_id, kind)},
    }


def _pod(place: Place, revision: Revision) -> Object:
    ours = {
        ENV_API_URL: place.public_url,
        ENV_DEPLOYMENT_ID: place.deployment_id,
        ENV_TOKEN_FILE: names.WORKLOAD_TOKEN_PATH,
    }
    pod = pods.pod(
        place.node_pool_id,
        revision.spec,
        revision.resources,
        restart="Always",
        secret=place.deployment_id,
        ours=ours,
        volumes=[_token()],
    )
    return {**pod, "serviceAccountName": place.deployment_id}


def _token() -> Volume:
    """By which a worker shows which Pod it is in."""
    token = {
        "audience": names.WORKLOAD_TOKEN_AUDIENCE,
        "expirationSeconds": _TOKEN_SECONDS,
        "path": posixpath.basename(names.WORKLOAD_TOKEN_PATH),
    }
    return Volume(
        {"name": "token", "projected": {"sources": [{"serviceAccountToken": token}]}},
        {"name": "token", "mountPath": posixpath.dirname(names.WORKLOAD_TOKEN_PATH), "readOnly": True},
    )
