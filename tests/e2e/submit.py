"""Submits Jobs under ids that the caller chose, and doesn't give up while the API is away.

`submit.py DEPLOYMENT ID...`, in the published client's environment.
"""

from __future__ import annotations

import sys
import time

from anycloud.exceptions import ApiException  # type: ignore[import-not-found]
from anycloud_workflows import Client, JobSubmissionUncertain

PATIENCE = 60.0


def submit(client: Client, deployment: str, job: str) -> None:
    """Repeats what has no certain answer; that the id is taken then means that an earlier try went through."""
    deadline = time.monotonic() + PATIENCE
    uncertain = False
    while True:
        try:
            client.submit(deployment=deployment, workload_id=job)
            return
        except JobSubmissionUncertain:
            if time.monotonic() > deadline:
                raise
            uncertain = True
        except ApiException as error:
            if not (uncertain and error.status == 409):
                raise
            return
        time.sleep(0.2)


if __name__ == "__main__":
    with Client() as connected:
        for wanted in sys.argv[2:]:
            submit(connected, sys.argv[1], wanted)
