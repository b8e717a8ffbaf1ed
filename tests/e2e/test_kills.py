"""`kill -9` of every process of an installation, at moments spread over its whole life: nothing is lost or doubled.

One installation lives through all tests of this file, in their order: it is made under kills, then each part is killed
once while Jobs run, then all is deleted under kills. Moments come from seeds, so that a run can be repeated.
`ANYCLOUD_E2E_ROUNDS=20` kills each part so often, and makes and deletes more clusters.
"""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any

import pytest

from tests.e2e.persistence import VMS, Persistence
from tests.support.installation import ANYCLOUD, SERVICES, Installation, full_disk, kill, until

pytestmark = pytest.mark.timeout(300)

ROUNDS = int(os.environ.get("ANYCLOUD_E2E_ROUNDS", "1"))
WORLD = ["sandbox", "nodeagent"]
INSTALLER = [f"installer/{name}" for name in (*SERVICES, "envoy")]
HOSTED = [f"hosted/{name}" for name in ("supervisor", *SERVICES, "envoy")]
WORKER = ["worker", "shim of worker"]
EVERYTHING = ["supervisor", *WORLD, *INSTALLER, *HOSTED, "shim of hosted/supervisor", *WORKER]

# Their end is the end of the container, and the Job that runs in it is given out again. What a killed supervisor left
# ends orderly at the next start, and an orderly end of the node agent is a power cut.
ENDS_THE_WORKER = {"supervisor", *WORKER}
JOBS = 5


class Killer:
    """Kills by name. Who kills the supervisor starts it again: nobody watches it."""

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self.killed: list[str] = []

    def kill(self, name: str) -> bool:
        """False when there is no such process at the moment."""
        found = self._installation.process(name)
        if found is None:
            return False
        kill(found)
        self.killed.append(name)
        if name == "supervisor":
            self._installation.start()
        return True

    def spread(self, names: Sequence[str], seed: str, seconds: float) -> Callable[[], None]:
        """A function that, called again and again, kills each of `names` once, in shuffled order, one every `seconds`
        or so. Those that aren't there when it is their turn get another one."""
        rng = random.Random(seed)
        waiting = rng.sample(names, len(names))
        due = time.monotonic() + rng.uniform(0, seconds)

        def look() -> None:
            nonlocal due
            if not waiting or time.monotonic() < due:
                return
            name = next((name for name in waiting if self.kill(name)), None)
            if name is not None:
                waiting.remove(name)
                due = time.monotonic() + rng.uniform(0.2, 2) * seconds

        return look


@pytest.fixture(scope="module")
def killer(installation: Installation) -> Killer:
    return Killer(installation)


@pytest.fixture(scope="module")
def flow(installation: Installation) -> Persistence:
    installation.start()
    return Persistence(installation, installation.directory.with_name("ledger"))


@pytest.fixture
def standing(flow: Persistence) -> Persistence:
    """All is made; by the first test, or here for one that runs alone."""
    if not flow.attempted:
        flow.make()
    assert flow.standing, "the flow was not made"
    return flow


@pytest.mark.req("CL-001")
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_the_flow_completes_while_its_processes_are_killed(
    flow: Persistence, killer: Killer, installation: Installation, seed: int
) -> None:
    if seed:
        under_kills(flow, killer, f"unmake {seed}", flow.unmake)
    killer.killed.clear()
    under_kills(flow, killer, f"make {seed}", flow.make)
    assert len(killer.killed) > len(INSTALLER)
    see_that_nothing_is_doubled(installation)


def under_kills(flow: Persistence, killer: Killer, seed: str, work: Callable[[], None]) -> None:
    flow.meanwhile = killer.spread(["supervisor", *WORLD, *INSTALLER, *HOSTED], seed, 1.0)
    try:
        work()
    finally:
        flow.meanwhile = lambda: None


@pytest.mark.req("JB-006", "DP-001")
@pytest.mark.parametrize("seed", range(ROUNDS))
@pytest.mark.parametrize("name", EVERYTHING)
def test_jobs_complete_although_a_process_is_killed(
    standing: Persistence, killer: Killer, installation: Installation, name: str, seed: int
) -> None:
    jobs = [f"job-{name.replace('/', '-').replace(' ', '-')}-{seed}-{number}" for number in range(JOBS)]
    if name in ENDS_THE_WORKER:
        jobs[1] += "-long"
    before = until(lambda: installation.process(name), 30)
    standing.submit(jobs)
    if name in ENDS_THE_WORKER:
        until(lambda: standing.begun(jobs[1]), 30)
    time.sleep(random.Random(f"{name} {seed}").uniform(0, 1.2))
    assert killer.kill(name)
    standing.wait(jobs)
    see_that_jobs_ran_once(standing, jobs, again=jobs[1:2] if name in ENDS_THE_WORKER else [])
    see_that_nothing_is_doubled(installation)
    assert until(lambda: installation.process(name), 60) != before


