"""Making a run's objects: the pool's Namespace is learnt, then the Secret is made, and the batch Job last and once."""

from __future__ import annotations

from anycloud_common.reconcile import Blocked, Done, Outcome, in_order

from anycloud_deployment.domain import job_manifest
from anycloud_deployment.domain.observe import NO_POOL_NAMESPACE
from anycloud_deployment.reconcile.image_jobs.run import Run

_REFUSED_RETRY_S = 30.0


async def make(run: Run) -> Outcome:
    """A Job whose UID is known is never made again: its container may have run."""
    if run.job.job_uid is not None:
        return Done()
    return await in_order((_learn_namespace, _make_secret, _make_job), run)


async def _learn_namespace(run: Run) -> Outcome:
    """Nothing is written into a Namespace that isn't the pool's own."""
    pool = await run.tools.pools.find(run.job.node_pool_id)
    if pool is None:
        return await run.waits(f"Node pool {run.job.node_pool_id} doesn't exist any more.", _REFUSED_RETRY_S)
    if pool.namespace_error:
        return await run.waits(pool.namespace_error, _REFUSED_RETRY_S)
    if not pool.namespace:
        return await run.waits(NO_POOL_NAMESPACE)
    if run.job.namespace != pool.namespace:
        await run.note(namespace=pool.namespace)
    return Done()


async def _make_secret(run: Run) -> Outcome:
    names, tools = run.stored.spec.secrets, run.tools
    if not names:
        return Done()
    resolved = await tools.store.read(lambda conn: tools.secrets.resolve(conn, names))
    if resolved.missing:
        return await run.waits(f"Secret {', '.join(resolved.missing)} doesn't exist; save it again.")
    made = await tools.objects.create("Secret", job_manifest.secret(run.place, resolved.values))
    if run.job.secret_uid != made.uid:
        await run.note(secret_uid=made.uid)
    return Done()


async def _make_job(run: Run) -> Outcome:
    """A kill between making and recording is harmless: the same name and intent find the one that was made."""
    env = await run.tools.store.read(lambda conn: run.tools.jobs.env(conn, run.job.id))
    spec = run.stored.with_env(env)
    made = await run.tools.objects.create("Job", job_manifest.job(run.place, spec, run.stored.resources))
    await run.note(job_uid=made.uid)
    return Done() if not made.deleting else Blocked("somebody deletes the Job", 1.0)
