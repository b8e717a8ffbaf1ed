"""Admission of image Jobs: what is asked for is checked, takes its place on the pool, and only then exists."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from anycloud_common import admission, ids
from anycloud_common.admission import Admissions
from anycloud_common.holds import Parent
from anycloud_common.store import Store, Tx
from sqlalchemy import Connection

from anycloud_deployment.domain import image_jobs as life
from anycloud_deployment.domain.image_jobs import ImageJob
from anycloud_deployment.domain.model import Pool, Resources
from anycloud_deployment.domain.ports import Images, NodePools
from anycloud_deployment.domain.refusal import Refusal
from anycloud_deployment.rpc import placement
from anycloud_deployment.rpc.image_submissions import Wanted
from anycloud_deployment.rpc.refusals import rejected
from anycloud_deployment.store import image_jobs, job_reads, secrets
from anycloud_deployment.store.events import Actor
from anycloud_deployment.store.image_jobs import ImageJobs, StoredImageJob
from anycloud_deployment.store.jobs import KIND

_POOL = "node-pool"
_WHAT = "Job"
_CONFLICT = "WORKLOAD_MANAGEMENT_CONFLICT"
_KEPT = ("WORKLOAD_ID_CONFLICT", "WORKLOAD_ADMISSION_UNAVAILABLE")


@dataclass(frozen=True)
class Tools:
    store: Store
    jobs: ImageJobs
    admissions: Admissions
    pools: NodePools
    images: Images


async def submit(tools: Tools, wanted: Wanted, actor: Actor) -> ImageJob:
    """A new image Job, or the one that the very same request made before. Raises Refusal; nothing is stored before
    everything that can be known was checked."""
    try:
        repeated = await tools.store.read(partial(_repeated, tools=tools, wanted=wanted, actor=actor))
        if repeated is not None:
            return repeated
        pool = await placement.pool(tools.pools, wanted.node_pool, _WHAT)
        resources = await placement.resources(tools.images, pool, wanted.spec, None, _WHAT)
        new = _new(wanted, pool, resources, actor)
        return await _admit(tools, partial(_begin, tools, new, actor), partial(_show, tools, new, actor))
    except Refusal as refusal:
        raise refusal if refusal.code in _KEPT else rejected(refusal.message) from None


async def resubmit(tools: Tools, stored: StoredImageJob, session: str | None, actor: Actor) -> ImageJob:
    """Runs an image Job again as it was asked for, on the pool that it had. Raises Refusal."""
    life.check_resubmittable(stored.job)
    try:
        pool = await placement.pool(tools.pools, stored.job.node_pool_id, _WHAT)
        await placement.resources(tools.images, pool, stored.spec, stored.resources.gpus, _WHAT)
        again = partial(_show_again, tools, stored, actor, session=session)
        return await _admit(tools, partial(_begin_again, tools, stored), again)
    except Refusal as refusal:
        raise Refusal(_CONFLICT, refusal.message) from None


async def _admit(tools: Tools, begin: Callable[[Tx], str], publish: Callable[[str, Tx], ImageJob]) -> ImageJob:
    """Stores the intent, takes the hold, makes it visible. Raises Refusal."""
    admission_id = await tools.store.write(begin)
    try:
        async with tools.admissions.attempt(admission_id):
            await tools.admissions.acquire(admission_id)
            return await tools.store.write(partial(publish, admission_id))
    except admission.Refused as refused:
        raise rejected(str(refused)) from None
    except (admission.Conflict, image_jobs.Changed):
        raise rejected("Another request for the same Job came between; look at its status.") from None


def _new(wanted: Wanted, pool: Pool, resources: Resources, actor: Actor) -> StoredImageJob:
    job = ImageJob(
        id=wanted.submission.id,
        run=ids.new("job"),
        node_pool_id=pool.id,
        node_pool_name=pool.name,
        submission_revision=0,
        state="queued",
        visible=False,
        time_limit_s=wanted.time_limit_s,
    )
    return StoredImageJob(job, wanted.submission, actor.id, 0, wanted.spec, resources, "")


def _begin(tools: Tools, new: StoredImageJob, actor: Actor, tx: Tx) -> str:
    """Invisible, but it holds its id and counts as a user of its Secrets."""
    if image_jobs.find(tx.conn, new.job.id) is not None or job_reads.find(tx.conn, new.job.id) is not None:
        raise _taken(new.job.id)
    _check_secrets(tx.conn, new)
    admission_id = _hold(tools, new, tx)
    tools.jobs.add(tx, replace(new, admission_id=admission_id), actor)
    return admission_id


def _show(tools: Tools, new: StoredImageJob, actor: Actor, admission_id: str, tx: Tx) -> ImageJob:
    tools.admissions.admitted(tx, admission_id, 0)
    _check_secrets(tx.conn, new)
    return tools.jobs.show(tx, new.job, actor)


def _begin_again(tools: Tools, stored: StoredImageJob, tx: Tx) -> str:
    _check_secrets(tx.conn, stored)
    return _hold(tools, stored, tx)


def _show_again(
    tools: Tools, stored: StoredImageJob, actor: Actor, admission_id: str, tx: Tx, *, session: str | None
) -> ImageJob:
    """One of several at a time is the first: the others' revision is gone."""
    now = image_jobs.find(tx.conn, stored.job.id)
    assert now is not None, "what was visible stays"
    tools.admissions.admitted(tx, admission_id, now.job.submission_revision)
    _check_secrets(tx.conn, stored)
    columns = {"admission_id": admission_id} | ({} if session is None else {"session": session})
    return tools.jobs.begin_again(tx, life.resubmit(now.job, ids.new("job")), stored.spec.secrets, actor, **columns)


def _hold(tools: Tools, stored: StoredImageJob, tx: Tx) -> str:
    return tools.admissions.begin(
        tx,
        KIND,
        stored.job.id,
        base_revision=stored.job.submission_revision,
        devices=stored.resources.gpus,
        parents=[Parent(_POOL, stored.job.node_pool_id)],
    )


def _check_secrets(conn: Connection, stored: StoredImageJob) -> None:
    missing = secrets.missing(conn, stored.spec.secrets)
    if missing:
        raise rejected(f"secrets names {missing[0]}, and there is no such Secret; save it first.")


def _repeated(conn: Connection, tools: Tools, wanted: Wanted, actor: Actor) -> ImageJob | None:
    """The Job of an id that was taken before by the very same request; None when it is free. Raises Refusal for any
    other use of it."""
    asked = wanted.submission
    found = image_jobs.find(conn, asked.id)
    if found is None:
        if job_reads.find(conn, asked.id) is not None:
            raise _taken(asked.id)
        return None
    if not found.job.visible:
        raise Refusal("WORKLOAD_ADMISSION_UNAVAILABLE", f"Job {asked.id} is just being taken in; ask again.")
    same = (
        found.created_by == actor.id
        and found.job.submission_revision == 0
        and found.submission == asked
        and found.job.time_limit_s == wanted.time_limit_s
        and wanted.node_pool in (found.job.node_pool_id, found.job.node_pool_name)
        and found.with_env(tools.jobs.env(conn, asked.id)) == wanted.spec
    )
    if not same:
        raise _taken(asked.id)
    return found.job


def _taken(job_id: str) -> Refusal:
    return Refusal("WORKLOAD_ID_CONFLICT", f"Id {job_id} belongs to another submission; choose a new one.")
