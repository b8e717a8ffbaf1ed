"""Plays helm-controller: the API's own chart becomes what chart.yaml says, every other chart a finished install Job."""

import asyncio
import hashlib
import logging
from pathlib import Path
from string import Template
from urllib.parse import urlsplit

import orjson
import yaml

from anycloud_sandbox.kube.client import KubeClient, path_of
from anycloud_sandbox.kube.objects import PLURALS, KubeError
from anycloud_sandbox.state import Json

log = logging.getLogger(__name__)
API_CHART = "anycloud-api"
NOTHING = {"release": {"api": {"url": ""}}}  # enough values to learn which objects the chart makes
TEMPLATE = Template(Path(__file__).with_name("chart.yaml").read_text())


async def play_charts(client: KubeClient) -> None:
    """For ever; a client of the API like any other, with the admin's token."""
    while True:
        try:
            async for event in client.follow(path_of("helmcharts", "kube-system")):
                await _see(client, event)
        except (KubeError, yaml.YAMLError, KeyError, TypeError, ValueError) as error:
            log.warning("charts are tried again: %r", error)
        await asyncio.sleep(1)


async def _see(client: KubeClient, event: Json) -> None:
    charts = event["items"] if event["type"] == "SYNC" else [event["object"]]
    if event["type"] == "SYNC" and API_CHART not in [chart["metadata"]["name"] for chart in charts]:
        await _remove(client, API_CHART)  # deleted while nobody looked
    for chart in charts:
        digest = hashlib.sha256(orjson.dumps(chart["spec"], option=orjson.OPT_SORT_KEYS)).hexdigest()
        if event["type"] == "DELETED":
            await _remove(client, chart["metadata"]["name"])
        elif chart["status"].get("configHash") != digest:
            await _install(client, chart["metadata"]["name"], chart["spec"], digest)


async def _install(client: KubeClient, name: str, spec: Json, digest: str) -> None:
    for body in api_objects(yaml.safe_load(spec["valuesContent"])) if name == API_CHART else ():
        await client.apply(body, "helm")
    job = {"name": f"helm-install-{name}", "labels": {"helmcharts.helm.cattle.io/chart": name}}
    template = {"spec": {"containers": [{"name": "helm", "image": spec.get("jobImage", "klipper-helm")}]}}
    await client.delete(path_of("jobs", "kube-system", f"helm-install-{name}"))
    await client.call("POST", path_of("jobs", "kube-system"), {"metadata": job, "spec": {"template": template}})
    created = {"type": "JobCreated", "status": "True", "reason": "Job created", "message": "Applied HelmChart"}
    status = {"jobName": job["name"], "conditions": [created], "configHash": digest}
    await client.patch(path_of("helmcharts", "kube-system", name, "status"), {"status": status})


async def _remove(client: KubeClient, name: str) -> None:
    await client.delete(path_of("jobs", "kube-system", f"helm-install-{name}"))
    for body in reversed(api_objects(NOTHING)) if name == API_CHART else ():
        meta = body["metadata"]
        await client.delete(path_of(PLURALS[body["kind"]], meta.get("namespace", ""), meta["name"]))


def api_objects(values: Json) -> list[Json]:
    """The manifests of the API's chart; JSON is YAML, so each value is put in as JSON."""
    release, url = values["release"], urlsplit(values["release"]["api"]["url"])
    texts = {"release": orjson.dumps(release).decode(), "image": values.get("image"), "url": url.geturl()}
    texts |= {"host": url.hostname, "port": url.port or 80, "sandbox": release.get("sandboxUrl") or ""}
    encoded = {name: orjson.dumps(value).decode() for name, value in texts.items()}
    found: list[Json] = yaml.safe_load(TEMPLATE.substitute(encoded, revision=values.get("revision")))
    return found
