"""Jobs in the database: each function is one transition, applied and logged in the caller's transaction.

A Job that is over and cleaned up moves to the history in the same transaction. Who waits for a change is woken after
the commit. `docs/jobs.md` says what holds and why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

from anycloud_common.store import Tx
from sqlalchemy import Connection, bindparam, delete, exists, func, insert, select, update

from anycloud_deployment.domain import jobs as life
from anycloud_deployment.domain.jobs import Candidate, Ending, Execution, Job, Outcome, Reason, Step, Worker
from anycloud_deployment.domain.model import Deployment
from anycloud_deployment.domain.ports import Wakes
from anycloud_deployment.domain.refusal import Refusal
from anycloud_deployment.store import events, rows
from anycloud_deployment.store.events import SERVICE, Actor
from anycloud_deployment.store.job_reads import Submission, Submitted, find_open, with_ids
from anycloud_deployment.store.tables import deployments, executions, history, image_jobs, jobs

KIND = "job"
_AT_ONCE = 200  # Jobs that one transaction ends when a Deployment is deleted or deadlines have passed

_ACCEPTING = deployments.c.visible & deployments.c.deletion_requested_at.is_(None)
_JOB = select(jobs).where(jobs.c.id == bindparam("id"))
_PAST_JOB = select(history).where(history.c.id == bindparam("id"))
_HOME = select(
    deployments.c.generation,
    deployments.c.applied,
    deployments.c.slots,
    _ACCEPTING.label("accepting"),
).where(deployments.c.id == bindparam("deployment_id"))
_USED = (
    exists(select(jobs.c.id).where(jobs.c.execution_id == bindparam("execution_id")))
    | exists(select(executions.c.id).where(executions.c.id == bindparam("execution_id")))
).label("used")
_HELD = (
    select(func.count())
    .where(jobs.c.deployment_id == bindparam("deployment_id"), jobs.c.pod_uid == bindparam("pod_uid"))
    .scalar_subquery()
    .label("held")
)
_CLAIMED_FROM = _HOME.add_columns(_USED, _HELD)
_ENDED = select(executions).where(executions.c.id == bindparam("id"))
_LAST_ORDER = select(func.coalesce(func.max(jobs.c.queue_order), 0))
_ADD = insert(jobs)
_COUNT_SUBMITTED = (
    update(deployments)
    .where(deployments.c.id == bindparam("deployment_id"))
    .values(jobs_submitted=deployments.c.jobs_submitted + bindparam("submitted"))
)
_SAVE = update(jobs).where(jobs.c.id == bindparam("job_id"))
_TAKE_OUT = delete(jobs).where(jobs.c.id == bindparam("job_id")).returning(jobs)
_PUT_AWAY = insert(history)
_TAKE_BACK = delete(history).where(history.c.id == bindparam("job_id")).returning(history)
_RECORD_ENDED = insert(executions)
_OTHER_KIND = select(image_jobs.c.id).where(image_jobs.c.id.in_(bindparam("ids", expanding=True))).limit(1)


class Home(NamedTuple):
    """What a Job needs to know of its Deployment."""

    generation: int
    applied: int | None
    slots: int
    accepting: bool

    @property
    def draining(self) -> bool:
        """Whether an upgrade or a deletion waits for Jobs."""
        return not self.accepting or self.applied != self.generation


class Claim(NamedTuple):
    """Who claims what, under which execution id."""

    deployment_id: str
    candidate: Candidate
    execution_id: str
    pod_uid: str


class Held(NamedTuple):
    """An execution as its worker names it."""

    deployment_id: str
    job_id: str
    execution_id: str
    pod_uid: str


class Jobs:
    def __init__(self, wakes: Wakes) -> None:
        self._wakes = wakes

    def submit(self, tx: Tx, deployment: Deployment, wanted: Sequence[Submission], actor: Actor) -> list[Job]:
        """Takes Jobs into a Deployment's queue, all or none, in their order. One that was taken before, word by word,
        is given again. Raises Refusal."""
        if len({submission.id for submission in wanted}) != len(wanted):
            raise _rejected("Two of the Jobs have the same id.")
        taken = with_ids(tx.conn, [submission.id for submission in wanted])
        known = {id: _repeated(deployment, found, wanted, actor) for id, found in taken.items()}
        new = [submission for submission in wanted if submission.id not in known]
        other = tx.conn.execute(_OTHER_KIND, {"ids": [submission.id for submission in new]}).scalar() if new else None
        if other is not None:
            raise _taken(other)
        if new and not deployment.accepting:
            raise _rejected(f"Deployment {deployment.name} is being deleted and takes no more Jobs.")
        fresh = self._insert(tx, deployment, new, actor)
        return [known.get(submission.id) or fresh[submission.id] for submission in wanted]

    def _insert(self, tx: Tx, deployment: Deployment, new: Sequence[Submission], actor: Actor) -> dict[str, Job]:
        if not new:
            return {}
        order = _last_order(tx.conn)
        fresh = {
            one.id: Job(one.id, deployment.id, 0, "queued", claim_deadline_at=life.deadline(tx.now, one.timeout_s))
            for one in new
        }
        tx.conn.execute(
            _ADD,
            [
                {
                    **rows.job_values(fresh[one.id]),
                    "id": one.id,
                    "deployment_id": deployment.id,
                    "created_by": actor.id,
                    "created_at": tx.now,
                    "session": one.session,
                    "session_label": one.session_label,
                    "agent": one.agent,
                    "timeout_s": _exact(one.timeout_s),
                    "queue_order": order + number,
                }
                for number, one in enumerate(new, 1)
            ],
        )
        tx.conn.execute(_COUNT_SUBMITTED, {"deployment_id": deployment.id, "submitted": len(new)})
        log = [events.row(tx, KIND, one.id, Reason.SUBMITTED, actor, state="queued") for one in new]
        events.append_all(tx, log)
        self._announce(tx, deployment.id, [job.claim_deadline_at for job in fresh.values()])
        return fresh

    def claim(self, tx: Tx, asked: Claim, worker: Worker | Refusal) -> Refusal | None:
        """Gives a Job to a worker; None is the yes, and the answer to a repeated claim too. `worker` is why not while
        the Pod takes no new Jobs. Only refusals that change nothing are raised."""
        deployment_id, candidate, execution_id, pod_uid = asked
        job = _of(tx.conn, deployment_id, candidate.job_id)
        if life.replayed(job, pod_uid, candidate, execution_id):
            return None
        key = {"deployment_id": deployment_id, "execution_id": execution_id, "pod_uid": pod_uid}
        home = tx.conn.execute(_CLAIMED_FROM, key).one()
        if home.used:
            raise life.used(execution_id)
        if isinstance(worker, Refusal):
            raise worker
        expired = life.expire(job, now=tx.now)
        if expired is not None:
            self._save(tx, expired, SERVICE)
            return life.stale(f"Job {job.id} wasn't claimed before its deadline.")
        if home.held >= home.slots:
            raise life.stale(f"The Pod holds {home.held} Jobs already, and {home.slots} are allowed.")
        accepting, generation = bool(home.accepting), home.generation
        step = life.claim(job, candidate, worker, execution_id, accepting=accepting, generation=generation, now=tx.now)
        self._save(tx, step, Actor(pod_uid), executionId=execution_id, pod=worker.pod_name, revision=worker.generation)
        return None

    def report(self, tx: Tx, held: Held, outcome: Outcome, message: str | None) -> None:
        """Takes an outcome; a repeated one changes nothing. Raises Refusal."""
        job = _of(tx.conn, held.deployment_id, held.job_id)
        if _is_over(tx.conn, job, held, outcome):
            return
        accepting = outcome != "retryable" or _home(tx.conn, held.deployment_id).accepting
        step = life.report(job, held.execution_id, held.pod_uid, outcome, message, accepting=accepting, now=tx.now)
        if step is not None:
            self._save(tx, step, Actor(held.pod_uid), executionId=held.execution_id, outcome=outcome)

    def clean_up(self, tx: Tx, held: Held) -> None:
        """Frees an execution's slot; a repeated call changes nothing. Raises Refusal."""
        job = _of(tx.conn, held.deployment_id, held.job_id)
        if _is_over(tx.conn, job, held, None):
            return
        step = life.clean_up(job, held.execution_id, held.pod_uid, now=tx.now)
        self._save(tx, step, Actor(held.pod_uid), executionId=held.execution_id)

    def terminate(self, tx: Tx, job: Job, actor: Actor, by: Reason = Reason.TERMINATED) -> None:
        """Ends a Job, or asks its worker to; one that is over stays as it is."""
        step = life.terminate(job, now=tx.now, by=by)
        if step is not None:
            self._save(tx, step, actor)

    def terminate_waiting(self, tx: Tx, deployment_id: str, actor: Actor) -> bool:
        """Ends Jobs that don't run, as their Deployment is being deleted; True when there may be more."""
        statement = (
            select(jobs)
            .where(jobs.c.deployment_id == deployment_id, jobs.c.state.in_(life.WAITING))
            .order_by(jobs.c.queue_order)
            .limit(_AT_ONCE)
        )
        found = tx.conn.execute(statement).all()
        for row in found:
            self.terminate(tx, rows.job(row), actor, Reason.DEPLOYMENT_DELETED)
        return len(found) == _AT_ONCE

    def expire(self, tx: Tx, deployment_id: str, job_id: str | None = None) -> int | None:
        """Ends Jobs of a Deployment, or one, that nobody claimed in time; gives when the next deadline is."""
        due = (
            select(jobs)
            .where(
                jobs.c.deployment_id == deployment_id,
                jobs.c.waiting,
                jobs.c.claimed_at.is_(None),
                jobs.c.claim_deadline_at.is_not(None),
            )
            .order_by(jobs.c.claim_deadline_at)
            .limit(_AT_ONCE)
        )
        for row in tx.conn.execute(due if job_id is None else due.where(jobs.c.id == job_id)):
            step = life.expire(rows.job(row), now=tx.now)
            if step is None:
                deadline: int = row.claim_deadline_at
                return deadline
            self._save(tx, step, SERVICE)
        return None

    def lose(self, tx: Tx, deployment_id: str, job_id: str, execution_id: str, cause: str) -> None:
        """Ends an execution that is known to be over without its worker's word."""
        job = find_open(tx.conn, job_id)
        if job is None:
            return
        accepting = _home(tx.conn, deployment_id).accepting
        step = life.lose(job, execution_id, cause, accepting=accepting, now=tx.now)
        if step is not None:
            self._save(tx, step, SERVICE, executionId=execution_id)

    def resubmit(self, tx: Tx, stored: Submitted, timeout_s: float | None, session: str | None, actor: Actor) -> Job:
        """Runs a Job again under its id. Raises Refusal."""
        step = life.resubmit(stored.job, timeout_s, now=tx.now)
        job = step.job
        before = tx.conn.execute(_TAKE_BACK, {"job_id": job.id}).one()
        changed = {**rows.job_values(job), "queue_order": _last_order(tx.conn) + 1, "timeout_s": _exact(timeout_s)}
        if session is not None:
            changed["session"] = session
        tx.conn.execute(_ADD, {**before._mapping, **changed})
        events.append(tx, KIND, job.id, Reason.RESUBMITTED, actor, state=job.state, submission=job.submission_revision)
        self._announce(tx, job.deployment_id, [job.claim_deadline_at])
        tx.after_commit(partial(self._wakes.job, job.id))
        return job

    def _announce(self, tx: Tx, deployment_id: str, deadlines: Sequence[int | None]) -> None:
        """New Jobs wait, some of them with a deadline."""
        tx.after_commit(partial(self._wakes.queue, deployment_id))
        due = min((deadline for deadline in deadlines if deadline is not None), default=None)
        if due is not None:
            tx.after_commit(partial(self._wakes.executions, deployment_id, (due - tx.now) / 1000))

    def _save(self, tx: Tx, step: Step, actor: Actor, **detail: Any) -> None:
        job = step.job
        if job.released:
            before = tx.conn.execute(_TAKE_OUT, {"job_id": job.id}).one()
            tx.conn.execute(_PUT_AWAY, {**before._mapping, **rows.job_values(job)})
        else:
            tx.conn.execute(_SAVE, {**rows.job_values(job), "job_id": job.id})
        if step.ended is not None:
            _record_ended(tx, job, *step.ended)
        told = {"message": step.message, **detail}
        events.append(tx, KIND, job.id, step.reason, actor, state=job.state, **told)
        for wake in self._wakings(tx, step):
            tx.after_commit(wake)

    def _wakings(self, tx: Tx, step: Step) -> list[Callable[[], None]]:
        job = step.job
        wakes: list[Callable[[], None]] = [partial(self._wakes.job, job.id)]
        execution = step.ended[0] if step.ended is not None else job.execution
        if execution is not None and step.reason != Reason.CLAIMED:
            wakes.append(partial(self._wakes.execution, execution.id))
        if step.ended is not None:
            wakes.append(partial(self._wakes.queue, job.deployment_id))
            if _home(tx.conn, job.deployment_id).draining:
                wakes.append(partial(self._wakes.deployment, job.deployment_id))
        return wakes


