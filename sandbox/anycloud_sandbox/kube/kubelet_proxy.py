"""`pods/log`: asked of the kubelet of the Pod's Node, as the API server does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aiohttp
from aiohttp import web

from anycloud_sandbox.kube.resources import KubeError, dig
from anycloud_sandbox.state import Json

if TYPE_CHECKING:
    from anycloud_sandbox.kube.cluster import Cluster

PASSED = ("follow", "previous", "tailLines", "limitBytes", "sinceSeconds", "sinceTime", "timestamps")


async def logs(request: web.Request, cluster: Cluster, pod: Json) -> web.StreamResponse:
    meta, containers = pod["metadata"], [item["name"] for item in pod["spec"]["containers"]]
    container = request.query.get("container") or containers[0]
    if container not in containers:
        raise KubeError(400, "BadRequest", f"container {container} is not valid for pod {meta['name']}")
    node = cluster.store.find("nodes", "", pod["spec"].get("nodeName", ""))
    if node is None:
        raise KubeError(400, "BadRequest", f'pod "{meta["name"]}" has no Node that could be asked for its log')
    address = next(item["address"] for item in node["status"]["addresses"] if item["type"] == "InternalIP")
    port = dig(node, "status.daemonEndpoints.kubeletEndpoint.Port")
    url = f"https://{address}:{port}/containerLogs/{meta['namespace']}/{meta['name']}/{container}"
    query = {name: request.query[name] for name in PASSED if name in request.query}
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=5)
    try:
        async with cluster.kubelets.get(url, params=query, timeout=timeout) as answer:
            if answer.status != 200:
                raise KubeError(answer.status, "BadRequest", await answer.text())
            response = web.StreamResponse(headers={"Content-Type": "text/plain"})
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            return response
    except aiohttp.ClientConnectionError as error:
        text = f"Get {url}: the kubelet of {node['metadata']['name']} does not answer"
        raise KubeError(502, "InternalError", text) from error
