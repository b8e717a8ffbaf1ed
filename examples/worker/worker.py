"""The demo's application container: takes Jobs with the published client and runs each as a process of its own.

Runs inside a Deployment. It uses what `anycloud-sdk` offers to a container: `next_job`, `complete`, `error`,
`cancellation_requested`, `cleanup`. Everything that it prints is read with `anycloud logs`.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from types import FrameType

from anycloud_workflows import CurrentJob, current_deployment

WORK = "import hashlib; print(hashlib.pbkdf2_hmac('sha256', b'job', b'salt', 200_000).hex()[:16])"

stopping = threading.Event()


def stop(signum: int, frame: FrameType | None) -> None:
    """The container is to end: take no further Job, finish the one at hand."""
    stopping.set()


def execute(job: CurrentJob) -> None:
    """Runs one Job's process to its end, or ends it when somebody asks to; reports what became of it."""
    execution = job.selected.execution_id
    process = subprocess.Popen([sys.executable, "-c", WORK], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    say(job, f"pid={process.pid} started")
    while True:
        try:
            output, errors = process.communicate(timeout=1)
            break
        except subprocess.TimeoutExpired:
            if job.cancellation_requested():
                process.terminate()
                process.wait()
                say(job, f"pid={process.pid} ended on request")
                job.cleanup()
                return
    if process.returncode == 0:
        job.complete()
        say(job, f"pid={process.pid} result={output.strip()} completed")
    else:
        job.error(f"execution {execution} ended with {process.returncode}: {errors.strip()[-500:] or 'no output'}")
        say(job, f"pid={process.pid} exit={process.returncode} failed")
    job.cleanup()


def say(job: CurrentJob, what: str) -> None:
    print(f"job={job.id} execution={job.selected.execution_id} {what}", flush=True)


def main() -> None:
    signal.signal(signal.SIGTERM, stop)
    with current_deployment() as deployment:
        print("worker is ready", flush=True)
        while not stopping.is_set():
            job = deployment.next_job(timeout=5)
            if job is not None:
                execute(job)
    print("worker has stopped", flush=True)


if __name__ == "__main__":
    main()