def cancelled(conn: Connection, held: Held) -> bool | None:
    """Whether an execution is to stop, or stopped because it was told to; None while that may still come. Raises
    Refusal."""
    job = _of(conn, held.deployment_id, held.job_id)
    ending = _ending(conn, job, held)
    if ending is not None:
        return ending == "terminated"
    assert job.execution is not None, "what hasn't ended holds the Job"
    if job.execution.worker.pod_uid != held.pod_uid:
        raise life.forbidden(held.execution_id)
    if job.execution.outcome is not None:
        return False
    return True if job.cancel_requested_at is not None else None


def _of(conn: Connection, deployment_id: str, job_id: str) -> Job:
    """A Job as a worker of its Deployment may see it. Raises Refusal."""
    row = conn.execute(_JOB, {"id": job_id}).first() or conn.execute(_PAST_JOB, {"id": job_id}).first()
    if row is None or row.deployment_id != deployment_id:
        raise Refusal("WORKLOAD_NOT_FOUND", f"Deployment {deployment_id} has no Job {job_id}.")
    return rows.job(row)


def _home(conn: Connection, deployment_id: str) -> Home:
    return Home(*conn.execute(_HOME, {"deployment_id": deployment_id}).one())


def _is_over(conn: Connection, job: Job, held: Held, outcome: Outcome | None) -> bool:
    """Whether a report (None: a cleanup) repeats what an execution did before it was over. Raises Refusal when the
    execution is over and that isn't so."""
    ending = _ending(conn, job, held)
    if ending is None:
        return False
    if ending == "lost" or outcome not in (None, ending):
        raise life.replaced(job.id, held.execution_id)
    return True


