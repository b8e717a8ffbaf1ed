"""An application container that takes its Jobs with the published client and keeps a ledger of what really ran.

`worker.py LEDGER` runs inside a Deployment; each Job is a process of its own, `worker.py run LEDGER JOB EXECUTION`.
That process holds a lock named after its Job for as long as it lives, so a second one beside it would be seen. A line
is `{"what": "begin" | "end" | "beside another", "job", "execution", "pid"}`. The published client's environment runs
this, so nothing of ours is imported.

A Job whose id ends in `-long` takes long when it is executed for the first time: whoever ends its container hits it.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import FrameType

SECONDS, LONG_SECONDS = 0.3, 20.0

stopping = threading.Event()


def stop(signum: int, frame: FrameType | None) -> None:
    """The container is to end: take no further Job, finish the one at hand."""
    stopping.set()


def take_jobs(ledger: str) -> None:
    from anycloud_workflows import current_deployment

    signal.signal(signal.SIGTERM, stop)
    with current_deployment() as deployment:
        while not stopping.is_set():
            job = deployment.next_job(timeout=2)
            if job is None:
                continue
            words = [sys.executable, __file__, "run", ledger, job.id, str(job.selected.execution_id)]
            code = subprocess.run(words, check=False).returncode
            if code == 0:
                job.complete()
            else:
                job.error(f"ended with {code}")
            job.cleanup()


def run(ledger: Path, job: str, execution: str) -> int:
    mark = ledger / f"{job}.lock"
    seconds = LONG_SECONDS if job.endswith("-long") and not mark.exists() else SECONDS
    lock = os.open(mark, os.O_RDWR | os.O_CREAT)
    alone = True
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        alone = False
    note(ledger, "begin" if alone else "beside another", job, execution)
    time.sleep(seconds)
    note(ledger, "end", job, execution)
    return 0


def note(ledger: Path, what: str, job: str, execution: str) -> None:
    line = json.dumps({"what": what, "job": job, "execution": execution, "pid": os.getpid()}) + "\n"
    descriptor = os.open(ledger / "lines", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, line.encode())  # one write, so that lines of several processes never mix
    os.close(descriptor)


if __name__ == "__main__":
    if sys.argv[1] == "run":
        sys.exit(run(Path(sys.argv[2]), sys.argv[3], sys.argv[4]))
    take_jobs(sys.argv[1])