def see_that_jobs_ran_once(flow: Persistence, jobs: list[str], again: Collection[str] = ()) -> None:
    """No two executions of a Job at once; each ran once to its end, and `again` those whose container was killed."""
    lines = [line for line in flow.lines() if line["job"] in jobs]
    assert not [line for line in lines if line["what"] == "beside another"]
    assert Counter(line["job"] for line in lines if line["what"] == "end") == Counter(jobs)
    assert Counter(line["job"] for line in lines if line["what"] == "begin") == Counter([*jobs, *again])
    assert len({line["execution"] for line in lines}) == len(jobs) + len(again)


def see_that_nothing_is_doubled(installation: Installation) -> None:
    """One management VM and exactly the wanted pool VMs; for none of the clusters another one was ever bought."""
    machines = installation.bought("machines")
    clusters = Counter(machine["tags"]["anycloud_owner_api"] for machine in machines)
    assert set(clusters.values()) == {1 + VMS}
    roles = Counter(machine["tags"]["anycloud_role"] for machine in machines if machine["state"] != "terminated")
    assert roles == {"management": 1, "pool": VMS}
    assert len(installation.bought("networks")) == 2
    assert len(installation.bought("addresses")) == 1


def test_after_a_power_cut_everything_goes_on(
    standing: Persistence, killer: Killer, installation: Installation
) -> None:
    jobs = [f"job-cut-{number}" for number in range(JOBS)]
    jobs[1] += "-long"
    standing.submit(jobs)
    until(lambda: standing.begun(jobs[1]), 30)
    while left := installation.processes():
        for process in left:
            kill(process.identity)
    installation.start()
    standing.wait(jobs)
    see_that_jobs_ran_once(standing, jobs, again=jobs[1:2])
    see_that_nothing_is_doubled(installation)


def test_a_disk_that_is_full_for_a_while_delays_jobs_and_loses_none(
    standing: Persistence, installation: Installation
) -> None:
    jobs = [f"job-disk-{number}" for number in range(JOBS)]
    until(lambda: installation.process("hosted/deployment"), 30)
    standing.submit(jobs)
    service = installation.process("hosted/deployment")
    assert service is not None
    with full_disk(service):
        refused = installation.cli("secrets", "new", "late", "KEY=value", code=1)
    assert len(refused.stderr.splitlines()) == 1
    standing.wait(jobs)
    see_that_jobs_ran_once(standing, jobs)
    assert service.alive
    assert installation.ask("secrets", "list") == []


def test_jobs_sent_during_kills_are_admitted_once(
    standing: Persistence, killer: Killer, installation: Installation
) -> None:
    jobs = [f"job-during-{number}" for number in range(3 * JOBS)]
    for number, name in enumerate(["hosted/envoy", "hosted/deployment", "hosted/cluster"]):
        assert killer.kill(name)
        standing.submit(jobs[number * JOBS : (number + 1) * JOBS])
    standing.wait(jobs)
    see_that_jobs_ran_once(standing, jobs)
    listed = Counter(job["id"] for job in installation.ask("job", "list", "-n", "1000"))
    assert all(listed[job] == 1 for job in jobs)


def test_everything_is_deleted_while_processes_are_killed(
    standing: Persistence, killer: Killer, installation: Installation
) -> None:
    under_kills(standing, killer, "unmake", standing.unmake)
    assert {machine["state"] for machine in installation.bought("machines")} == {"terminated"}
    assert installation.bought("networks") == []
    assert installation.bought("addresses") == []


def test_stop_ends_everything_after_all_that(flow: Persistence, installation: Installation) -> None:
    identities = [process.identity for process in installation.processes()]
    assert identities
    installation.cli("api", "stop")
    assert not any(identity.alive for identity in identities)
    assert installation.processes() == []


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["supervisor"], "The supervisor of the local API ended without a word."),
        (["installer/migrate"], "migrate didn't start: killed by SIGKILL"),
        (["sandbox", "nodeagent", "installer/nodepool", "installer/envoy"], None),
    ],
)
def test_a_process_killed_while_it_starts_is_told_or_started_again(
    flow: Persistence, installation: Installation, names: list[str], said: str | None
) -> None:
    installation.cli("api", "stop")
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    starting = subprocess.Popen([str(ANYCLOUD), "api", "start", "--sandbox"], env=installation.environment, **pipes)
    for name in names:
        kill(until(lambda name=name: installation.process(name), 30, pause=0.01))  # type: ignore[misc]
    _, told = starting.communicate(timeout=60)
    assert starting.returncode == (0 if said is None else 1), told
    assert said is None or said in told.splitlines()[-1]
    installation.start()