def _ending(conn: Connection, job: Job, held: Held) -> Ending | None:
    """How an execution of the Job ended; None while it holds the Job. Raises Refusal when it never was one, or is
    another Pod's."""
    if job.execution is not None and job.execution.id == held.execution_id:
        return None
    row = conn.execute(_ENDED, {"id": held.execution_id}).first()
    if row is None or row.job_id != job.id:
        raise Refusal("WORKLOAD_NOT_FOUND", f"Job {job.id} has no execution {held.execution_id}.")
    if row.pod_uid != held.pod_uid:
        raise life.forbidden(held.execution_id)
    ending: Ending = row.ending
    return ending


def _record_ended(tx: Tx, job: Job, execution: Execution, ending: Ending) -> None:
    ended = {"id": execution.id, "job_id": job.id, "pod_uid": execution.worker.pod_uid}
    tx.conn.execute(_RECORD_ENDED, {**ended, "ending": ending, "ended_at": tx.now})


def _repeated(deployment: Deployment, stored: Submitted, wanted: Sequence[Submission], actor: Actor) -> Job:
    """The Job of an id that was taken before by the very same submission. Raises Refusal for any other."""
    asked = next(submission for submission in wanted if submission.id == stored.submission.id)
    same = (
        stored.created_by == actor.id
        and stored.job.deployment_id == deployment.id
        and stored.job.submission_revision == 0
        and stored.submission == asked
    )
    if not same:
        raise _taken(asked.id)
    return stored.job


def _taken(job_id: str) -> Refusal:
    return Refusal("WORKLOAD_ID_CONFLICT", f"Id {job_id} belongs to another submission; choose a new one.")


def _last_order(conn: Connection) -> int:
    return cast(int, conn.execute(_LAST_ORDER).scalar_one())


def _exact(timeout_s: float | None) -> str | None:
    return None if timeout_s is None else repr(timeout_s)


def _rejected(message: str) -> Refusal:
    return Refusal("WORKLOAD_ADMISSION_REJECTED", message)
