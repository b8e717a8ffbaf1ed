"""Create and update as admissions: what is asked for is checked, takes its place on the pool, and only then exists."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from anycloud_common import admission, ids
from anycloud_common.admission import Admissions
from anycloud_common.holds import Parent
from anycloud_common.store import Store, Tx

from anycloud_deployment.domain.model import Deployment, Pool, Resources, Revision, Spec
from anycloud_deployment.domain.ports import Images, NodePools, Wakes
from anycloud_deployment.domain.refusal import Refusal, conflict, invalid, not_found
from anycloud_deployment.domain.spec import check_spec
from anycloud_deployment.domain.update import Update, check_update, updated
from anycloud_deployment.rpc import placement
from anycloud_deployment.store import deployments, events, secrets
from anycloud_deployment.store.events import Actor
from anycloud_deployment.store.revisions import Revisions

CREATED = "created"
UPDATED = "updated"
_POOL = "node-pool"
_POOL_GONE = "NODE_POOL_NOT_FOUND"


@dataclass(frozen=True)
class Tools:
    store: Store
    revisions: Revisions
    admissions: Admissions
    pools: NodePools
    images: Images
    wakes: Wakes


async def create(tools: Tools, name: str, node_pool: str, spec: Spec, actor: Actor) -> Deployment:
    """A new Deployment. Raises Refusal; nothing is stored before everything that can be known was checked."""
    problem = ids.check_name("Deployment", name)
    if problem is not None:
        raise invalid(problem)
    check_spec(spec)
    pool = await placement.pool(tools.pools, node_pool, "Deployment")
    wanted = _Wanted(tools, actor, pool, spec, await placement.resources(tools.images, pool, spec, None))
    new_id = ids.new("dep")
    return await wanted.admit(partial(_store_new, wanted, new_id, name), partial(_show_new, wanted, new_id))


async def update(tools: Tools, deployment: Deployment, change: Update, actor: Actor) -> Deployment:
    """The next revision. Raises Refusal, and then nothing has changed."""
    check_update(change)
    check_alive(deployment)
    base = partial(tools.revisions.get, deployment_id=deployment.id, generation=deployment.generation)
    before = await tools.store.read(base)
    spec = check_spec(updated(before.spec, change))
    pool = await placement.pool(tools.pools, deployment.node_pool_id, "Deployment")
    kept = None if change.recomputes_gpus else before.resources.gpus
    wanted = _Wanted(tools, actor, pool, spec, await placement.resources(tools.images, pool, spec, kept))
    return await wanted.admit(partial(_begin_next, wanted, deployment), partial(_store_next, wanted, deployment))


def check_alive(deployment: Deployment) -> None:
    """Raises Refusal for a Deployment that is being deleted, or is deleted."""
    if deployment.deletion_requested_at is not None:
        raise conflict(f"Deployment {deployment.name} is being deleted and can't be changed.")


class _Wanted:
    """One revision on its way in."""

    def __init__(self, tools: Tools, actor: Actor, pool: Pool, spec: Spec, resources: Resources) -> None:
        self.tools = tools
        self.actor = actor
        self.pool = pool
        self.spec = spec
        self.resources = resources

    async def admit(self, begin: Callable[[Tx], str], publish: Callable[[Tx, str], Deployment]) -> Deployment:
        """Stores the intent, takes the holds, makes it visible. Raises Refusal."""
        admission_id = await self.tools.store.write(begin)
        try:
            async with self.tools.admissions.attempt(admission_id):
                await self.tools.admissions.acquire(admission_id)
                return await self.tools.store.write(lambda tx: publish(tx, admission_id))
        except admission.Refused as refused:
            raise not_found(str(refused)) if refused.code == _POOL_GONE else conflict(str(refused)) from None
        except admission.Conflict:
            raise _raced() from None

    def begin(self, tx: Tx, deployment_id: str, base_revision: int) -> str:
        """The admission's first step, with the GPUs of all replicas."""
        return self.tools.admissions.begin(
            tx,
            deployments.KIND,
            deployment_id,
            base_revision=base_revision,
            devices=self.resources.gpus * self.spec.replicas,
            parents=[Parent(_POOL, self.pool.id)],
        )

    def add_revision(self, tx: Tx, deployment_id: str, generation: int, admission_id: str) -> None:
        revision = Revision(generation, self.spec, self.resources, admission_id, tx.now)
        self.tools.revisions.add(tx, deployment_id, revision)

    def check_secrets(self, tx: Tx) -> None:
        missing = secrets.missing(tx.conn, self.spec.secrets)
        if missing:
            raise invalid(f"secrets names {missing[0]}, and there is no such Secret; save it first.")

    def shown(self, tx: Tx, deployment_id: str, event: str, revision: int) -> Deployment:
        """The end of an admission: its event, its reconciler's wake-up, and the Deployment as it is now."""
        events.append(tx, deployments.KIND, deployment_id, event, self.actor, revision=revision)
        tx.after_commit(partial(self.tools.wakes.deployment, deployment_id))
        tx.after_commit(partial(self.tools.wakes.queue, deployment_id))
        found = deployments.get(tx.conn, deployment_id)
        assert found is not None, "it was written in this transaction"
        return found


def _store_new(wanted: _Wanted, new_id: str, name: str, tx: Tx) -> str:
    """Invisible, but it holds its name and counts as a user of its Secrets."""
    holder = deployments.holder_of(tx.conn, name)
    if holder is not None:
        raise conflict(f"Deployment name {name} is taken by {holder}; names are unique, whatever their case.")
    wanted.check_secrets(tx)
    deployments.add(
        tx,
        Deployment(
            id=new_id,
            name=name,
            node_pool_id=wanted.pool.id,
            node_pool_name=wanted.pool.name,
            created_by=wanted.actor.id,
            created_at=tx.now,
            updated_at=tx.now,
            generation=1,
            replicas=wanted.spec.replicas,
            slots=wanted.spec.slots,
            visible=False,
        ),
    )
    admission_id = wanted.begin(tx, new_id, 0)
    wanted.add_revision(tx, new_id, 1, admission_id)
    return admission_id


def _show_new(wanted: _Wanted, new_id: str, tx: Tx, admission_id: str) -> Deployment:
    wanted.tools.admissions.admitted(tx, admission_id, 0)
    wanted.check_secrets(tx)
    deployments.change(tx, new_id, visible=True)
    return wanted.shown(tx, new_id, CREATED, 1)


def _begin_next(wanted: _Wanted, deployment: Deployment, tx: Tx) -> str:
    _check_unchanged(tx, deployment)
    wanted.check_secrets(tx)
    return wanted.begin(tx, deployment.id, deployment.generation)


def _store_next(wanted: _Wanted, deployment: Deployment, tx: Tx, admission_id: str) -> Deployment:
    _check_unchanged(tx, deployment)
    wanted.tools.admissions.admitted(tx, admission_id, deployment.generation)
    wanted.check_secrets(tx)
    generation = deployment.generation + 1
    wanted.add_revision(tx, deployment.id, generation, admission_id)
    spec = wanted.spec
    deployments.change(
        tx, deployment.id, generation=generation, replicas=spec.replicas, slots=spec.slots, updated_at=tx.now
    )
    return wanted.shown(tx, deployment.id, UPDATED, generation)


def _check_unchanged(tx: Tx, deployment: Deployment) -> None:
    now = deployments.get(tx.conn, deployment.id)
    if now is None or now.generation != deployment.generation:
        raise _raced()
    check_alive(now)


def _raced() -> Refusal:
    return conflict("The Deployment was changed by another request meanwhile; run the command again.")
