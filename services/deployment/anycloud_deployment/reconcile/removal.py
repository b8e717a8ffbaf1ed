"""The end of a Deployment: its Jobs finish, then its objects go, then what it holds of the pool."""

from __future__ import annotations

from functools import partial

from anycloud_common.reconcile import Blocked, Done, Outcome
from anycloud_common.store import Tx

from anycloud_deployment.domain.observe import RELEASING_JOBS, RELEASING_OBJECTS
from anycloud_deployment.reconcile.scope import Scope
from anycloud_deployment.store import deployments, job_reads, revisions
from anycloud_deployment.store.events import SERVICE

DELETED = "deleted"
_LOOK_AGAIN_S = 10.0  # the watches tell at once, but never of what came and went while they were cut


async def end_waiting_jobs(scope: Scope) -> Outcome:
    """Ends the Jobs that don't run."""
    while await scope.tools.store.write(
        partial(scope.tools.jobs.terminate_waiting, deployment_id=scope.id, actor=SERVICE)
    ):
        pass
    return Done()


async def drain(scope: Scope) -> Outcome:
    """Waits for the Jobs that run, and for their cleanup; each cleanup asks for another pass."""
    held = await scope.tools.store.read(lambda conn: bool(job_reads.holding(conn, scope.id)))
    return Blocked(RELEASING_JOBS) if held else Done()


async def remove_objects(scope: Scope) -> Outcome:
    """Deletes our own objects, each by its UID, and waits until they and the Pods are gone."""
    known = scope.deployment.natives
    if known.namespace is None:
        return Done()
    await scope.take()
    gone = [
        await _remove(scope, "Deployment", known.deployment_uid),
        await _remove(scope, "Secret", known.secret_uid),
    ]
    objects = scope.tools.objects
    left = await objects.pods(known.namespace, scope.id) or await objects.replica_sets(known.namespace, scope.id)
    if left or not all(gone):
        return Blocked(RELEASING_OBJECTS, _LOOK_AGAIN_S)
    gone_too = await _remove(scope, "ServiceAccount", None)
    return Done() if gone_too else Blocked(RELEASING_OBJECTS, _LOOK_AGAIN_S)


async def let_go(scope: Scope) -> Outcome:
    """Nothing native is left: the pool may go as well now."""
    await scope.change(lambda tx: _deleted(scope, tx), event=DELETED)
    scope.tools.versions.pop(scope.id, None)
    scope.tools.available_since.pop(scope.id, None)
    return Done()


async def _remove(scope: Scope, kind: str, uid: str | None) -> bool:
    """True once there is no such object of ours. One whose UID was never recorded is known by its owner and intent; a
    ServiceAccount always is, as somebody else's may have taken its place while we ran."""
    found = await scope.tools.objects.find(kind, scope.namespace, scope.id)
    if found is None or not (found.uid == uid or (found.ours and uid is None)):
        return True
    return await scope.tools.objects.delete(kind, scope.namespace, scope.id, found.uid)


def _deleted(scope: Scope, tx: Tx) -> dict[str, object]:
    held = scope.tools.admissions.of_owner(tx.conn, deployments.KIND, scope.id)
    scope.tools.admissions.releasing(tx, [row.admission.id for row in held])
    revisions.drop_references(tx, scope.id)
    return {"deleted_at": tx.now, "updated_at": tx.now}
