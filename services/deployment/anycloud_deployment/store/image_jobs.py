"""Stored image Jobs. Each write that a transition causes is logged, and refused when another write came between."""

from __future__ import annotations

import dataclasses
import json
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from anycloud_common.cipher import Cipher
from anycloud_common.store import Tx
from sqlalchemy import Connection, bindparam, delete, insert, select, update

from anycloud_deployment.domain.image_jobs import ImageJob, Reason, Step
from anycloud_deployment.domain.model import Resources, Spec
from anycloud_deployment.domain.ports import Wakes
from anycloud_deployment.store import events, rows
from anycloud_deployment.store.events import KEPT_MS, SERVICE, Actor
from anycloud_deployment.store.job_reads import Submission
from anycloud_deployment.store.jobs import KIND
from anycloud_deployment.store.tables import image_job_secrets, image_jobs

_PRUNED_AT_ONCE = 100
_OWN_FIELDS = tuple(field.name for field in dataclasses.fields(ImageJob))
_FIXED = frozenset({"id", "node_pool_id", "node_pool_name", "visible", "time_limit_s"})


# What `stored` reads; the sealed values may be large.
COLUMNS = (
    *(column for column in image_jobs.c if column.name not in ("env", "output")),
    image_jobs.c.output.is_not(None).label("kept"),
)
_BY_ID = select(*COLUMNS).where(image_jobs.c.id == bindparam("id"))
_BY_RUN = select(*COLUMNS).where(image_jobs.c.run == bindparam("run"))


class Changed(Exception):
    """Somebody else wrote the Job meanwhile; what was found out is dropped."""


@dataclass(frozen=True)
class StoredImageJob:
    """An image Job with what was asked for; the spec without its environment. `kept`: there is output of a run that
    has ended."""

    job: ImageJob
    submission: Submission
    created_by: str
    created_at: int
    spec: Spec
    resources: Resources
    admission_id: str
    kept: bool = False

    def with_env(self, env: Mapping[str, str]) -> Spec:
        return dataclasses.replace(self.spec, env=env)


class ImageJobs:
    def __init__(self, cipher: Cipher, wakes: Wakes) -> None:
        self._cipher = cipher
        self._wakes = wakes

    def add(self, tx: Tx, stored: StoredImageJob, actor: Actor) -> None:
        """A new one, with its environment, for nobody to see yet."""
        job, asked, spec = stored.job, stored.submission, stored.spec
        tx.conn.execute(
            insert(image_jobs).values(
                **_values(job),
                id=job.id,
                node_pool_id=job.node_pool_id,
                node_pool_name=job.node_pool_name,
                visible=False,
                time_limit_s=job.time_limit_s,
                created_by=actor.id,
                created_at=tx.now,
                session=asked.session,
                session_label=asked.session_label,
                agent=asked.agent,
                image=spec.image,
                settings=rows.settings(spec),
                env=self._cipher.seal(json.dumps(dict(spec.env)).encode(), image_jobs.name, "env", job.id),
                resources=json.dumps(dataclasses.asdict(stored.resources)),
                admission_id=stored.admission_id,
            )
        )
        _refer(tx, job.id, spec.secrets)

    def show(self, tx: Tx, job: ImageJob, actor: Actor) -> ImageJob:
        """The end of a first admission."""
        shown = dataclasses.replace(job, visible=True)
        tx.conn.execute(update(image_jobs).where(image_jobs.c.id == job.id).values(visible=True))
        self._announce(tx, Step(shown, Reason.SUBMITTED), actor)
        return shown

    def begin_again(self, tx: Tx, step: Step, secrets: Sequence[str], actor: Actor, **columns: Any) -> ImageJob:
        """Stores a new submission of a Job that is over. Raises Changed."""
        _refer(tx, step.job.id, secrets)
        return self.save(tx, step, actor, output=None, **columns)

    def save(self, tx: Tx, step: Step, actor: Actor = SERVICE, **columns: Any) -> ImageJob:
        """Stores a transition. Raises Changed."""
        job = self.note(tx, step.job, **columns)
        if job.over:
            tx.conn.execute(delete(image_job_secrets).where(image_job_secrets.c.job_id == job.id))
        self._announce(tx, step, actor)
        return job

    def note(self, tx: Tx, job: ImageJob, **columns: Any) -> ImageJob:
        """Stores what became known, without an event. Raises Changed."""
        mine = (image_jobs.c.id == job.id) & (image_jobs.c.version == job.version)
        after = dataclasses.replace(job, version=job.version + 1)
        if tx.conn.execute(update(image_jobs).where(mine).values(**_values(after), **columns)).rowcount != 1:
            raise Changed(job.id)
        return after

    def env(self, conn: Connection, job_id: str) -> dict[str, str]:
        """The variables that were given. Raises LookupError for a Job that doesn't exist."""
        sealed = conn.execute(select(image_jobs.c.env).where(image_jobs.c.id == job_id)).scalar()
        if sealed is None:
            raise LookupError(f"image Job {job_id}")
        read: dict[str, str] = json.loads(self._cipher.open(sealed, image_jobs.name, "env", job_id))
        return read

    def sealed_output(self, run: str, output: bytes) -> bytes:
        """What `note` takes as the column `output`."""
        return self._cipher.seal(zlib.compress(output), image_jobs.name, "output", run)

    def output(self, conn: Connection, run: str) -> bytes | None:
        """The kept end of what a run's container wrote; None when none is kept."""
        sealed = conn.execute(select(image_jobs.c.output).where(image_jobs.c.run == run)).scalar()
        return None if sealed is None else zlib.decompress(self._cipher.open(sealed, image_jobs.name, "output", run))

    def _announce(self, tx: Tx, step: Step, actor: Actor) -> None:
        job = step.job
        detail = {"message": job.message, "exitCode": job.exit_code if step.reason == Reason.ENDED else None}
        events.append(tx, KIND, job.id, step.reason, actor, state=job.state, **detail)
        tx.after_commit(partial(self._wakes.job, job.id))
        tx.after_commit(partial(self._wakes.image_job, job.run))


