"""Jobs in the database against a model: any order of submissions, claims, reports, cleanups, losses and deletions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import pytest
from anycloud_common.store import Tx
from anycloud_deployment.domain.jobs import TERMINAL, Candidate, Worker
from anycloud_deployment.domain.model import Deployment
from anycloud_deployment.domain.refusal import Refusal
from anycloud_deployment.store import deployments, job_reads, queue
from anycloud_deployment.store.events import Actor
from anycloud_deployment.store.job_reads import Submission
from anycloud_deployment.store.jobs import Claim, Held, Jobs
from anycloud_deployment.store.tables import history, jobs, metadata
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from sqlalchemy import Connection, create_engine, func, select

from tests.unit.deployment.rig import execution

SLOTS = 1
PODS = ("pod-a", "pod-b")
IDS = tuple(f"job-{number}" for number in range(4))
OUTCOMES = ("completed", "errored", "invalid", "retryable")
ALICE = Actor("alice")


class Silent:
    """Wakes nobody."""

    def __getattr__(self, name: str) -> Any:
        return lambda *args: None


class Transaction:
    """As much of a Tx as transitions use."""

    def __init__(self, conn: Connection, now: int) -> None:
        self.conn = conn
        self.now = now

    def after_commit(self, wake_up: Any) -> None: ...

    def change(self, kind: str, id: str, version: int = 0) -> None: ...


@dataclass
class Model:
    """What is expected of one Job."""

    state: str = "queued"
    revision: int = 0
    key: str | None = None
    pod: str | None = None
    outcome: str | None = None
    previous: str | None = None
    cancelled: bool = False
    claimed: bool = False
    deadline: int | None = None
    not_before: int = 0

    @property
    def waiting(self) -> bool:
        return self.state in ("queued", "retrying") and self.key is None

    def release(self) -> None:
        self.previous, self.key, self.pod, self.outcome = self.key or self.previous, None, None, None


class JobMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.engine = create_engine("sqlite://")
        metadata.create_all(self.engine)
        self.conn = self.engine.connect()
        self.jobs = Jobs(cast(Any, Silent()))
        self.now = 1_000_000
        self.generation = 1
        self.accepting = True
        self.model: dict[str, Model] = {}
        self.pod_generation = dict.fromkeys(PODS, 1)
        self.keys = 0
        self.burnt: list[tuple[str, str, str]] = []  # executions that are over: job, key, pod
        self.ended: dict[tuple[str, int], str] = {}  # terminal states by Job and submission

    @initialize()
    def a_deployment(self) -> None:
        new = Deployment("dep-1", "voice", "np-1", "pool", "alice", 0, 0, 1, slots=SLOTS)
        deployments.add(self.tx, new)

    @property
    def tx(self) -> Tx:
        return cast(Tx, Transaction(self.conn, self.now))

    def teardown(self) -> None:
        self.conn.close()
        self.engine.dispose()

    def deployment(self) -> Deployment:
        found = deployments.get(self.conn, "dep-1")
        assert found is not None
        return found

    def new_key(self) -> str:
        self.keys += 1
        return execution(self.keys)

    def worker(self, pod: str) -> Worker:
        return Worker(pod, pod, self.pod_generation[pod], "node", "node-uid", "attempt", 0)

    def held(self, pod: str) -> int:
        return sum(job.pod == pod for job in self.model.values())

    def end(self, job_id: str, state: str) -> None:
        job = self.model[job_id]
        assert job.state not in TERMINAL
        job.state = state
        self.ended[job_id, job.revision] = state

    def burn(self, job_id: str) -> None:
        job = self.model[job_id]
        if job.key is not None and job.pod is not None:
            self.burnt.append((job_id, job.key, job.pod))
        job.release()

    @rule(job_id=st.sampled_from(IDS), timeout=st.sampled_from([None, 1.0, 60.0]))
    def submit(self, job_id: str, timeout: float | None) -> None:
        known = self.model.get(job_id)
        try:
            [job] = self.jobs.submit(self.tx, self.deployment(), [Submission(job_id, timeout)], ALICE)
        except Refusal as refusal:
            if known is not None:
                assert refusal.code == "WORKLOAD_ID_CONFLICT"
            else:
                assert not self.accepting
            return
        assert job.submission_revision == 0
        if known is None:
            assert self.accepting
            deadline = None if timeout is None else self.now + int(timeout * 1000)
            self.model[job_id] = Model(deadline=deadline)
        else:
            assert known.revision == 0

    @rule(pod=st.sampled_from(PODS), number=st.integers(0, 3))
    def claim_as_offered(self, pod: str, number: int) -> None:
        waiting = queue.read(self.conn, "dep-1", 10, self.now).waiting
        if number < len(waiting):
            self.claim(waiting[number].job_id, pod, self.new_key(), exact=True)

    @precondition(lambda self: self.model)
    @rule(data=st.data(), pod=st.sampled_from(PODS), fresh=st.booleans(), exact=st.booleans())
    def claim_anyhow(self, data: st.DataObject, pod: str, fresh: bool, exact: bool) -> None:
        key = self.new_key() if fresh or not self.keys else execution(data.draw(st.integers(1, self.keys)))
        self.claim(data.draw(st.sampled_from(sorted(self.model))), pod, key, exact=exact)

    def claim(self, job_id: str, pod: str, key: str, *, exact: bool) -> None:
        job = self.model[job_id]
        candidate = Candidate(job_id, job.revision if exact else job.revision + 1, job.previous)
        replay = job.key == key and job.pod == pod and exact and job.outcome is None
        used = key in {burnt for _, burnt, _ in self.burnt} | {one.key for one in self.model.values()}
        overdue = job.waiting and not job.claimed and job.deadline is not None and job.deadline <= self.now
        possible = (
            not used
            and exact
            and job.waiting
            and not overdue
            and job.not_before <= self.now
            and self.accepting
            and self.pod_generation[pod] == self.generation
            and self.held(pod) < SLOTS
        )
        try:
            refusal = self.jobs.claim(self.tx, Claim("dep-1", candidate, key, pod), self.worker(pod))
        except Refusal as raised:
            refusal = raised
        assert (refusal is None) == (possible or replay), refusal and refusal.message
        if possible:
            job.state, job.key, job.pod, job.claimed = "running", key, pod, True
        elif refusal is not None and used:
            assert refusal.code == "WORKLOAD_EXECUTION_USED"
        elif refusal is not None:
            assert refusal.code == "WORKLOAD_CANDIDATE_STALE"
            if overdue:
                self.end(job_id, "terminated")

    @precondition(lambda self: any(job.key for job in self.model.values()))
    @rule(data=st.data(), outcome=st.sampled_from(OUTCOMES), own_pod=st.booleans())
    def report(self, data: st.DataObject, outcome: Any, own_pod: bool) -> None:
        job_id = data.draw(st.sampled_from(sorted(key for key, job in self.model.items() if job.key)))
        job = self.model[job_id]
        assert job.key is not None
        assert job.pod is not None
        pod = job.pod if own_pod else next(one for one in PODS if one != job.pod)
        message = None if outcome == "completed" else "why"
        try:
            self.jobs.report(self.tx, Held("dep-1", job_id, job.key, pod), outcome, message)
        except Refusal as refusal:
            if not own_pod:
                assert refusal.code == "WORKLOAD_FORBIDDEN"
            else:
                assert refusal.code == "WORKLOAD_CONFLICT"
                assert job.outcome not in (None, outcome)
            return
        assert own_pod
        if job.outcome is not None:
            assert job.outcome == outcome
            return
        job.outcome = outcome
        if outcome != "retryable":
            self.end(job_id, outcome)
        else:
            self.retry_or_end(job_id)

    def retry_or_end(self, job_id: str) -> None:
        job = self.model[job_id]
        if job.cancelled or not self.accepting:
            self.end(job_id, "terminated")
        else:
            row = self.conn.execute(select(jobs).where(jobs.c.id == job_id)).one()
            job.state, job.not_before = "retrying", row.not_before
            assert self.now < row.not_before <= self.now + 60_000

    @precondition(lambda self: any(job.key for job in self.model.values()))
    @rule(data=st.data())
    def clean_up(self, data: st.DataObject) -> None:
        job_id = data.draw(st.sampled_from(sorted(key for key, job in self.model.items() if job.key)))
        job = self.model[job_id]
        assert job.key is not None
        assert job.pod is not None
        try:
            self.jobs.clean_up(self.tx, Held("dep-1", job_id, job.key, job.pod))
        except Refusal as refusal:
            assert refusal.code == "WORKLOAD_CONFLICT"
            assert job.outcome is None
            assert not job.cancelled
            return
        if job.outcome is None:
            assert job.cancelled
            self.end(job_id, "terminated")
        self.burn(job_id)

    @precondition(lambda self: self.burnt)
    @rule(data=st.data(), outcome=st.sampled_from(OUTCOMES))
    def a_late_report_changes_nothing(self, data: st.DataObject, outcome: Any) -> None:
        job_id, key, pod = data.draw(st.sampled_from(self.burnt))
        before = self.rows(job_id)
        acts: tuple[Callable[[], None], ...] = (
            lambda: self.jobs.report(self.tx, Held("dep-1", job_id, key, pod), outcome, None),
            lambda: self.jobs.clean_up(self.tx, Held("dep-1", job_id, key, pod)),
            lambda: self.jobs.lose(self.tx, "dep-1", job_id, key, "late"),
        )
        for act in acts:
            try:
                act()
            except Refusal as refusal:
                assert refusal.code == "WORKLOAD_CONFLICT"
        assert self.rows(job_id) == before

    @precondition(lambda self: any(job.key for job in self.model.values()))
    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        job_id = data.draw(st.sampled_from(sorted(key for key, job in self.model.items() if job.key)))
        job = self.model[job_id]
        assert job.key is not None
        self.jobs.lose(self.tx, "dep-1", job_id, job.key, "its Pod ended")
        if job.outcome is None:
            self.retry_or_end(job_id)
        self.burn(job_id)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def terminate(self, data: st.DataObject) -> None:
        job_id = data.draw(st.sampled_from(sorted(self.model)))
        job = self.model[job_id]
        stored = job_reads.find(self.conn, job_id)
        assert stored is not None
        self.jobs.terminate(self.tx, stored.job, ALICE)
        if job.state == "running":
            job.cancelled = True
        elif job.state not in TERMINAL:
            self.end(job_id, "terminated")

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def resubmit(self, data: st.DataObject) -> None:
        job_id = data.draw(st.sampled_from(sorted(self.model)))
        job = self.model[job_id]
        stored = job_reads.find(self.conn, job_id)
        assert stored is not None
        try:
            again = self.jobs.resubmit(self.tx, stored, None, None, ALICE)
        except Refusal as refusal:
            assert refusal.code == "WORKLOAD_MANAGEMENT_CONFLICT"
            assert job.state not in TERMINAL or job.key is not None
            return
        assert job.state in TERMINAL
        assert job.key is None
        self.model[job_id] = Model(revision=job.revision + 1)
        assert again.submission_revision == job.revision + 1

    @rule(pod=st.sampled_from(PODS), everywhere=st.booleans(), sure=st.integers(0, 4))
    def upgrade(self, pod: str, everywhere: bool, sure: int) -> None:
        """A new revision; one Pod, or each, is replaced by one of it."""
        if sure:
            return
        self.generation += 1
        deployments.change(self.tx, "dep-1", generation=self.generation)
        for one in PODS if everywhere else (pod,):
            self.pod_generation[one] = self.generation

    @precondition(lambda self: self.accepting)
    @rule(sure=st.integers(0, 9))
    def delete(self, sure: int) -> None:
        if sure:
            return
        self.accepting = False
        deployments.change(self.tx, "dep-1", deletion_requested_at=self.now)
        assert self.jobs.terminate_waiting(self.tx, "dep-1", ALICE) is False
        for job_id, job in self.model.items():
            if job.state in ("queued", "retrying"):
                self.end(job_id, "terminated")

    @rule(seconds=st.sampled_from([0.5, 2, 90]))
    def time_passes(self, seconds: float) -> None:
        self.now += int(seconds * 1000)

    @rule()
    def deadlines_are_kept(self) -> None:
        self.jobs.expire(self.tx, "dep-1")
        for job_id, job in self.model.items():
            if job.waiting and not job.claimed and job.deadline is not None and job.deadline <= self.now:
                self.end(job_id, "terminated")

    def rows(self, job_id: str) -> list[Any]:
        return [
            tuple(row)
            for table in (jobs, history)
            for row in self.conn.execute(select(table).where(table.c.id == job_id))
        ]

    @invariant()
    def the_database_says_what_the_model_says(self) -> None:
        for job_id, job in self.model.items():
            rows = self.rows(job_id)
            assert len(rows) == 1, "an id is in one of the two tables"
            stored = job_reads.find(self.conn, job_id)
            assert stored is not None
            found = stored.job
            key = found.execution.id if found.execution else None
            assert (found.state, found.submission_revision, key) == (job.state, job.revision, job.key)
            assert found.previous_execution_id == job.previous
            assert (found.claimed_at is not None) == job.claimed
            over = job.state in TERMINAL and job.key is None
            assert (job_reads.find_open(self.conn, job_id) is None) == over
            assert (found.cleaned_at is not None) == over

    @invariant()
    def terminal_states_are_written_once(self) -> None:
        for job_id, job in self.model.items():
            if (job_id, job.revision) in self.ended:
                stored = job_reads.find(self.conn, job_id)
                assert stored is not None
                assert stored.job.state == self.ended[job_id, job.revision]

    @invariant()
    def slots_are_never_exceeded(self) -> None:
        held = select(jobs.c.pod_uid, func.count()).where(jobs.c.pod_uid.is_not(None)).group_by(jobs.c.pod_uid)
        for _, count in self.conn.execute(held):
            assert count <= SLOTS

    @invariant()
    def what_is_offered_may_be_claimed(self) -> None:
        found = queue.read(self.conn, "dep-1", 10, self.now)
        offered = {candidate.job_id for candidate in found.waiting}
        for job_id, job in self.model.items():
            late = not job.claimed and job.deadline is not None and job.deadline <= self.now
            due = job.waiting and job.not_before <= self.now and not late and self.accepting
            assert (job_id in offered) == due

    @invariant()
    def counts_agree(self) -> None:
        deployment = self.deployment() if self.model else None
        if deployment is None:
            return
        counts = deployments.job_counts(self.conn, {"dep-1": deployment.jobs_submitted})["dep-1"]
        states = [job.state for job in self.model.values()]
        assert counts.queued == states.count("queued")
        assert counts.retrying == states.count("retrying")
        assert counts.running == states.count("running")
        assert counts.terminal == sum(state in TERMINAL for state in states)
        assert counts.unreleased == sum(job.key is not None for job in self.model.values())


TestJobs = JobMachine.TestCase
TestJobs.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
pytest.mark.req("JB-004", "JB-005", "JB-009", "JB-011", "DP-102", "DP-108")(TestJobs)
