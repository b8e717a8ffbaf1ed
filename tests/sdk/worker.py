"""An application container that takes Jobs with the generated Python SDK and completes each at once."""

from __future__ import annotations

import os
import signal
import sys
import time
import uuid
from pathlib import Path

from anycloud_client import (
    ApiException,
    DeploymentJobsApi,
    JobClaim,
    JobCleanup,
    OutcomeReport,
    OutcomeReportOutcome,
)
from anycloud_client.connect import connect


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    url, deployment = os.environ["ANYCLOUD_API_URL"], os.environ["ANYCLOUD_DEPLOYMENT_ID"]
    while True:
        token = Path(os.environ["ANYCLOUD_WORKLOAD_TOKEN_FILE"]).read_text().strip()
        try:
            take(DeploymentJobsApi(connect(url, token)), deployment)
        except ApiException as error:
            print(error.status, error.body, flush=True)
            time.sleep(1)


def take(jobs: DeploymentJobsApi, deployment: str) -> None:
    candidate = jobs.discover_candidate(deployment, wait_ms=5000)
    if candidate is None:
        return
    claim = JobClaim(
        submission_revision=candidate.submission_revision, previous_execution_id=candidate.previous_execution_id
    )
    execution = jobs.claim_job(deployment, candidate.job_id, uuid.uuid4(), claim).execution_id
    report = OutcomeReport(execution_id=execution, outcome=OutcomeReportOutcome.COMPLETED)
    jobs.report_outcome(deployment, candidate.job_id, report)
    jobs.cleanup_job(deployment, candidate.job_id, JobCleanup(execution_id=execution))
    print(f"job={candidate.job_id} completed", flush=True)


if __name__ == "__main__":
    main()
