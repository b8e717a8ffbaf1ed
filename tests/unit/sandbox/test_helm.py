"""HelmCharts: the API's own becomes one Pod, every other one a status."""

from __future__ import annotations

from typing import Any

import yaml
from kubernetes.aio import client

from tests.support.sandbox import Sandbox

CHART = ("helm.cattle.io", "v1", "kube-system", "helmcharts")
SERVER = "import http.server as h, os, sys; print(open(os.environ['ANYCLOUD_RELEASE_VALUES']).read(), flush=True); \
open(os.environ['ANYCLOUD_DATA_DIR'] + '/seen', 'a').write('x'); \
u = os.environ['ANYCLOUD_PUBLIC_URL'].rsplit(':', 1); os.mkdir('healthz') if not os.path.isdir('healthz') else 0; \
h.HTTPServer((u[0][7:], int(u[1])), h.SimpleHTTPRequestHandler).serve_forever()"


def chart(image: str, revision: int, url: str) -> dict[str, Any]:
    values = {"image": image, "revision": revision, "release": {"api": {"url": url}, "sandboxUrl": None, "owner": {}}}
    return {
        "apiVersion": "helm.cattle.io/v1",
        "kind": "HelmChart",
        "metadata": {"name": "anycloud-api", "namespace": "kube-system"},
        "spec": {
            "valuesContent": yaml.safe_dump(values),
            "valuesSecrets": [{"name": "values", "keys": ["more.yaml"], "ignoreUpdates": True}],
        },
    }


def values_secret() -> dict[str, Any]:
    """What the chart's own values don't show."""
    more = {"release": {"owner": {"username": "from-the-secret"}}}
    return {"metadata": {"name": "values"}, "stringData": {"more.yaml": yaml.safe_dump(more)}}


async def test_the_apis_chart_becomes_a_pod_that_follows_its_values(kube: Any, sandbox: Sandbox) -> None:
    core: Any = client.CoreV1Api(kube)
    charts: Any = client.CustomObjectsApi(kube)
    sandbox.image("test/api:1", ["python3", "-c", SERVER])
    record = {"address": "127.1.1.1", "proxied": True}
    headers = {"Authorization": "Bearer ghs_sandbox_helm"}
    url = sandbox.call("PUT", "/dns/records/helm", record, headers)["record"]["url"]
    await core.create_namespaced_secret("kube-system", values_secret())
    await charts.create_namespaced_custom_object(*CHART, chart("test/api:1", 1, url))

    async def serving(revision: str) -> Any:
        found = await core.list_pod_for_all_namespaces(label_selector=f"anycloud.sh/revision={revision}")
        pods = [
            item for item in found.items if item.status.container_statuses and item.status.container_statuses[0].ready
        ]
        return pods[0] if pods else None

    pod = await sandbox.until(lambda: serving("1"))
    assert (pod.metadata.namespace, pod.spec.node_name) == ("anycloud", "mgmt")
    log = await core.read_namespaced_pod_log(pod.metadata.name, "anycloud")
    assert url in log
    assert "from-the-secret" in log
    change = {"spec": chart("test/api:1", 2, url)["spec"]}
    await charts.patch_namespaced_custom_object(
        *CHART, "anycloud-api", change, _content_type="application/merge-patch+json"
    )
    await sandbox.until(lambda: serving("2"))
    (state,) = sandbox.state.glob("machines/*/volumes/anycloud_*/seen")
    assert state.read_text() == "xx", "the volume outlives its Pods"
    found = await charts.get_namespaced_custom_object(*CHART, "anycloud-api")
    assert found["status"]["jobName"] == "helm-install-anycloud-api"
    await charts.delete_namespaced_custom_object(*CHART, "anycloud-api")

    async def gone() -> bool:
        return not (await core.list_namespace(field_selector="metadata.name=anycloud")).items

    await sandbox.until(gone)


async def test_another_chart_gets_a_finished_install_job(kube: Any, sandbox: Sandbox) -> None:
    charts: Any = client.CustomObjectsApi(kube)
    jobs: Any = client.BatchV1Api(kube)
    body = {
        "apiVersion": "helm.cattle.io/v1",
        "kind": "HelmChart",
        "metadata": {"name": "traefik"},
        "spec": {"chart": "t"},
    }
    await charts.create_namespaced_custom_object(*CHART, body)

    async def done() -> Any:
        found = await charts.get_namespaced_custom_object(*CHART, "traefik")
        return (found.get("status") or {}).get("jobName")

    name = await sandbox.until(done)

    async def complete() -> bool:
        job = await jobs.read_namespaced_job(name, "kube-system")
        return bool(job.status.succeeded == 1 and job.status.conditions[0].type == "Complete")

    await sandbox.until(complete)
    await charts.delete_namespaced_custom_object(*CHART, "traefik")
