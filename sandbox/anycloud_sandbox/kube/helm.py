"""Plays helm-controller: the API's own chart becomes one Pod's Deployment, every other chart a status."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import orjson
import yaml

from anycloud_sandbox.kube.client import MERGE, KubeClient, path_of
from anycloud_sandbox.kube.resources import KubeError
from anycloud_sandbox.state import Json

if TYPE_CHECKING:
    from anycloud_sandbox.kube.cluster import Cluster

log = logging.getLogger(__name__)
API_CHART = ("kube-system", "anycloud-api")
NAMESPACE, NAME = "anycloud", "anycloud-api"
FINALIZER = "wrangler.cattle.io/on-helm-chart-remove"
HASH = "helmcharts.helm.cattle.io/configHash"
MANAGEMENT = "anycloud.sh/cluster-management"


class HelmPlayer:
    """A client of the API like any other, with the admin's token."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._client: KubeClient

    async def run(self) -> None:
        headers = {"Authorization": f"Bearer {self._cluster.admin_token}"}
        self._client = KubeClient(self._cluster.endpoint, self._cluster.client_tls(), headers)
        try:
            while True:
                await self._follow()
                await asyncio.sleep(1)
        finally:
            await self._client.close()

    async def _follow(self) -> None:
        try:
            async for event in self._client.follow(path_of("helmcharts")):
                charts = event["items"] if event["type"] == "SYNC" else [event["object"]]
                for chart in charts if event["type"] != "DELETED" else ():
                    await self._play(chart)
        except (KubeError, yaml.YAMLError, KeyError, TypeError, ValueError) as error:
            log.warning("charts are tried again: %r", error)

    async def _play(self, chart: Json) -> None:
        meta = chart["metadata"]
        ours = (meta["namespace"], meta["name"]) == API_CHART
        if "deletionTimestamp" in meta:
            if FINALIZER in meta.get("finalizers", []):
                await self._remove(chart, ours)
            return
        digest = hashlib.sha256(orjson.dumps(chart["spec"], option=orjson.OPT_SORT_KEYS)).hexdigest()
        if (chart.get("status") or {}).get("configHash") == digest:
            return
        if FINALIZER not in meta.get("finalizers", []):
            await self._patch(chart, {"metadata": {"finalizers": [FINALIZER]}})
        if ours:
            values = yaml.safe_load(chart["spec"]["valuesContent"])
            for plural, namespace, body in api_objects(values):
                await self._client.apply(plural, namespace, body, "helm")
        await self._record(chart, digest)

    async def _record(self, chart: Json, digest: str) -> None:
        """The install Job, the Helm release Secret and the chart's status, as the real ones leave them."""
        name, namespace = chart["metadata"]["name"], chart["metadata"]["namespace"]
        job = f"helm-install-{name}"
        labels = {"helmcharts.helm.cattle.io/chart": name}
        pod = {"containers": [{"name": "helm", "image": chart["spec"].get("jobImage", "klipper-helm")}]}
        await self._client.delete("jobs", namespace, job)
        template = {"metadata": {"annotations": {HASH: f"SHA256={digest.upper()}"}}, "spec": pod}
        await self._client.apply(
            "jobs", namespace, {"metadata": {"name": job, "labels": labels}, "spec": {"template": template}}, "helm"
        )
        version = (chart.get("status") or {}).get("version", 0) + 1
        target = NAMESPACE if (namespace, name) == API_CHART else chart["spec"].get("targetNamespace", namespace)
        about: Json = {"name": f"sh.helm.release.v1.{name}.v{version}"}
        about["labels"] = {
            "owner": "helm",
            "name": name,
            "version": str(version),
            "status": "deployed",
            HASH: digest[:63],
        }
        if await self._client.find(path_of("namespaces", name=target)):
            await self._client.apply("secrets", target, {"metadata": about, "type": "helm.sh/release.v1"}, "helm")
        condition = {"type": "JobCreated", "status": "True", "reason": "Job created", "message": "Applied HelmChart"}
        status = {"jobName": job, "conditions": [condition], "configHash": digest, "version": version}
        await self._patch(chart, {"status": status}, "status")

    async def _remove(self, chart: Json, ours: bool) -> None:
        if ours:
            for plural, namespace, body in reversed(api_objects(None)):
                await self._client.delete(plural, namespace, body["metadata"]["name"])
        await self._client.delete("jobs", chart["metadata"]["namespace"], f"helm-install-{chart['metadata']['name']}")
        await self._patch(chart, {"metadata": {"finalizers": None}})

    async def _patch(self, chart: Json, body: Json, sub: str = "") -> None:
        meta = chart["metadata"]
        await self._client.call("PATCH", path_of("helmcharts", meta["namespace"], meta["name"], sub), body, MERGE)


def api_objects(values: Json | None) -> list[tuple[str, str, Json]]:
    """What the API's chart is made of, in the order of its making; without values only the names."""
    named: Json = {"metadata": {"name": NAME}}
    secret, deployment = {"metadata": {"name": f"{NAME}-release"}}, named
    if values:
        secret = {**secret, "stringData": {"values.json": orjson.dumps(values["release"]).decode()}}
        deployment = {**named, "spec": _deployment_spec(values)}
    return [
        ("namespaces", "", {"metadata": {"name": NAMESPACE}}),
        ("serviceaccounts", NAMESPACE, named),
        ("clusterrolebindings", "", {**named, "roleRef": {"kind": "ClusterRole", "name": "cluster-admin"}}),
        ("secrets", NAMESPACE, secret),
        ("persistentvolumeclaims", NAMESPACE, {"metadata": {"name": f"{NAME}-state"}, "spec": {}}),
        ("deployments", NAMESPACE, deployment),
    ]


def _deployment_spec(values: Json) -> Json:
    labels = {"app.kubernetes.io/name": NAME}
    url = urlsplit(values["release"]["api"]["url"])
    pod = {
        "serviceAccountName": NAME,
        "nodeSelector": {MANAGEMENT: "true"},
        "tolerations": [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"}],
        "volumes": [
            {"name": "release", "secret": {"secretName": f"{NAME}-release"}},
            {"name": "state", "persistentVolumeClaim": {"claimName": f"{NAME}-state"}},
        ],
        "containers": [_container(values, url.hostname or "", url.port or 80)],
    }
    revision = {"anycloud.sh/revision": str(values["revision"])}
    return {
        "replicas": 1,
        "strategy": {"type": "Recreate"},
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": {**labels, **revision}}, "spec": pod},
    }


def _container(values: Json, host: str, port: int) -> Json:
    env = {
        "ANYCLOUD_MODE": "hosted",
        "ANYCLOUD_DATA_DIR": "/var/lib/anycloud",
        "ANYCLOUD_RELEASE_VALUES": "/etc/anycloud/values.json",
        "ANYCLOUD_SERVICEACCOUNT_DIR": "/var/run/secrets/kubernetes.io/serviceaccount",
        "ANYCLOUD_PUBLIC_URL": values["release"]["api"]["url"],
    }
    if values["release"].get("sandboxUrl"):
        env["ANYCLOUD_SANDBOX_URL"] = values["release"]["sandboxUrl"]
    probe = {"httpGet": {"path": "/healthz", "port": port, "host": host}, "periodSeconds": 1, "timeoutSeconds": 3}
    return {
        "name": "api",
        "image": values["image"],
        "env": [{"name": name, "value": value} for name, value in env.items()],
        "readinessProbe": probe,
        "volumeMounts": [
            {"name": "release", "mountPath": "/etc/anycloud", "readOnly": True},
            {"name": "state", "mountPath": "/var/lib/anycloud"},
        ],
    }
