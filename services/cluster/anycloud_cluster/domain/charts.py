"""What is installed on a new cluster: the API's own chart, and Traefik as its ingress. Both are HelmCharts."""

from __future__ import annotations

from typing import Any, Final

import yaml
from anycloud_common.kube import names
from anycloud_common.release_values import ReleaseValues

from anycloud_cluster.domain import pins
from anycloud_cluster.domain.cluster import API_CHART, Cluster
from anycloud_cluster.domain.firewall import CLOUDFLARE

NAMESPACE: Final = names.NAMESPACE_SYSTEM
TRAEFIK: Final = "anycloud-traefik"
CERTIFICATE: Final = "anycloud-origin"
CERTIFICATE_ANNOTATION: Final = "anycloud.sh/certificate"  # token of the certificate in the installer's ledger
_CHART: Final = "oci://ghcr.io/anycloud-sh/charts/anycloud-api"
_API_PORT: Final = 8080
VALUES: Final = "anycloud-api-values"
_VALUES_KEY: Final = "values.yaml"


def owner_labels(cluster: Cluster) -> dict[str, str]:
    return {names.LABEL_MANAGED_BY: names.MANAGED_BY, names.LABEL_CLUSTER: cluster.id}


def api_chart(cluster: Cluster, values: ReleaseValues) -> dict[str, Any]:
    """The API's release. A failed upgrade must never uninstall it, as that would take its data along.

    All values but the credential, which Helm adds from the Secret beside it: a HelmChart can be read by many, and its
    Jobs and events show what it says. A change of that Secret alone is no upgrade: those have a higher revision.
    """
    release = values.to_document()
    del release["checkpoint"]["credential"]
    content = {"image": values.api.image, "revision": values.api.revision, "release": release}
    spec = {
        "chart": f"{_CHART}@{cluster.chart_digest}",
        "version": cluster.chart_version,
        "targetNamespace": names.NAMESPACE_API,
        "createNamespace": True,
        "bootstrap": True,
        "failurePolicy": "abort",
        "backOffLimit": 5,
        "jobImage": cluster.helm_job_image,
        "valuesContent": yaml.safe_dump(content, sort_keys=False),
        "valuesSecrets": [{"name": VALUES, "keys": [_VALUES_KEY], "ignoreUpdates": True}],
    }
    return _chart(cluster, API_CHART, _release_intent(cluster, values), spec)


def api_values_secret(cluster: Cluster, values: ReleaseValues) -> dict[str, Any]:
    """The part of the API's values that is secret. It has to be there before the HelmChart."""
    content = {"release": {"checkpoint": {"credential": values.to_document()["checkpoint"]["credential"]}}}
    return {
        "type": "Opaque",
        "metadata": _metadata(cluster, VALUES, _release_intent(cluster, values)),
        "stringData": {_VALUES_KEY: yaml.safe_dump(content, sort_keys=False)},
    }


def traefik_chart(cluster: Cluster) -> dict[str, Any]:
    """The ingress on the management Node. It serves one host: the cluster's own."""
    spec = {
        "chart": pins.TRAEFIK_CHART,
        "targetNamespace": NAMESPACE,
        "bootstrap": True,
        "failurePolicy": "abort",
        "backOffLimit": 5,
        "jobImage": cluster.helm_job_image,
        "valuesContent": yaml.safe_dump(_traefik_values(cluster), sort_keys=False),
    }
    return _chart(cluster, TRAEFIK, f"{cluster.id}-ingress", spec)


def _traefik_values(cluster: Cluster) -> dict[str, Any]:
    return {
        "image": {"digest": pins.TRAEFIK_DIGEST},
        "versionOverride": pins.TRAEFIK_VERSION,
        "deployment": {"kind": "DaemonSet"},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
        "service": {"enabled": False},
        "ingressClass": {"enabled": False},
        "ports": {"web": _behind_cloudflare(80), "websecure": _behind_cloudflare(443)},
        "providers": {
            "kubernetesCRD": {"enabled": True, "labelSelector": f"{names.LABEL_CLUSTER}={cluster.id}"},
            "kubernetesIngress": {"enabled": False},
        },
        "nodeSelector": {names.LABEL_CLUSTER_MANAGEMENT: "true"},
        "tolerations": [{"key": names.TAINT_MANAGEMENT, "operator": "Exists", "effect": names.NO_SCHEDULE}],
        "global": {"checkNewVersion": False, "sendAnonymousUsage": False},
        "extraObjects": [_default_certificate(cluster), _route(cluster)],
    }


def _behind_cloudflare(port: int) -> dict[str, Any]:
    return {"hostPort": port, "forwardedHeaders": {"trustedIPs": list(CLOUDFLARE)}}


def _default_certificate(cluster: Cluster) -> dict[str, Any]:
    return {
        "apiVersion": "traefik.io/v1alpha1",
        "kind": "TLSStore",
        "metadata": {"name": "default", "namespace": NAMESPACE, "labels": owner_labels(cluster)},
        "spec": {"defaultCertificate": {"secretName": CERTIFICATE}},
    }


def _route(cluster: Cluster) -> dict[str, Any]:
    """Requests for the cluster's host, and no others, reach the API."""
    service = {"name": API_CHART, "port": _API_PORT}
    return {
        "apiVersion": "traefik.io/v1alpha1",
        "kind": "IngressRoute",
        "metadata": {"name": API_CHART, "namespace": names.NAMESPACE_API, "labels": owner_labels(cluster)},
        "spec": {
            "entryPoints": ["web", "websecure"],
            "routes": [{"kind": "Rule", "match": f"Host(`{cluster.domain}`)", "services": [service]}],
        },
    }


def certificate_secret(cluster: Cluster, token: str, certificate: str, key: str) -> dict[str, Any]:
    """The origin's certificate and key. The key is nowhere else."""
    metadata = {
        "name": CERTIFICATE,
        "namespace": NAMESPACE,
        "labels": owner_labels(cluster),
        "annotations": {names.ANNOTATION_INTENT: token, CERTIFICATE_ANNOTATION: token},
    }
    return {
        "type": "kubernetes.io/tls",
        "metadata": metadata,
        "stringData": {"tls.crt": certificate, "tls.key": key},
    }


def _chart(cluster: Cluster, name: str, intent: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": _metadata(cluster, name, intent), "spec": spec}


def _metadata(cluster: Cluster, name: str, intent: str) -> dict[str, Any]:
    return {
        "name": name,
        "namespace": NAMESPACE,
        "labels": owner_labels(cluster),
        "annotations": {names.ANNOTATION_INTENT: intent},
    }


def _release_intent(cluster: Cluster, values: ReleaseValues) -> str:
    return f"{cluster.id}-release-{values.api.revision}"