def find(conn: Connection, job_id: str) -> StoredImageJob | None:
    """By id, whether visible or not."""
    row = conn.execute(_BY_ID, {"id": job_id}).first()
    return None if row is None else stored(row)


def of_run(conn: Connection, run: str) -> StoredImageJob | None:
    """The Job whose present submission is that run."""
    row = conn.execute(_BY_RUN, {"run": run}).first()
    return None if row is None else stored(row)


def unclean(conn: Connection, node_pool_ids: Collection[str] | None = None) -> list[str]:
    """Runs that may have objects, on these pools or on any."""
    statement = select(image_jobs.c.run).where(image_jobs.c.cleaned_at.is_(None), image_jobs.c.visible)
    if node_pool_ids is not None:
        statement = statement.where(image_jobs.c.node_pool_id.in_(node_pool_ids))
    return list(conn.execute(statement.order_by(image_jobs.c.run)).scalars())


def forget(tx: Tx, job_id: str) -> None:
    """Removes one that never became visible; no other."""
    hidden = (image_jobs.c.id == job_id) & image_jobs.c.visible.is_(False)
    if tx.conn.execute(delete(image_jobs).where(hidden)).rowcount:
        tx.conn.execute(delete(image_job_secrets).where(image_job_secrets.c.job_id == job_id))


def users_of(conn: Connection, secret: str) -> list[str]:
    """Ids of the Jobs, not yet over, that name the Secret."""
    statement = select(image_job_secrets.c.job_id).where(image_job_secrets.c.name_key == secret.lower())
    return list(conn.execute(statement.order_by(image_job_secrets.c.job_id)).scalars())


def runs_of(conn: Connection, job_ids: Collection[str]) -> list[str]:
    return list(conn.execute(select(image_jobs.c.run).where(image_jobs.c.id.in_(job_ids))).scalars())


def prune(tx: Tx) -> bool:
    """Drops a bounded number of outputs that are too old; True when there may be more."""
    old = image_jobs.c.output.is_not(None) & (image_jobs.c.cleaned_at < tx.now - KEPT_MS)
    aged = select(image_jobs.c.id).where(old).limit(_PRUNED_AT_ONCE)
    return tx.conn.execute(update(image_jobs).where(image_jobs.c.id.in_(aged)).values(output=None)).rowcount > 0


def stored(row: rows.AnyRow) -> StoredImageJob:
    job = ImageJob(**{name: row._mapping[name] for name in _OWN_FIELDS if name != "stopping"}, stopping=_reason(row))
    return StoredImageJob(
        job=job,
        submission=Submission(row.id, None, row.session, row.session_label, row.agent),
        created_by=row.created_by,
        created_at=row.created_at,
        spec=rows.spec(row.settings, {}),
        resources=rows.resources(row.resources),
        admission_id=row.admission_id,
        kept=row.kept,
    )


def _reason(row: rows.AnyRow) -> Reason | None:
    return None if row.stopping is None else Reason(row.stopping)


def _values(job: ImageJob) -> dict[str, Any]:
    """The columns that a transition may change."""
    return {name: getattr(job, name) for name in _OWN_FIELDS if name not in _FIXED}


def _refer(tx: Tx, job_id: str, names: Sequence[str]) -> None:
    if names:
        values = [{"name_key": name.lower(), "job_id": job_id} for name in names]
        tx.conn.execute(insert(image_job_secrets), values)
