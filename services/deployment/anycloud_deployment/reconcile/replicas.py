"""The Kubernetes Deployment that runs the replicas: which revision it has, and when that has come up."""

from __future__ import annotations

from anycloud_common.reconcile import Done, Outcome, Requeue
from anycloud_common.store import Tx

from anycloud_deployment.domain import manifest, observe
from anycloud_deployment.domain.ports import Native
from anycloud_deployment.reconcile.objects import current, make
from anycloud_deployment.reconcile.scope import Scope
from anycloud_deployment.store import deployments, revisions

_KIND = "Deployment"
APPLIED = "revision-applied"
ROLLED_OUT = "revision-rolled-out"
SETTLE_S = 3.0


async def bring_up_to_date(scope: Scope) -> Outcome:
    """Gives Kubernetes the revision that it is to have now. One that replaces another waits until no Job holds a slot
    on the old one; from the moment that it was asked for, the old one's Pods get no new Jobs."""
    target = await scope.target()
    known = scope.deployment.natives.deployment_uid
    there = await current(scope, _KIND, known)
    if there is not None and _as_left(scope, there) and scope.deployment.applied == target:
        return Done()
    revision = await scope.revision(target)
    template = manifest.fingerprint(scope.place, revision)
    if there is not None and scope.deployment.applied == target and template != scope.deployment.applied_template:
        return Done()  # it would replace Pods whose Jobs aren't finished: the next revision brings it
    body = manifest.deployment(scope.place, revision)
    made = there is None
    if there is None:
        there = await make(scope, _KIND, body, "deployment_uid", known)
    if not made or there.revision != target:
        await scope.take()
        there = await scope.tools.objects.apply(_KIND, body, there.uid)
    scope.tools.versions[scope.id] = (there.uid, there.version)
    if scope.deployment.applied != target:
        await scope.change(lambda tx: _applied(scope, tx, target, template), event=APPLIED, revision=target)
    return Done()


async def note_rollout(scope: Scope) -> Outcome:
    """A revision has rolled out once its ReplicaSet was available. Without a probe a container is ready as soon as it
    starts, and one that ends at once never came up: it has to stay available for a moment."""
    applied, available_since = scope.deployment.applied, scope.tools.available_since
    if applied is None or scope.deployment.rolled_out == applied:
        return Done()
    if not observe.available(scope.tools.view.replica_sets(scope.id), applied):
        available_since.pop(scope.id, None)
        return Done()
    left = _unsettled_s(scope, applied)
    if left > 0:
        return Requeue(left)
    available_since.pop(scope.id, None)
    await scope.save(event=ROLLED_OUT, rolled_out=applied)
    return Done()


async def release_older(scope: Scope) -> Outcome:
    """Gives back what earlier revisions hold of the pool, once their Pods are gone and none can come any more."""
    generation = scope.deployment.generation
    if scope.deployment.applied != generation:
        return Done()
    view = scope.tools.view
    old_pods = any(pod.generation != generation for pod in view.pods(scope.id))
    old_sets = any(found.generation != generation and found.wanted for found in view.replica_sets(scope.id))
    older = await scope.tools.store.read(lambda conn: revisions.superseded_admissions(conn, scope.id, generation))
    if older and not old_pods and not old_sets:
        await scope.take()
        await scope.change(lambda tx: _release(scope, tx))
    return Done()


def _unsettled_s(scope: Scope, applied: int) -> float:
    """Seconds that the revision has to stay available yet. A restart begins them anew."""
    pods = [pod for pod in scope.tools.view.pods(scope.id) if pod.generation == applied]
    if all(pod.probed for pod in pods):
        return 0.0
    now = scope.tools.clock.monotonic()
    seen = (applied, sum(pod.restarts for pod in pods))
    known, since = scope.tools.available_since.get(scope.id, (seen, now))
    since = since if known == seen else now
    scope.tools.available_since[scope.id] = (seen, since)
    return since + SETTLE_S - now


def _as_left(scope: Scope, there: Native) -> bool:
    """Whether nobody changed the object since this process last wrote it."""
    return scope.tools.versions.get(scope.id) == (there.uid, there.version)


def _applied(scope: Scope, tx: Tx, generation: int, template: str) -> dict[str, object]:
    revisions.drop_references(tx, scope.id, before=generation)
    return {"applied": generation, "applied_template": template}


def _release(scope: Scope, tx: Tx) -> dict[str, object]:
    """Unless a newer revision was asked for meanwhile: then a later pass does it."""
    now = deployments.get(tx.conn, scope.id)
    if now is not None and now.generation == scope.deployment.generation:
        older = revisions.superseded_admissions(tx.conn, scope.id, now.generation)
        scope.tools.admissions.releasing(tx, older)
    return {}
