"""Image Jobs against the sandbox's Kubernetes API and node agent: real watches, Pods, logs and deletions."""

from __future__ import annotations

import pytest
from anycloudapi.common.v1 import types_pb2

from tests.support.sandbox import Sandbox
from tests.unit.deployment.fakes import POOL
from tests.unit.deployment.test_on_sandbox import RealRig, real

__all__ = ["real"]


async def reached(rig: RealRig, sandbox: Sandbox, state: str, job_id: str = "job-1") -> None:
    async def there() -> bool:
        return await rig.state(job_id) == state

    await sandbox.until(there)


async def cleaned(rig: RealRig, sandbox: Sandbox, job_id: str = "job-1") -> None:
    async def there() -> bool:
        return (await rig.status(job_id)).workload.HasField("cleaned_at")

    await sandbox.until(there)


async def left(rig: RealRig) -> list[str]:
    """Names of the objects of image Jobs."""
    found = [await rig.kube.list(kind, POOL.namespace, "anycloud.sh/job") for kind in ("Job", "Pod", "Secret")]
    return [obj["metadata"]["name"] for objects, _ in found for obj in objects]


@pytest.mark.req("WK-008", "WK-009", "WK-010", "WK-011", "WK-014")
async def test_a_job_runs_to_completion_its_output_outlives_it_and_it_runs_again(
    real: tuple[RealRig, Sandbox],
) -> None:
    rig, sandbox = real
    sandbox.image("test/batch", ["/bin/sh", "-c", 'echo "ran $A $*"', "sh"])
    run = await rig.submit_image(
        "test/batch", env={"A": "$(HOME)"}, command=types_pb2.StringList(values=["--json", "$(A) it"])
    )
    await reached(rig, sandbox, "completed")
    assert await rig.job_logs("job-1", follow=True) == ["ran $(HOME) --json $(A) it"]
    await cleaned(rig, sandbox)
    assert await left(rig) == []
    await sandbox.until(lambda: not rig.holds.held)
    assert await rig.job_logs("job-1") == ["ran $(HOME) --json $(A) it"]
    await rig.resubmit("job-1")
    assert (await rig.image_job("job-1")).job.run != run
    await reached(rig, sandbox, "completed")
    await cleaned(rig, sandbox)


@pytest.mark.req("WK-008", "WK-013")
async def test_a_program_that_fails_says_how_and_one_that_is_stopped_is_gone(real: tuple[RealRig, Sandbox]) -> None:
    rig, sandbox = real
    sandbox.image("test/fails", ["/bin/sh", "-c", "echo last words; exit 3"])
    await rig.submit_image("test/fails")
    await reached(rig, sandbox, "errored")
    assert (await rig.image_job("job-1")).job.exit_code == 3
    told = (await rig.image_job("job-1")).job.message
    assert told is not None and told.startswith("The container ended with exit code 3 (Error)")
    assert await rig.job_logs("job-1", follow=True) == ["last words"]
    sandbox.image("test/sleeps", ["/bin/sh", "-c", "echo up; exec sleep 1000"])
    await rig.submit_image("test/sleeps", "job-2")
    await reached(rig, sandbox, "running", "job-2")

    async def up() -> bool:
        return await rig.job_logs("job-2") == ["up"]

    await sandbox.until(up)
    await rig.terminate("job-2")
    await cleaned(rig, sandbox, "job-2")
    assert await rig.state("job-2") == "terminated"
    await cleaned(rig, sandbox)
    assert await left(rig) == []
    assert await rig.job_logs("job-2") == ["up"]
