"""Makes one call with the SDK and prints what it saw as JSON: `probe.py NAME URL TOKEN [ARGUMENT]`."""

from __future__ import annotations

import json
import re
import sys
from typing import Any
from urllib.parse import unquote

from anycloud_client import (
    ApiException,
    CredentialsApi,
    DeploymentsApi,
    DeploymentUpdate,
    DockerOptionsUpdate,
    NodePoolsApi,
    StringOrList,
    SubmitWorkloadRequest,
    SubmitWorkloadRequestCloudConfig,
    SubmitWorkloadRequestDeploymentTarget,
    SubmitWorkloadRequestImageTarget,
    WorkloadsApi,
)
from anycloud_client.connect import connect


def main(name: str, url: str, token: str, argument: str = "") -> Any:
    client = connect(url, token)
    deployments, workloads = DeploymentsApi(client), WorkloadsApi(client)
    if name == "deployment":
        found = deployments.get_deployment(argument).deployment
        state = found.status.state if found.status else None
        return {"name": found.name, "image": found.image, "command": found.command, "state": state}
    if name == "credential":
        credential = CredentialsApi(client).get_credential(argument).actual_instance
        return {"kind": type(credential).__name__, "cloudProvider": credential.cloud_provider}
    if name == "update":
        options = DockerOptionsUpdate(shm_size=None)
        return done(deployments.update_deployment(argument, DeploymentUpdate(command=None, docker_options=options)))
    if name == "submit-deployment":
        target = SubmitWorkloadRequestDeploymentTarget(deployment=argument)
        admitted = workloads.submit_workload(SubmitWorkloadRequest(target))
        return {"id": admitted.id, "claimDeadlineAt": admitted.claim_deadline_at}
    if name == "submit-image":
        placed = SubmitWorkloadRequestCloudConfig()
        kinds = StringOrList(["t4", "l4"])
        image = SubmitWorkloadRequestImageTarget(image=argument, node_pool="pool", cloud_config=placed, gpu_type=kinds)
        return {"id": workloads.submit_workload(SubmitWorkloadRequest(image)).id}
    if name == "ingress":
        release = NodePoolsApi(client).get_node_pool(argument).node_pool.ingress.release
        helm_job = release.helm_job if release else None
        return helm_job.phase if helm_job else None
    if name == "workloads":
        return [w.vm_type.actual_instance if w.vm_type else None for w in workloads.list_workloads()]
    if name == "logs":
        return bytes(deployments.stream_logs(argument)).decode()
    if name == "pages":
        first = deployments.list_deployments_with_http_info(limit=1)
        cursor = re.search(r"cursor=([^&>]+)", first.headers["link"])
        assert cursor
        second = deployments.list_deployments(limit=1, cursor=unquote(cursor[1]))
        names = [d.name for d in [*first.data.deployments, *second.deployments]]
        return {"names": names, "total": int(first.headers["anycloud-total-count"])}
    raise SystemExit(f"no such probe: {name}")


def done(_: object) -> str:
    return "done"


def told(error: ApiException) -> dict[str, Any]:
    """`code` is null where the answer wasn't the API's."""
    if error.data is None:
        return {"status": error.status, "code": None}
    found = error.data
    return {"status": error.status, "code": found.code, "defined": found.defined, "data": found.data}


if __name__ == "__main__":
    try:
        seen = main(*sys.argv[1:])
    except ApiException as failure:
        seen = {"error": told(failure)}
    print(json.dumps(seen))
