"""Submits a Job to a Deployment and waits until it has ended.

    ANYCLOUD_API_URL=… ANYCLOUD_API_TOKEN=… python submit.py DEPLOYMENT [--url URL] [--token TOKEN]

DEPLOYMENT is a name or an id. Ends with 0 when the Job completed, with 1 when it ended otherwise or was refused.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

from anycloud_client import ApiException, SubmitWorkloadRequest, SubmitWorkloadRequestDeploymentTarget, WorkloadsApi
from anycloud_client.connect import connect

ENDED = {"completed", "failed", "errored", "invalid", "terminated"}


def main() -> int:
    parser = argparse.ArgumentParser(description="Submits a Job to a Deployment and waits until it has ended.")
    parser.add_argument("deployment")
    parser.add_argument("--url", default=os.environ.get("ANYCLOUD_API_URL"))
    parser.add_argument("--token", default=os.environ.get("ANYCLOUD_API_TOKEN"))
    options = parser.parse_args()
    if not options.url or not options.token:
        parser.error("where is the API? Set ANYCLOUD_API_URL and ANYCLOUD_API_TOKEN, or give --url and --token")
    try:
        return submit(WorkloadsApi(connect(options.url, options.token)), options.deployment)
    except ApiException as error:
        told = f"{error.data.code}: {error.data.message}" if error.data else f"HTTP {error.status}: {error.body}"
        print(told, file=sys.stderr)
        return 1


def submit(workloads: WorkloadsApi, deployment: str) -> int:
    target = SubmitWorkloadRequestDeploymentTarget(deployment=deployment)
    job = workloads.submit_workload(SubmitWorkloadRequest(target)).id
    print(f"{job} submitted")
    state = ""
    while state not in ENDED:
        time.sleep(0.5)
        before, state = state, workloads.get_workload_status(job).workload.state
        if state != before:
            print(f"{job} {state}")
    return 0 if state == "completed" else 1


if __name__ == "__main__":
    sys.exit(main())
